"""Indices out of range on this machine's GPU: the call fails, and the next call is right."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

import webpte
from support.devices.native import need_native
from support.graphs.index_programs import OPS, least_of, picked, picking_program
from webpte.errors import IndexRangeError


@pytest.mark.parametrize("computed", [True, False])
@pytest.mark.parametrize("op", OPS)
def test_an_index_out_of_range_is_an_error(op: str, computed: bool) -> None:
    need_native()
    least, zero = least_of(op), np.zeros(1, np.int32)
    inside = np.array([1, least, 4, 2], np.int32)

    async def run() -> None:
        data = picking_program(op, computed)
        async with await webpte.load(data, device="native", strict=True) as program:
            for outside in (5, least - 1, 2**31 - 1, -(2**31)):
                index = np.array([0, 1, outside, 2], np.int32)
                with pytest.raises(IndexRangeError, match=f"valid are {least} to 4"):
                    await program.forward(index, zero)
            (found,) = await program.forward(inside, zero)
            assert found.tolist() == picked(op, inside.tolist())

    asyncio.run(run())

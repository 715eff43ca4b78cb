"""The NumPy references of the binary family against independent expectations."""

from __future__ import annotations

import pytest

import webpte
from support.binary_cases import BINARY_CASES
from support.cases import Case
from support.graphs import wait
from webpte.ops import lookup, registered_names


@pytest.mark.parametrize("case", BINARY_CASES, ids=str)
def test_reference(case: Case) -> None:
    async def run() -> None:
        program = await webpte.load(case.program(), device="numpy")
        (result,) = await program.forward(*case.inputs)
        case.check(result)

    wait(run())


def test_every_op_of_the_family_has_cases() -> None:
    family = {
        name
        for name in registered_names()
        if (op := lookup(name)) and op.lower.__module__ == "webpte.ops.binary"
    }
    assert len(family) >= 5
    assert family == {case.op for case in BINARY_CASES}

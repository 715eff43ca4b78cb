"""Casts to bfloat16 on this machine's GPU, bit for bit, and constants that are widened."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

import webpte
from support.devices.native import need_native
from support.graphs.bfloat16 import BITS, EDGES, adding, casting, rounded_bits
from support.graphs.offloading import places
from support.write.pte_writer import MethodWriter, write_pte
from webpte.engine.dtypes import DTYPES


@pytest.fixture(scope="module", autouse=True)
def _driver() -> None:
    need_native()


def run(method: MethodWriter, *inputs: np.ndarray) -> tuple[np.ndarray, ...]:
    async def call() -> tuple[np.ndarray, ...]:
        async with await webpte.load(write_pte(method), device="native") as program:
            assert set(places(program).values()) == {"gpu"}
            results: tuple[np.ndarray, ...] = await program.forward(*inputs)
            return results

    return asyncio.run(call())


@pytest.mark.parametrize("kernel", ["aten::_to_copy.out", "dim_order_ops::_to_dim_order_copy.out"])
def test_edges(kernel: str) -> None:
    got, _ = run(casting("float32", "bfloat16", kernel), EDGES, np.ones(4, np.float32))
    assert [hex(word) for word in got.view(np.uint32)] == [hex(word) for word in BITS]


def test_random_bits() -> None:
    words = np.random.default_rng(1).integers(0, 2**32, 40_001, np.uint32)
    method = casting("float32", "bfloat16", "aten::_to_copy.out", len(words))
    got, _ = run(method, words.view(np.float32), np.ones(4, np.float32))
    assert got.view(np.uint32).tolist() == list(map(rounded_bits, words.tolist()))


def test_every_float16() -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    method = casting("float16", "bfloat16", "aten::_to_copy.out", len(every))
    got, _ = run(method, every, np.ones(4, np.float32))
    want = DTYPES["bfloat16"].cast(every)
    assert np.array_equal(got, want, equal_nan=True)
    assert np.array_equal(np.signbit(got), np.signbit(want))


def test_constants_are_widened() -> None:
    every = DTYPES["bfloat16"].from_bytes(np.arange(1 << 16, dtype=np.uint16).tobytes())
    (got,) = run(adding(every), np.full(1 << 16, -0.0, np.float32))
    normal = np.abs(every) >= np.finfo(np.float32).tiny  # sums of others may be zero on a GPU
    assert np.array_equal(got[normal], every[normal])
    assert np.isnan(got[np.isnan(every)]).all()

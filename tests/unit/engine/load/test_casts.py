"""Casts between delegates: on the GPU where its results equal the host's."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import webpte
from support.graphs.graphs import wait
from support.graphs.offloading import places
from support.graphs.stitching import logcumsumexp, neg
from support.write.pte_writer import Host, MethodWriter, write_pte
from webpte.engine.dtypes import DTYPES
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.engine.load.offload_call import EXACT_CASTS

KERNEL = "aten::_to_copy.out"
PAIRS = [(a, b) for b, found in EXACT_CASTS.items() for a in sorted(found)]
# What a GPU rounds in its own way, cannot hold, or leaves open.
OTHERS = [pair for pair in product(DTYPES, DTYPES) if pair not in PAIRS and pair[0] != pair[1]]


def numbers(dtype: str) -> np.ndarray:
    kind = DTYPES[dtype].numpy
    if dtype == "bfloat16":
        return DTYPES[dtype].cast(numbers("float32"))
    if kind.kind == "f":
        return (
            np.array([0.1, -1 / 3, 1e30, -0.0, 65504.5, 1 + 2**-40, 3e-5], "float64")
            .clip(np.finfo(kind).min, np.finfo(kind).max)
            .astype(kind)
        )
    if kind.kind == "b":
        return np.array([True, False, True, True, False, False, True])
    limits = np.iinfo(kind)
    return np.array([0, 1, limits.max, limits.min, 7, 100, 3], kind)


def cast(m: MethodWriter, source: Host, target: str) -> Host:
    out = m.tensor((7,), target)
    m.kernel(KERNEL, source, False, None, out, out)
    return out


def casting(source: str, target: str) -> MethodWriter:
    """A cast of one input, and a delegate for another."""
    m = MethodWriter()
    x, y = m.tensor((7,), source), m.tensor((4,))
    m.inputs(x, y)
    m.outputs(cast(m, x, target), neg(m, y))
    return m


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_exact_casts_are_on_the_gpu(source: str, target: str) -> None:
    async def run() -> None:
        data = write_pte(casting(source, target))
        program = await webpte.load(data, device=SimulatedDevice())
        expected = await webpte.load(data, device="numpy")
        given = numbers(source), np.ones(4, np.float32)
        (got, _), (want, _) = await program.forward(*given), await expected.forward(*given)
        assert got.dtype == want.dtype
        assert np.array_equal(got, want)
        assert places(program) == {KERNEL: "gpu"} or places(program) == {KERNEL: "alias"}

    wait(run())


@pytest.mark.parametrize(("source", "target"), OTHERS)
def test_others_stay_on_the_host(source: str, target: str) -> None:
    async def run() -> None:
        program = await webpte.load(write_pte(casting(source, target)), device=SimulatedDevice())
        assert places(program) == {KERNEL: "host"}
        why = str(next(n.why for n in program.graph().nodes if n.op == KERNEL))
        assert "of one type" in why or "may not fit the 32 bits" in why

    wait(run())


def test_what_was_widened_is_whole_on_the_host() -> None:
    """neg on a delegate, to float64, and a product in NumPy."""
    m = MethodWriter()
    x, product_ = m.tensor((4,)), m.tensor((4,), "float64")
    m.inputs(x)
    wide, back = m.tensor((4,), "float64"), m.tensor((4,))
    m.kernel(KERNEL, neg(m, x), False, None, wide, wide)
    m.kernel("aten::logcumsumexp.out", wide, 0, product_, product_)
    m.kernel(KERNEL, wide, False, None, back, back)
    m.outputs(product_, neg(m, back), logcumsumexp(m, x))

    async def run() -> None:
        program = await webpte.load(write_pte(m), device=SimulatedDevice())
        expected = await webpte.load(write_pte(m), device="numpy")
        given = np.array([0.1, 1 / 3, 7, -1e-3], np.float32)
        for got, want in zip(
            await program.forward(given), await expected.forward(given), strict=True
        ):
            assert got.dtype == want.dtype
            assert np.array_equal(got, want)

    wait(run())

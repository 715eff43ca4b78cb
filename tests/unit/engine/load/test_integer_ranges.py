"""int64 on the GPU where no value can need more than 32 bits, and on the host everywhere else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import webpte
from support.graphs.graphs import wait
from support.graphs.stitching import expect, unary
from support.harness.samples import numbers
from support.write.graph_writer import GraphWriter
from support.write.pte_writer import Host, MethodWriter, write_pte
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.engine.load.integer_ranges import (
    ANYTHING,
    WORD,
    clamped,
    conjunction,
    modulo,
    quotient,
    remainder,
    result_range,
)

NARROW = "32 bits"
INPUT = np.array([[1, 5, 2], [7, 0, 7]], np.int64)


def first_of(m: MethodWriter, x: Host, rows: int) -> Host:
    """A delegate that gives the place of the largest of each row, as int64."""
    g = GraphWriter()
    source = g.tensor((rows, 5))
    g.inputs(source)
    args = (g.int(1), g.bool_(False))
    g.outputs(g.op("aten.argmax.default", source, *args, g.tensor((rows,), "int64")))
    out = m.tensor((rows,), "int64")
    m.delegate(g, [x, out])
    return out


def between(*kernels: tuple[str, Any], out: str = "int64") -> MethodWriter:
    """Places of a delegate, through kernels of one tensor, to the caller."""
    m = MethodWriter()
    x = m.tensor((4, 5))
    m.inputs(x)
    value = first_of(m, x, 4)
    for number, (name, args) in enumerate(kernels):
        dtype = out if number == len(kernels) - 1 else "int64"
        made = m.tensor((4,), dtype)
        m.kernel(name, value, *args, made, made)
        value = made
    m.outputs(value, unary(m, "aten.neg.default", x, (4, 5)))
    return m


ADD, MODULO = "aten::add.Scalar_out", "aten::remainder.Scalar_out"
GPU = [
    [(ADD, (1, 1)), (MODULO, (3,))],
    [("aten::mul.Scalar_out", (-7,)), ("aten::floor_divide.Scalar_out", (2,))],
    [("aten::cumsum.out", (0, None))],
    [("aten::sub.Scalar_out", (9, 2)), ("aten::fmod.Scalar_out", (4,))],
    [("aten::clamp.out", (1, 3)), ("aten::abs.out", ())],
    [("aten::neg.out", ()), ("aten::div.Scalar_mode_out", (3, "trunc"))],
    [("aten::flip.out", ([0],))],
]
HOST = [
    [("aten::mul.Scalar_out", (2**24,)), ("aten::mul.Scalar_out", (2**24,))],
    [(ADD, (2**31 - 1, 1))],
    [("aten::floor_divide.Scalar_out", (0,))],
]


def run(m: MethodWriter, *calls: list[np.ndarray], submitted: int = 1) -> list[str | None]:
    """Compare with NumPy; return why kernels stay on the host."""

    async def wait_for() -> list[str | None]:
        program = await expect(m, *calls, submitted=submitted)
        return [node.why for node in program.graph().nodes if "::" in node.op]

    return wait(wait_for())


@pytest.mark.parametrize("kernels", GPU, ids=str)
def test_places_stay_narrow(kernels: list[tuple[str, Any]]) -> None:
    assert not any(run(between(*kernels), [numbers(4, 5)], [-numbers(4, 5)]))


@pytest.mark.parametrize("kernels", HOST, ids=str)
def test_what_may_need_more_bits_stays_on_the_host(kernels: list[tuple[str, Any]]) -> None:
    m = between(*kernels)

    async def check() -> None:
        program = await webpte.load(write_pte(m), device=SimulatedDevice())
        why = [node.why for node in program.graph().nodes if node.op == kernels[-1][0]]
        assert NARROW in str(why[-1])

    wait(check())


def test_comparisons_of_places_are_bools() -> None:
    m = between(("aten::ge.Scalar_out", (2,)), out="bool")
    assert not any(run(m, [numbers(4, 5)]))


def test_numbers_of_the_caller_keep_their_64_bits() -> None:
    m = MethodWriter()
    x, made = m.tensor((2, 3), "int64"), m.tensor((2, 3), "int64")
    y = m.tensor((2, 3))
    m.inputs(x, y)
    m.kernel(ADD, x, 1, 1, made, made)
    m.outputs(made, unary(m, "aten.neg.default", y, (2, 3)))
    (why,) = run(m, [INPUT, numbers(2, 3)], [INPUT + 2**40, numbers(2, 3)])
    assert NARROW in str(why)


def counting(steps: int | None) -> MethodWriter:
    """A buffer that counts calls, up to `steps`; its value goes to the caller."""
    m = MethodWriter()
    x = m.tensor((3,))
    m.inputs(x)
    count = m.tensor((3,), "int64", data=np.zeros(3, np.int64), mutable=True)
    seen, more, last = (m.tensor((3,), "int64") for _ in range(3))
    m.kernel(ADD, count, 0, 1, seen, seen)
    m.kernel(ADD, count, 1, 1, more, more)
    if steps is not None:
        m.kernel(MODULO, more, steps, last, last)
    m.kernel("aten::copy_", count, more if steps is None else last, False, count)
    m.outputs(seen, unary(m, "aten.neg.default", x, (3,)))
    return m


@pytest.mark.parametrize("steps", [3, 1000])
def test_a_counter_that_starts_again_stays_on_the_gpu(steps: int) -> None:
    assert not any(run(counting(steps), *[[numbers(3)]] * 5))


def test_a_counter_without_an_end_stays_on_the_host() -> None:
    assert all(NARROW in str(why) for why in run(counting(None), *[[numbers(3)]] * 3))


def test_rules() -> None:
    assert modulo(ANYTHING, (1, 7)) == (0, 6)
    assert modulo(ANYTHING, (-7, -2)) == (-6, 0)
    assert modulo((0, 5), (0, 7)) == ANYTHING
    assert remainder((-9, 9), (-4, -4)) == (-3, 3)
    assert remainder((0, 9), (4, 4)) == (0, 3)
    assert quotient((-7, 7), (2, 3)) == (-4, 4)
    assert quotient((1, 2), (-1, 1)) == ANYTHING
    assert clamped(ANYTHING, (0, 0), (5, 5)) == (0, 5)
    assert conjunction((-3, 9), (0, 6)) == (0, 6)
    assert conjunction((-3, 9), (-1, 6)) == ANYTHING
    for name, arguments, number, wanted in (
        ("aten::sum.IntList_out", [(-1, 2), []], 0, (-10, 20)),
        ("aten::topk.values", [ANYTHING, (3, 3)], 1, (0, 9)),
        ("aten::sort.values", [(1, 2), (0, 0)], 0, (1, 2)),
        ("aten.max.dim", [(1, 2), (0, 0)], 1, (0, 9)),
        ("aten::max.out", [(1, 2), (0, 5)], 0, (1, 5)),
        ("aten::max.unary_out", [(1, 2)], 0, (1, 2)),
        ("aten.arange.start_step", [(2, 2), (9, 9), (1, 1)], 0, (2, 9)),
        ("aten::cat.out", [[(1, 2), WORD], (0, 0)], 0, WORD),
        ("aten::bitwise_not.out", [(0, 1)], 0, ANYTHING),
        ("aten::where.self_out", [(0, 1), (3, 4), (-2, 0)], 0, (-2, 4)),
        ("aten::add.out", [None, (1, 1)], 0, ANYTHING),
    ):
        assert result_range(name, arguments, 10, number) == wanted, name

"""Calls of kernels that constants determine run once, when a program is loaded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import webpte
from support.devices.recorded import ones
from support.graphs.graphs import wait
from support.harness.samples import numbers, relu
from support.write.pte_writer import Host, MethodWriter, write_pte
from webpte import errors
from webpte.engine.files.source import BytesSource
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.engine.load import fold_method as folding
from webpte.engine.load.fold_method import fold
from webpte.engine.load.program_file import MethodContents, read_contents
from webpte.engine.load.state import State, read_states

LOGCUMSUMEXP = "aten::logcumsumexp.out"


async def folded(m: MethodWriter) -> tuple[MethodContents, State]:
    contents = await read_contents(BytesSource(write_pte(m)))
    states = await read_states(contents)
    return await fold(contents.methods["forward"], states["forward"])


async def expect(m: MethodWriter, *calls: list[Any], folds: dict[str, int]) -> webpte.Program:
    """Expect these calls to be folded, and the results of the NumPy device, which folds nothing."""
    expected = await webpte.load(write_pte(m), device="numpy")
    program = await webpte.load(write_pte(m), device=SimulatedDevice())
    assert program._build.methods["forward"].folded == folds
    for inputs in calls:
        for got, want in zip(
            await program.forward(*inputs), await expected.forward(*inputs), strict=True
        ):
            np.testing.assert_array_equal(got, want)
            assert getattr(got, "dtype", type(got)) == getattr(want, "dtype", type(want))
    return program


def method(*, size: int = 4) -> MethodWriter:
    m = MethodWriter()
    m.inputs(m.tensor((size,)))
    return m


def arange(m: MethodWriter, size: int = 4, dtype: str = "float32") -> Host:
    out = m.tensor((size,), dtype)
    m.kernel("aten::arange.start_out", 0, size, 1, out, out)
    return out


def summed(m: MethodWriter, source: Host, size: int = 4) -> Host:
    out = m.tensor((size,))
    m.kernel(LOGCUMSUMEXP, source, 0, out, out)
    return out


def add(m: MethodWriter, x: Host, y: Host, size: int = 4) -> Host:
    out = m.tensor((size,))
    m.kernel("aten::add.out", x, y, 1, out, out)
    return out


def test_a_chain_of_calls_becomes_one_constant() -> None:
    m = method()
    weight = m.tensor((4,), data=numbers(4))
    m.outputs(add(m, m.input(0), summed(m, add(m, arange(m), weight))))
    folds = {"aten::arange.start_out": 1, "aten::add.out": 1, LOGCUMSUMEXP: 1}
    program = wait(expect(m, [ones(4)], [numbers(4)], folds=folds))
    assert {(row.op, row.where) for row in program.report} == {
        *((name, "alias") for name in folds),
        ("aten::add.out", "gpu"),
    }
    (index,) = set(program._build.methods["forward"]._state) - {weight.index}
    assert index > weight.index, "what only folded calls read is not kept"


def test_numbers_become_constants_too() -> None:
    """The size of a constant, doubled, is how many elements of x are taken."""
    m = method()
    rows, twice, out = m.value(0), m.value(0), m.tensor((4,))
    m.kernel("aten::sym_size.int", m.tensor((2,), data=ones(2)), 0, rows)
    m.kernel("executorch_prim::mul.Scalar", rows, 2, twice)
    m.kernel("aten::slice_copy.Tensor_out", m.input(0), 0, 0, twice, 1, out, out)
    m.outputs(out, twice)
    folds = {"aten::sym_size.int": 1, "executorch_prim::mul.Scalar": 1}
    wait(expect(m, [numbers(4)], folds=folds))


def test_a_list_of_outputs_is_several_constants() -> None:
    m = method(size=2)
    parts = [m.tensor((2,)), m.tensor((2,))]
    listed = m.value(parts)
    m.kernel("aten::split_with_sizes_copy.out", arange(m), [2, 2], 0, listed, listed)
    m.outputs(add(m, m.input(0), parts[1], 2), parts[0])
    folds = {"aten::arange.start_out": 1, "aten::split_with_sizes_copy.out": 1}
    wait(expect(m, [numbers(2)], folds=folds))


def test_a_delegate_takes_it_as_a_constant() -> None:
    async def run() -> None:
        m = method()
        m.outputs(relu(m, add(m, relu(m, m.input(0), (4,)), arange(m)), (4,)))
        program = await expect(m, [-ones(4)], folds={"aten::arange.start_out": 1})
        device = program.device
        assert isinstance(device, SimulatedDevice)
        assert np.arange(4, dtype=np.float32).tobytes() in device.contents.values()
        assert [detail[1] for name, detail in device.log if name == "run"] == [  # type: ignore[index]
            (-ones(4)).tobytes()
        ]
        second = SimulatedDevice()
        await program.recover(second)
        (y,) = await program.forward(ones(4))
        assert y.tolist() == [1, 2, 3, 4]

    wait(run())


def test_a_value_that_is_freed_is_there_for_the_next_round() -> None:
    """Twice: x += arange, which is made and freed in each round."""
    m = method()
    rounds, done, total = m.value(2), m.value(False), m.tensor((4,))
    m.kernel(LOGCUMSUMEXP, m.input(0), 0, total, total)
    steps = arange(m)
    m.kernel("aten::add.out", total, steps, 1, total, total)
    m.free(steps)
    m.kernel("executorch_prim::sub.Scalar", rounds, 1, rounds)
    m.kernel("executorch_prim::le.Scalar", rounds, 0, done)
    m.jump_false(done, 1)
    m.outputs(total)
    wait(expect(m, [numbers(4)], folds={"aten::arange.start_out": 1}))


def test_jumps_lead_to_where_they_led() -> None:
    m = method()
    flag, out = m.value(True), m.tensor((4,))
    m.inputs(flag)
    first = arange(m)
    m.jump_false(flag, 5)
    second = arange(m)
    m.kernel("aten::add.out", m.input(0), second, 1, out, out)
    m.jump_false(m.value(False), 6)
    m.kernel("aten::sub.out", m.input(0), first, 1, out, out)
    m.outputs(out)
    folds = {"aten::arange.start_out": 2}
    wait(expect(m, [numbers(4), True], [numbers(4), False], folds=folds))


def test_a_view_that_the_exporter_left_out_is_a_constant_with_its_source() -> None:
    """Something else is at the same place before, and afterwards."""
    m = method()
    weight, (made, other, view) = m.tensor((4,), data=numbers(4)), at_one_place(m)
    twice = m.tensor((2, 2))
    m.kernel("aten::flip.out", m.input(0), [0], other, other)
    before = add(m, other, m.input(0))
    m.kernel(LOGCUMSUMEXP, weight, 0, made, made)
    m.kernel("aten::add.out", view, view, 1, twice, twice)
    m.kernel("aten::flip.out", before, [0], other, other)
    m.outputs(other, twice)
    folds = {LOGCUMSUMEXP: 1, "aten::add.out": 1}
    wait(expect(m, [numbers(4)], [ones(4)], folds=folds))


# What stays


def of_an_input(m: MethodWriter) -> Host:
    return summed(m, m.input(0))


def of_a_buffer(m: MethodWriter) -> Host:
    state = m.tensor((4,), data=ones(4), mutable=True)
    out = summed(m, state)
    m.kernel("aten::copy_", state, m.input(0), False, state)
    return out


def in_place(m: MethodWriter) -> Host:
    state = m.tensor((4,), data=ones(4), mutable=True)
    m.kernel("aten::copy_", state, m.tensor((4,), data=numbers(4)), False, state)
    return state


def written_twice(m: MethodWriter) -> Host:
    out, weight = m.tensor((4,)), m.tensor((4,), data=numbers(4))
    m.kernel(LOGCUMSUMEXP, weight, 0, out, out)
    first = add(m, out, m.input(0))
    m.kernel(LOGCUMSUMEXP, m.input(0), 0, out, out)
    return add(m, out, first)


def given_and_written(m: MethodWriter) -> Host:
    weight = m.tensor((4,), data=numbers(4))
    first = add(m, m.input(0), m.input(0))
    m.kernel(LOGCUMSUMEXP, weight, 0, m.input(0), m.input(0))
    return add(m, m.input(0), first)


def at_one_place(m: MethodWriter) -> tuple[Host, Host, Host]:
    """Build two values of 4 elements and a view at the same place; no call writes the view."""
    place = m.planned_bytes
    made, m.planned_bytes = m.tensor((4,)), place
    other, m.planned_bytes = m.tensor((4,)), place
    return made, other, m.tensor((2, 2))


def seen_as_something_else(m: MethodWriter) -> Host:
    """Build a view that is read twice, of which only the first read sees the constant."""
    weight, (made, other, view) = m.tensor((4,), data=numbers(4)), at_one_place(m)
    first, out = m.tensor((2, 2)), m.tensor((2, 2))
    m.kernel(LOGCUMSUMEXP, weight, 0, made, made)
    m.kernel(LOGCUMSUMEXP, view, 0, first, first)
    m.kernel(LOGCUMSUMEXP, m.input(0), 0, other, other)
    m.kernel("aten::add.out", view, first, 1, out, out)
    return out


def seen_in_a_loop(m: MethodWriter) -> Host:
    """Build a loop whose second round begins by reading the first round's last result."""
    weight, (made, other, view) = m.tensor((4,), data=numbers(4)), at_one_place(m)
    rounds, done, out = m.value(2), m.value(False), m.tensor((2, 2))
    m.kernel(LOGCUMSUMEXP, weight, 0, made, made)
    start = len(m.instructions)
    m.kernel(LOGCUMSUMEXP, view, 0, out, out)
    m.kernel(LOGCUMSUMEXP, m.input(0), 0, other, other)
    m.kernel("executorch_prim::sub.Scalar", rounds, 1, rounds)
    m.kernel("executorch_prim::le.Scalar", rounds, 0, done)
    m.jump_false(done, start)
    return out


STAYING = [of_an_input, of_a_buffer, in_place, written_twice, given_and_written]


@pytest.mark.parametrize(
    "build", [*STAYING, seen_as_something_else, seen_in_a_loop], ids=lambda f: f.__name__
)
def test_the_rest_stays_where_it_is(build: Any) -> None:
    m = method()
    m.outputs(build(m))
    wait(expect(m, [numbers(4)], [ones(4)], folds={}))


def test_what_is_large_stays_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit, count in ((15, 0), (16, 1)):
        monkeypatch.setattr(folding, "MOST_BYTES", limit)
        m = method()
        m.outputs(arange(m))
        contents, state = wait(folded(m))
        assert (len(contents.folded), len(state)) == (count, count)


def test_what_fails_does_so_in_a_run_that_gets_there() -> None:
    m = method()
    flag, wrong = m.value(True), m.tensor((3,))
    m.inputs(flag)
    out = summed(m, m.input(0))
    m.jump_false(flag, 3)
    m.kernel("aten::arange.start_out", 0, 4, 1, wrong, wrong)
    m.outputs(out)

    async def run() -> None:
        program = await expect(m, [numbers(4), False], folds={})
        with pytest.raises(errors.ExecutionError, match=r"'forward', aten::arange\.start_out: "):
            await program.forward(ones(4), True)

    wait(run())


def test_random_numbers_are_drawn_in_every_call() -> None:
    m = method(size=64)
    drawn = m.tensor((64,))
    m.kernel("aten::rand.out", [64], drawn, drawn)
    m.outputs(add(m, m.input(0), drawn, 64))

    async def twice() -> list[np.ndarray]:
        program = await webpte.load(write_pte(m), device=SimulatedDevice())
        assert program._build.methods["forward"].folded == {}
        return [(await program.forward(np.zeros(64, np.float32)))[0] for _ in range(2)]

    first, second = wait(twice())
    assert not np.array_equal(first, second)

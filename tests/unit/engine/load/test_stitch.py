"""Delegates that follow each other are one graph, with the results of running one by one."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import numpy as np
import pytest

import webpte
from support.decoders.argmax import run_argmax
from support.devices.recorded import ones, runs
from support.graphs.graphs import chain, wait
from support.graphs.stitching import (
    X,
    counting,
    expect,
    logcumsumexp,
    method,
    neg,
    negating,
    plus,
    recording,
    unary,
)
from support.harness.samples import numbers, relu
from support.write.pte_writer import GraphWriter, MethodWriter, write_pte
from webpte import errors
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.engine.load import stitch as stitching

# Delegates that are stitched


def test_three_delegates_in_a_row_are_one() -> None:
    m = method((4,))
    m.outputs(relu(m, neg(m, relu(m, m.input(0), (4,))), (4,)))
    program = wait(expect(m, [X], [numbers(4)]))
    assert program.stats.executions == 2
    assert {row.op: row.count for row in program.report} == {
        "aten.relu.default": 2,
        "aten.neg.default": 1,
    }


def test_it_is_the_whole_method_for_a_search_of_its_output() -> None:
    """Inputs and outputs come in the method's order, not in the order of their use."""

    async def run() -> None:
        m = method((4,), (4,))
        m.outputs(plus(m, neg(m, m.input(1)), m.input(0)))
        device = SimulatedDevice()
        program = await webpte.load(write_pte(m), device=device)
        assert program._build.methods["forward"].only_delegate is not None
        y = np.array([0, 9, 0, 0], np.float32)
        assert await run_argmax(program, "forward", X, -y) == [1]
        assert len(runs(device)) == 1

    wait(run())


def test_it_is_the_whole_method_whatever_the_order_of_outputs() -> None:
    m = method((4,))
    first = neg(m, m.input(0))
    m.outputs(relu(m, first, (4,)), first)
    program = wait(expect(m, [X]))
    assert program._build.methods["forward"].only_delegate is not None


def test_an_output_is_what_the_method_returns_or_the_host_reads() -> None:
    m = method((4,))
    first = neg(m, m.input(0))
    second = relu(m, first, (4,))
    third = neg(m, second)
    m.outputs(logcumsumexp(m, first), third)
    program = wait(expect(m, [X]))
    (delegate,) = program._build.gpu_delegates
    assert len(delegate.graph.outputs) == 2, "the second is nobody else's business"


def test_an_output_that_is_computed_twice_is_the_later_one() -> None:
    m = method((4,))
    out = m.tensor((4,))
    for op in ("aten.neg.default", "aten.relu.default"):
        g = GraphWriter()
        x = g.tensor((4,))
        g.inputs(x)
        g.outputs(g.op(op, x, g.tensor((4,))))
        m.delegate(g, [m.input(0), out])
    m.outputs(out)
    wait(expect(m, [X]))


def test_values_that_are_freed_in_between_are_freed_afterwards() -> None:
    m = method((4,))
    first = neg(m, m.input(0))
    second = relu(m, first, (4,))
    m.free(first)
    m.outputs(neg(m, second))
    m.free(second)
    wait(expect(m, [X], [X]))


def test_a_value_that_is_freed_and_computed_again_is_the_new_one() -> None:
    m = method((4,))
    first = neg(m, m.input(0))
    second = relu(m, first, (4,))
    m.free(first)
    m.delegate(negating(), [second, first])
    m.outputs(first, second)
    wait(expect(m, [X], submitted=2))


def test_what_the_host_sees_through_a_view_is_an_output() -> None:
    m = method((4,))
    place = m.planned_bytes
    first = relu(m, m.input(0), (4,))
    end, m.planned_bytes = m.planned_bytes, place
    view, m.planned_bytes = m.tensor((2, 2)), end
    second = neg(m, first)
    m.outputs(logcumsumexp(m, view, (2, 2)), second)
    wait(expect(m, [X]))


@pytest.mark.parametrize("again", [True, False])
def test_what_the_host_sees_through_a_view_was_written_last(again: bool) -> None:
    """One place is written as one value, another, and the first again; the last is returned."""
    m = method((4,))
    place = m.planned_bytes
    first, m.planned_bytes = m.tensor((4,)), place
    other, m.planned_bytes = m.tensor((4,)), place
    view = m.tensor((2, 2))
    m.delegate(negating(), [m.input(0), first])
    m.delegate(chain(1, dims=(4,)), [first, other])
    if again:
        m.delegate(negating(), [other, first])
    m.outputs(logcumsumexp(m, view, (2, 2)), first if again else other)
    wait(expect(m, [X]))


@pytest.mark.parametrize(
    ("dtypes", "inputs"),
    [(("int64", "int32"), 1), (("int32", "int64"), 1), (("float32", "float16"), 2)],
)
def test_one_value_in_two_types_is_one_input_if_it_is_stored_alike(
    dtypes: tuple[str, str], inputs: int
) -> None:
    m = MethodWriter()
    m.inputs(m.tensor((4,), dtypes[0]))
    m.outputs(*(unary(m, "aten.neg.default", m.input(0), (4,), dtype) for dtype in dtypes))
    program = wait(expect(m, [X.astype(dtypes[0])]))
    assert [len(r["payload"]) for r in runs(recording(program))] == [inputs * 4 * 4]


def test_a_view_that_the_exporter_left_out_is_in_the_graph() -> None:
    m = method((4, 3))
    place = m.planned_bytes
    relu(m, m.input(0), (4, 3))
    m.planned_bytes = place
    view = m.tensor((2, 6))
    m.outputs(neg(m, view, (2, 6)))
    wait(expect(m, [numbers(4, 3)]))


def test_memory_that_is_used_again_is_no_view() -> None:
    """Two delegates write to one place, and reads after both find the second's result."""
    m = method((4,))
    place = m.planned_bytes
    first = neg(m, m.input(0))
    kept = relu(m, first, (4,))
    end = m.planned_bytes
    m.planned_bytes = place
    relu(m, m.input(0), (4,))
    m.planned_bytes = place
    view = m.tensor((2, 2))
    m.planned_bytes = end
    m.outputs(neg(m, view, (2, 2)), kept)
    wait(expect(m, [X]))


def test_numbers_pass_from_one_to_the_next() -> None:
    """x [n] -> n -> its first n / 2 elements."""
    m = MethodWriter()
    x, size, out = m.tensor((8,), dynamic=True), m.value(8), m.tensor((8,), dynamic=True)
    m.inputs(x)
    g = GraphWriter()
    source, n, half = g.tensor((8,)), g.symint(8), g.symint(4)
    g.op("sym_size.int", source, g.int(0), n)
    g.op("floordiv", n, g.int(2), half)
    g.inputs(source)
    g.outputs(half)
    m.delegate(g, [x, size])
    g = GraphWriter()
    source, n = g.tensor((8,)), g.symint(4)
    g.inputs(source, n)
    slice_ = (source, g.int(0), g.int(0), n, g.int(1), g.tensor((8,)))
    g.outputs(g.op("aten.slice_copy.Tensor", *slice_))
    m.delegate(g, [x, size, out])
    m.outputs(out)
    wait(expect(m, [numbers(8)], [numbers(5)], [numbers(2)]))


def test_sizes_that_are_wrong_before_the_first_call_keep_delegates_apart() -> None:
    """The first gives half of its input, and the second takes as much as the file says."""
    m = MethodWriter()
    x, half, out = (m.tensor(dims, dynamic=True) for dims in ((8,), (8,), (2, 4)))
    m.inputs(x)
    g = GraphWriter()
    source, n, end = g.tensor((8,)), g.symint(8), g.symint(8)
    g.op("sym_size.int", source, g.int(0), n)
    g.op("floordiv", n, g.int(2), end)
    g.inputs(source)
    slice_ = (source, g.int(0), g.int(0), end, g.int(1), g.tensor((8,)))
    g.outputs(g.op("aten.slice_copy.Tensor", *slice_))
    m.delegate(g, [x, half])
    g = GraphWriter()
    source = g.tensor((8,))
    g.inputs(source)
    view = (source, g.int_list([2, 4]), g.tensor((2, 4)))
    g.outputs(g.op("aten.view_copy.default", *view))
    m.delegate(g, [half, out])
    m.outputs(out)

    async def run() -> None:
        program = await webpte.load(write_pte(m), device=SimulatedDevice())
        with pytest.raises(errors.ExecutionError, match="'forward', delegate 1: op 0"):
            await program.forward(ones(8))

    wait(run())


@pytest.mark.parametrize("told", [False, True])
def test_graphs_that_are_known_to_be_right_are_joined_without_a_try(
    told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sizes are fixed, or follow from a number that the host gives."""
    monkeypatch.setattr(stitching, "_lowers", lambda *_: False)
    m = MethodWriter()
    x, count, taken = m.tensor((4,)), m.tensor((1,), "int64"), m.tensor((4,), dynamic=told)
    m.inputs(x, count)
    g = GraphWriter()
    source, given, n = g.tensor((4,)), g.tensor((1,), "int64"), g.symint(4) if told else g.int(4)
    g.inputs(source, given)
    if told:
        g.op("et_vk.select_as_symint.default", given, g.int(0), g.int(0), n)
    part = (source, g.int(0), g.int(0), n, g.int(1), g.tensor((4,)))
    g.outputs(g.op("aten.slice_copy.Tensor", *part))
    m.delegate(g, [x, count, taken])
    m.outputs(neg(m, taken))
    wait(expect(m, [X, np.array([4])]))


# Constants and state


def test_a_constant_of_two_delegates_is_one_buffer() -> None:
    async def run() -> None:
        weight = numbers(1000)
        m = method((1000,))
        values = [m.input(0), m.tensor((1000,)), m.tensor((1000,))]
        for source, out in pairwise(values):
            g = GraphWriter()
            x = g.tensor((1000,))
            w = g.prepack(g.tensor((1000,), constant=weight))
            g.inputs(x)
            g.outputs(g.op("aten.add.Tensor", x, w, g.int(1), g.tensor((1000,))))
            m.delegate(g, [source, out])
        m.outputs(values[-1])
        program = await expect(m, [numbers(1000)])
        device = recording(program)
        assert list(device.contents.values()).count(weight.tobytes()) == 1
        assert program.stats.prepack_transfers == 1

    wait(run())


def test_an_input_that_never_changes_goes_up_once() -> None:
    async def run() -> None:
        m = method((4,))
        m.outputs(plus(m, m.input(0), m.tensor((4,), data=numbers(4))))
        program = await expect(m, [X], [numbers(4)])
        device = recording(program)
        assert [len(r["payload"]) for r in runs(device)] == [16, 16]

    wait(run())


def test_each_delegate_keeps_its_own_state() -> None:
    m = method((4,))
    m.outputs(counting(m, neg(m, counting(m, m.input(0)))))
    wait(expect(m, [X], [X], [X]))


def test_a_call_that_fails_leaves_the_state_of_all_alone() -> None:
    """The last of three takes rows by an index that another delegate computes."""
    m = MethodWriter()
    x, indices = m.tensor((4,)), m.tensor((2,), "int32")
    m.inputs(x, indices)
    counted = counting(m, x)
    negated = unary(m, "aten.neg.default", indices, (2,), "int32")
    g, out = GraphWriter(), m.tensor((2,))
    source, at = g.tensor((4,)), g.tensor((2,), "int32")
    g.inputs(source, at)
    g.outputs(g.op("aten.index_select.default", source, g.int(0), at, g.tensor((2,))))
    m.delegate(g, [counted, negated, out])
    m.outputs(out)

    async def run() -> None:
        program = await webpte.load(write_pte(m), device=SimulatedDevice())
        good, bad = np.array([0, -3], np.int32), np.array([0, -4], np.int32)
        assert [y.tolist() for y in await program.forward(X, good)] == [[0, 5]]
        with pytest.raises(errors.ExecutionError, match="'forward', delegate 2: op 0"):
            await program.forward(X, bad)
        assert [y.tolist() for y in await program.forward(X, good)] == [[1, 6]]

    wait(run())


# What is said


def test_an_error_names_the_delegate_of_the_file() -> None:
    m = MethodWriter()
    x = m.tensor((4, 3), dynamic=True)
    m.inputs(x)
    made = relu(m, x, (4, 3), dynamic=True)
    g, out = GraphWriter(), m.tensor((2, 6), dynamic=True)
    source = g.tensor((4, 3))
    g.inputs(source)
    view = (source, g.int_list([2, 6]), g.tensor((2, 6)))
    g.outputs(g.op("aten.view_copy.default", *view))
    m.delegate(g, [made, out])
    m.outputs(out)

    async def run() -> None:
        program = await expect(m, [numbers(4, 3)])
        with pytest.raises(errors.ExecutionError) as raised:
            await program.forward(ones(3, 3))
        assert str(raised.value).startswith(
            "method 'forward', delegate 1: op 0 (aten.view_copy.default): 9 elements"
        )

    wait(run())


@pytest.mark.parametrize(
    ("count", "named"), [(2, r"delegate 0 \+ delegate 1"), (5, "delegate 0 to delegate 4")]
)
def test_an_error_of_the_device_names_all_of_them(count: int, named: str) -> None:
    m = method((4,))
    made = m.input(0)
    for _ in range(count):
        made = neg(m, made)
    m.outputs(made)

    async def run() -> None:
        device = SimulatedDevice()
        program = await webpte.load(write_pte(m), device=device)
        device.lost = True
        with pytest.raises(errors.DeviceLostError, match=f"'forward', {named}: "):
            await program.forward(X)

    wait(run())


# The rest of a program's life


def test_overlapping_calls_have_their_own_results() -> None:
    async def run() -> None:
        m = method((4,))
        m.outputs(relu(m, neg(m, m.input(0)), (4,)))
        device = SimulatedDevice()
        program = await webpte.load(write_pte(m), device=device)
        inputs = [numbers(4) * i for i in range(5)]
        results = await asyncio.gather(*(program.forward(x) for x in inputs))
        for x, (y,) in zip(inputs, results, strict=True):
            np.testing.assert_allclose(y, np.maximum(-x, 0))
        assert len(runs(device)) == 5

    wait(run())


def test_it_is_profiled_rebuilt_and_freed() -> None:
    async def run() -> None:
        m = method((4,))
        m.outputs(counting(m, neg(m, m.input(0))))
        features = ("timestamp-query",)
        first, second = SimulatedDevice(features=features), SimulatedDevice(features=features)
        program = await webpte.load(write_pte(m), device=first, strict=True)
        await program.forward(X)
        await program.profile("forward", X)
        assert [y.tolist() for y in await program.forward(X)] == [[3, 0, 5, -2]], "and not 3 counts"
        await program.recover(second)
        assert not first.buffers
        assert [y.tolist() for y in await program.forward(X)] == [[2, -1, 4, -3]]
        program.close()
        assert not second.buffers
        assert not second.plans

    wait(run())


def test_an_input_of_its_graph_that_the_method_returns_is_no_output_of_it() -> None:
    """The call has (x, held, sum), the method (x) and (held, sum): in a row, the same."""
    m = method((4,))
    held = m.tensor((4,), data=X, mutable=True)
    summed = plus(m, m.input(0), held)
    m.outputs(held, summed)
    wait(expect(m, [X], [numbers(4)]))

"""Delegates that follow each other are one graph, and give what they would give one by one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import webpte
from support.flat_writer import Node, Scalar, i32s
from support.graphs import chain, wait
from support.pte_writer import GraphWriter, Host, MethodWriter, write_pte
from support.recorded import ones, runs
from support.samples import Dims, numbers, relu
from webpte import errors
from webpte.gpu.recording import RecordingDevice

CUMSUM = "aten::cumsum.out"  # has no counterpart in delegates: stays on the host


def method(*dims: Dims) -> MethodWriter:
    """With an input of each of these dims."""
    m = MethodWriter()
    m.inputs(*(m.tensor(sizes) for sizes in dims))
    return m


def unary(m: MethodWriter, op: str, source: Host, dims: Dims, dtype: str = "float32") -> Host:
    """A delegate of one call."""
    g = GraphWriter()
    x = g.tensor(dims, dtype)
    g.inputs(x)
    g.outputs(g.op(op, x, g.tensor(dims, dtype)))
    out = m.tensor(dims, dtype)
    m.delegate(g, [source, out])
    return out


def neg(m: MethodWriter, source: Host, dims: Dims = (4,)) -> Host:
    return unary(m, "aten.neg.default", source, dims)


def cumsum(m: MethodWriter, source: Host, dims: Dims = (4,)) -> Host:
    out = m.tensor(dims)
    m.kernel(CUMSUM, source, 0, None, out, out)
    return out


def plus(m: MethodWriter, x: Host, y: Host, dims: Dims = (4,)) -> Host:
    """A delegate that adds two tensors."""
    g, out = GraphWriter(), m.tensor(dims)
    a, b = g.tensor(dims), g.tensor(dims)
    g.inputs(a, b)
    g.outputs(g.op("aten.add.Tensor", a, b, g.int(1), g.tensor(dims)))
    m.delegate(g, [x, y, out])
    return out


async def expect(
    m: MethodWriter, *calls: Sequence[Any], submitted: int = 1, **writing: Any
) -> webpte.Program:
    """What the NumPy device gives, in so many executions of delegates per call."""
    data, device = write_pte(m, **writing), RecordingDevice()
    expected = await webpte.load(data, device="numpy")
    program = await webpte.load(data, device=device)
    for inputs in calls:
        start = len(runs(device))
        outputs = await program.forward(*inputs)
        for got, want in zip(outputs, await expected.forward(*inputs), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)
            assert got.dtype == want.dtype
        assert len(runs(device)) - start == submitted
    return program


def _recording(program: webpte.Program) -> RecordingDevice:
    assert isinstance(program.device, RecordingDevice)
    return program.device


X = np.array([-1, 2, -3, 4], np.float32)


# What becomes one


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
    """Inputs and outputs come in the method's order, not in that of their use."""

    async def run() -> None:
        m = method((4,), (4,))
        m.outputs(plus(m, neg(m, m.input(1)), m.input(0)))
        device = RecordingDevice()
        program = await webpte.load(write_pte(m), device=device)
        assert program._build.methods["forward"].only_delegate is not None
        y = np.array([0, 9, 0, 0], np.float32)
        assert await program.run_argmax("forward", X, -y) == [1]
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
    m.outputs(cumsum(m, first), third)
    program = wait(expect(m, [X]))
    (delegate,) = program._build.gpu_delegates
    assert len(delegate._graph.outputs) == 2, "the second is nobody else's business"


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
    m.delegate(_negating(), [second, first])
    m.outputs(first, second)
    wait(expect(m, [X], submitted=2))


def test_what_the_host_sees_through_a_view_is_an_output() -> None:
    m = method((4,))
    place = m.planned_bytes
    first = relu(m, m.input(0), (4,))
    end, m.planned_bytes = m.planned_bytes, place
    view, m.planned_bytes = m.tensor((2, 2)), end
    second = neg(m, first)
    m.outputs(cumsum(m, view, (2, 2)), second)
    wait(expect(m, [X]))


def test_what_the_host_sees_through_a_view_was_written_last() -> None:
    """One place is written as one value, as another, and as the first again."""
    m = method((4,))
    place = m.planned_bytes
    first, m.planned_bytes = m.tensor((4,)), place
    other, m.planned_bytes = m.tensor((4,)), place
    view = m.tensor((2, 2))
    m.delegate(_negating(), [m.input(0), first])
    m.delegate(chain(1, dims=(4,)), [first, other])
    m.delegate(_negating(), [other, first])
    m.outputs(cumsum(m, view, (2, 2)))
    wait(expect(m, [X]))


def test_one_value_in_two_types_is_two_inputs() -> None:
    m = MethodWriter()
    m.inputs(m.tensor((4,), "int64"))
    outs = [unary(m, "aten.neg.default", m.input(0), (4,), dtype) for dtype in ("int64", "int32")]
    m.outputs(*outs)
    program = wait(expect(m, [X.astype(np.int64)]))
    assert [len(r["payload"]) for r in runs(_recording(program))] == [2 * 4 * 4]


def test_a_view_that_the_exporter_left_out_is_in_the_graph() -> None:
    m = method((4, 3))
    place = m.planned_bytes
    relu(m, m.input(0), (4, 3))
    m.planned_bytes = place
    view = m.tensor((2, 6))
    m.outputs(neg(m, view, (2, 6)))
    wait(expect(m, [numbers(4, 3)]))


def test_memory_that_is_used_again_is_no_view() -> None:
    """Two delegates write to one place, and what is read there afterwards is the second's."""
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
        program = await webpte.load(write_pte(m), device=RecordingDevice())
        with pytest.raises(errors.ExecutionError, match="'forward', delegate 1: op 0"):
            await program.forward(ones(8))

    wait(run())


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
        device = _recording(program)
        assert list(device.contents.values()).count(weight.tobytes()) == 1
        assert program.stats.prepack_transfers == 1

    wait(run())


def test_an_input_that_never_changes_goes_up_once() -> None:
    async def run() -> None:
        m = method((4,))
        m.outputs(plus(m, m.input(0), m.tensor((4,), data=numbers(4))))
        program = await expect(m, [X], [numbers(4)])
        device = _recording(program)
        assert [len(r["payload"]) for r in runs(device)] == [16, 16]

    wait(run())


def counting(m: MethodWriter, source: Host) -> Host:
    """A delegate: count += 1; returns x + count."""
    g = GraphWriter()
    x, one = g.tensor((4,)), g.tensor((4,), constant=ones(4))
    count = g.prepack(g.tensor((4,), constant=np.zeros(4, np.float32)))
    g.op("aten.add.Tensor", count, one, g.int(1), count)
    g.inputs(x)
    g.outputs(g.op("aten.add.Tensor", x, count, g.int(1), g.tensor((4,))))
    out = m.tensor((4,))
    m.delegate(g, [source, out])
    return out


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
        program = await webpte.load(write_pte(m), device=RecordingDevice())
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


def test_an_error_of_the_device_names_all_of_them() -> None:
    m = method((4,))
    m.outputs(relu(m, neg(m, m.input(0)), (4,)))

    async def run() -> None:
        device = RecordingDevice()
        program = await webpte.load(write_pte(m), device=device)
        device.lost = True
        with pytest.raises(errors.ExecutionError, match=r"'forward', delegate 0 \+ delegate 1: "):
            await program.forward(X)

    wait(run())


# Kernels on the host


def test_a_kernel_on_the_host_comes_before_delegates_that_it_needs_nothing_of() -> None:
    m = method((4,))
    first = neg(m, m.input(0))
    summed = cumsum(m, m.input(0))
    m.outputs(plus(m, first, summed))
    wait(expect(m, [X]))


def test_a_kernel_on_the_host_comes_after_delegates_that_need_nothing_of_it() -> None:
    m = method((4,))
    first = neg(m, m.input(0))
    summed = cumsum(m, first)
    m.outputs(relu(m, first, (4,)), summed)
    wait(expect(m, [X]))


def test_a_kernel_on_the_host_between_delegates_stays_there() -> None:
    m = method((4,))
    m.outputs(neg(m, cumsum(m, relu(m, m.input(0), (4,)))))
    wait(expect(m, [X], submitted=2))


def test_nothing_passes_a_kernel_that_changes_a_buffer() -> None:
    """state is added before and after the host changes it."""
    m = method((4,))
    state = m.tensor((4,), data=np.zeros(4, np.float32), mutable=True)
    before = plus(m, m.input(0), state)
    m.kernel("aten::copy_", state, m.input(0), False, state)
    m.outputs(plus(m, before, state))
    wait(expect(m, [X], [numbers(4)], submitted=2))


def test_a_kernel_that_changes_a_buffer_does_not_move() -> None:
    m = method((4,))
    state = m.tensor((4,), data=np.zeros(4, np.float32), mutable=True)
    first = neg(m, m.input(0))
    m.kernel("aten::copy_", state, m.input(0), False, state)
    m.outputs(relu(m, first, (4,)))
    wait(expect(m, [X], submitted=2))


def test_a_kernel_that_reads_a_view_stays_between_what_is_written_there() -> None:
    m = method((4,))
    place = m.planned_bytes
    neg(m, m.input(0))
    end, m.planned_bytes = m.planned_bytes, place
    view, m.planned_bytes = m.tensor((2, 2)), end
    summed = cumsum(m, view, (2, 2))
    end, m.planned_bytes = m.planned_bytes, place
    later = relu(m, m.input(0), (4,))
    m.planned_bytes = end
    m.outputs(summed, neg(m, later))
    wait(expect(m, [X], submitted=2))


def test_a_kernel_that_writes_what_was_read_stays_behind_the_reader() -> None:
    m = method((4,))
    value = m.tensor((4,))
    m.kernel(CUMSUM, m.input(0), 0, None, value, value)
    first = neg(m, value)
    m.kernel("aten::flip.out", m.input(0), [0], value, value)
    m.kernel(CUMSUM, value, 0, None, value, value)
    m.outputs(plus(m, first, value))
    wait(expect(m, [X], submitted=2))


# What stays apart


def test_a_delegate_that_is_called_twice_stays_apart() -> None:
    m = method((4,))
    first = neg(m, m.input(0))
    second = counting(m, first)
    out = m.tensor((4,))
    args = i32s(value.index for value in (second, out))
    m._instruction(2, Node({0: Scalar("i32", 1), 1: args}))  # the same delegate again
    m.outputs(out)
    wait(expect(m, [X], [X], submitted=3))


def test_a_jump_between_two_delegates_keeps_them_apart() -> None:
    m = method((4,))
    flag = m.value(True)
    m.inputs(flag)
    first = neg(m, m.input(0))
    m.jump_false(flag, 3)
    m.delegate(chain(1, dims=(4,)), [first, first])
    m.outputs(relu(m, first, (4,)))
    wait(expect(m, [X, True], submitted=3))
    wait(expect(m, [X, False], submitted=2))


def test_a_delegate_that_jumps_lead_to_begins_a_graph() -> None:
    """Without the first, and without the host's kernel, the last two run alone."""
    m = method((4,))
    flag = m.value(True)
    m.inputs(flag)
    made = m.tensor((4,))
    m.kernel(CUMSUM, m.input(0), 0, None, made, made)
    m.jump_false(flag, 3)
    m.delegate(_negating(), [m.input(0), made])
    m.outputs(relu(m, neg(m, made), (4,)))
    wait(expect(m, [X, True], submitted=2))
    wait(expect(m, [X, False], submitted=1))


def _negating() -> GraphWriter:
    g = GraphWriter()
    x = g.tensor((4,))
    g.inputs(x)
    g.outputs(g.op("aten.neg.default", x, g.tensor((4,))))
    return g


def test_a_loop_can_carry_a_value_through_one_graph() -> None:
    """Twice: x = -relu(x), and the number of rounds counts down on the host."""
    m = method((4,))
    rounds, done = m.value(2), m.value(False)
    x = m.input(0)
    place = m.tensor((4,))
    m.delegate(chain(1, dims=(4,)), [x, place])
    m.delegate(_negating(), [place, x])
    m.kernel("executorch_prim::sub.Scalar", rounds, 1, rounds)
    m.kernel("executorch_prim::le.Scalar", rounds, 0, done)
    m.jump_false(done, 0)
    m.outputs(x)
    wait(expect(m, [X], submitted=2))


def test_a_loop_can_carry_a_value_that_nothing_else_reads() -> None:
    """Twice: x = -relu(x); y = -x. The method returns y."""
    m = method((4,))
    rounds, done = m.value(2), m.value(False)
    x, between, y = (m.tensor((4,)) for _ in range(3))
    m.kernel(CUMSUM, m.input(0), 0, None, x, x)
    m.delegate(chain(1, dims=(4,)), [x, between])
    m.delegate(_negating(), [between, x])
    m.delegate(_negating(), [x, y])
    m.kernel("executorch_prim::sub.Scalar", rounds, 1, rounds)
    m.kernel("executorch_prim::le.Scalar", rounds, 0, done)
    m.jump_false(done, 1)
    m.outputs(y)
    wait(expect(m, [X], submitted=2))


def test_a_value_in_types_that_the_gpu_stores_alike_is_one() -> None:
    """The second graph has as int64 what the first gives as int32."""
    m = MethodWriter()
    m.inputs(m.tensor((4,), "int32"))
    first = unary(m, "aten.neg.default", m.input(0), (4,), "int32")
    m.outputs(unary(m, "aten.neg.default", first, (4,), "int64"))
    program = wait(expect(m, [X.astype(np.int32)]))
    assert program.stats.dispatches == 2, "nothing is converted"


def test_a_value_in_other_types_stays_apart() -> None:
    """The second graph has as bytes what the first gives as int32."""
    m = MethodWriter()
    m.inputs(m.tensor((4,), "int32"))
    first = unary(m, "aten.neg.default", m.input(0), (4,), "int32")
    out = m.tensor((4,), "int8")
    g = GraphWriter()
    x = g.tensor((4,), "int8")
    g.inputs(x)
    g.outputs(g.op("aten.clone.default", x, g.tensor((4,), "int8")))
    m.delegate(g, [first, out])
    m.outputs(out)
    wait(expect(m, [X.astype(np.int32)], submitted=2))


# 65519 and 65520 are on either side of the largest half float, 5e-8 is half of the smallest, and
# 2049 and 2051 are halfway between two of them.
EDGES = np.array([65519, 65520, -7e4, 5e-8, 2.9e-8, 2049, 2051, 1e-3, -1 / 3, 0], np.float32)


@pytest.mark.parametrize("features", [(), ("shader-f16",)])
def test_half_floats_become_floats_and_floats_half_floats(features: tuple[str, ...]) -> None:
    """As force_fp16 exports them: graphs of half floats, and floats outside."""

    async def run() -> None:
        m = method((10,))
        x, values = m.input(0), [m.tensor((10,)) for _ in range(4)]
        for source, out, dtype in zip(
            [x, *values], values, ("float32", "float16", "float32", "float16"), strict=False
        ):
            g = GraphWriter()
            a = g.tensor((10,), dtype)
            g.inputs(a)
            g.outputs(g.op("aten.neg.default", a, g.tensor((10,), dtype)))
            m.delegate(g, [source, out])
        m.outputs(*values)
        device, apart = RecordingDevice(features=features), RecordingDevice(features=features)
        program = await webpte.load(write_pte(m), device=device)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("webpte.runtime.build.stitch", lambda method, *_: method)
            alone = await webpte.load(write_pte(m), device=apart)
        for got, want in zip(await program.forward(EDGES), await alone.forward(EDGES), strict=True):
            np.testing.assert_array_equal(got, want)
        assert len(runs(device)) == 1
        assert len(runs(apart)) == 4

    wait(run())


def test_a_delegate_that_writes_to_its_input_stays_apart() -> None:
    """What the first gives is returned, too, and the second changes only its copy."""
    dims = (1, 4, 1, 4)
    m = method(dims)
    first = relu(m, m.input(0), dims)
    g, out = GraphWriter(), m.tensor(dims)
    cache, new, start = g.tensor(dims), g.tensor((1, 2, 1, 4), constant=ones(8)), g.int(1)
    g.op("llama.update_cache.default", new, cache, start, g.tensor((1,)))
    g.inputs(cache)
    g.outputs(g.op("aten.neg.default", cache, g.tensor(dims)))
    m.delegate(g, [first, out])
    m.outputs(first, out)
    wait(expect(m, [X.reshape(1, 1, 1, 4) + np.zeros(dims, np.float32)], submitted=2))


def test_a_tensor_whose_elements_the_host_reads_is_not_inside() -> None:
    """x [4] -> its first n[0] elements, where n is computed by a delegate."""
    m = MethodWriter()
    x, n, out = m.tensor((4,)), m.tensor((1,), "int32"), m.tensor((4,), dynamic=True)
    m.inputs(x, n)
    negated = unary(m, "aten.neg.default", n, (1,), "int32")
    g = GraphWriter()
    source, at, end = g.tensor((4,)), g.tensor((1,), "int32"), g.symint(4)
    g.inputs(source, at)
    g.op("et_vk.select_as_symint.default", at, g.int(0), g.int(0), end)
    slice_ = (source, g.int(0), g.int(0), end, g.int(1), g.tensor((4,)))
    g.outputs(g.op("aten.slice_copy.Tensor", *slice_))
    m.delegate(g, [x, negated, out])
    m.outputs(out)
    wait(expect(m, [X, np.array([-3], np.int32)], [X, np.array([-1], np.int32)], submitted=2))


# The rest of a program's life


def test_overlapping_calls_have_their_own_results() -> None:
    async def run() -> None:
        m = method((4,))
        m.outputs(relu(m, neg(m, m.input(0)), (4,)))
        device = RecordingDevice()
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
        first, second = RecordingDevice(features=features), RecordingDevice(features=features)
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

"""Some delegates stay apart, and some steps between delegates move out of their way."""

from __future__ import annotations

import numpy as np
import pytest

import webpte
from support.devices.recorded import ones, runs
from support.graphs.graphs import chain, wait
from support.graphs.stitching import (
    LOGCUMSUMEXP,
    X,
    counting,
    expect,
    logcumsumexp,
    method,
    neg,
    negating,
    plus,
    unary,
)
from support.harness.samples import numbers, relu
from support.write.flat_writer import Node, Scalar, i32s
from support.write.pte_writer import GraphWriter, MethodWriter, write_pte
from webpte.engine.gpu.simulated.device import SimulatedDevice

# Kernels on the host


def test_a_kernel_on_the_host_comes_before_delegates_that_it_needs_nothing_of() -> None:
    m = method((4,))
    first = neg(m, m.input(0))
    summed = logcumsumexp(m, m.input(0))
    m.outputs(plus(m, first, summed))
    wait(expect(m, [X]))


def test_a_kernel_on_the_host_comes_after_delegates_that_need_nothing_of_it() -> None:
    m = method((4,))
    first = neg(m, m.input(0))
    summed = logcumsumexp(m, first)
    m.outputs(relu(m, first, (4,)), summed)
    wait(expect(m, [X]))


def test_a_kernel_on_the_host_between_delegates_stays_there() -> None:
    m = method((4,))
    m.outputs(neg(m, logcumsumexp(m, relu(m, m.input(0), (4,)))))
    wait(expect(m, [X], submitted=2))


def test_nothing_passes_a_kernel_that_changes_a_buffer() -> None:
    """state is added before and after the host changes it."""
    m = method((4,))
    state = m.tensor((4,), data=np.zeros(4, np.float32), mutable=True)
    before = plus(m, m.input(0), state)
    m.kernel("aten::copy_", state, m.input(0), False, state)
    m.outputs(plus(m, before, state), logcumsumexp(m, state))
    wait(expect(m, [X], [numbers(4)], submitted=2))


def test_a_kernel_that_changes_a_buffer_does_not_move() -> None:
    m = method((4,))
    state = m.tensor((4,), data=np.zeros(4, np.float32), mutable=True)
    first = neg(m, m.input(0))
    m.kernel("aten::copy_", state, m.input(0), False, state)
    m.outputs(relu(m, first, (4,)), logcumsumexp(m, state))
    wait(expect(m, [X], submitted=2))


def test_a_kernel_that_reads_a_view_stays_between_what_is_written_there() -> None:
    m = method((4,))
    place = m.planned_bytes
    neg(m, m.input(0))
    end, m.planned_bytes = m.planned_bytes, place
    view, m.planned_bytes = m.tensor((2, 2)), end
    summed = logcumsumexp(m, view, (2, 2))
    end, m.planned_bytes = m.planned_bytes, place
    later = relu(m, m.input(0), (4,))
    m.planned_bytes = end
    m.outputs(summed, neg(m, later))
    wait(expect(m, [X], submitted=2))


def test_a_kernel_that_writes_what_was_read_stays_behind_the_reader() -> None:
    m = method((4,))
    value = m.tensor((4,))
    m.kernel(LOGCUMSUMEXP, m.input(0), 0, value, value)
    first = neg(m, value)
    m.kernel("aten::flip.out", m.input(0), [0], value, value)
    m.kernel(LOGCUMSUMEXP, value, 0, value, value)
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
    m.kernel(LOGCUMSUMEXP, m.input(0), 0, made, made)
    m.jump_false(flag, 3)
    m.delegate(negating(), [m.input(0), made])
    m.outputs(relu(m, neg(m, made), (4,)))
    wait(expect(m, [X, True], submitted=2))
    wait(expect(m, [X, False], submitted=1))


def test_a_loop_can_carry_a_value_through_one_graph() -> None:
    """Twice: x = -relu(x), and the number of rounds counts down on the host."""
    m = method((4,))
    rounds, done = m.value(2), m.value(False)
    x = m.input(0)
    place = m.tensor((4,))
    m.delegate(chain(1, dims=(4,)), [x, place])
    m.delegate(negating(), [place, x])
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
    m.kernel(LOGCUMSUMEXP, m.input(0), 0, x, x)
    m.delegate(chain(1, dims=(4,)), [x, between])
    m.delegate(negating(), [between, x])
    m.delegate(negating(), [x, y])
    m.kernel("executorch_prim::sub.Scalar", rounds, 1, rounds)
    m.kernel("executorch_prim::le.Scalar", rounds, 0, done)
    m.jump_false(done, 1)
    m.outputs(y)
    wait(expect(m, [X], submitted=2))


def test_a_value_in_types_that_the_gpu_stores_alike_is_one() -> None:
    """The first graph returns int32, which the second declares as int64."""
    m = MethodWriter()
    m.inputs(m.tensor((4,), "int32"))
    first = unary(m, "aten.neg.default", m.input(0), (4,), "int32")
    m.outputs(unary(m, "aten.neg.default", first, (4,), "int64"))
    program = wait(expect(m, [X.astype(np.int32)]))
    assert program.stats.dispatches == 2, "nothing is converted"


def test_a_value_in_other_types_stays_apart() -> None:
    """The first graph returns int32, which the second declares as bytes."""
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
    """Exports with force_fp16 have graphs of f16, and float32 outside."""

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
        device, apart = SimulatedDevice(features=features), SimulatedDevice(features=features)
        program = await webpte.load(write_pte(m), device=device)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("webpte.engine.run.build.stitch", lambda method, *_: method)
            alone = await webpte.load(write_pte(m), device=apart)
        for got, want in zip(await program.forward(EDGES), await alone.forward(EDGES), strict=True):
            np.testing.assert_array_equal(got, want)
        assert len(runs(device)) == 1
        assert len(runs(apart)) == 4
        # Where half floats are stored as floats, nothing is rounded on its way into a graph.
        ops = {row.op: row.where for row in program.report}
        copied = "aten.alias_copy.default" in ops
        assert copied == (not features)

    wait(run())


def test_a_delegate_that_writes_to_its_input_stays_apart() -> None:
    """The output of the first is returned, too, and the second changes only its copy."""
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


@pytest.mark.parametrize(("dtype", "taken"), [("int64", "int32"), ("int32", "int32")])
def test_a_constant_of_the_method_is_a_delegates_in_its_own_type(dtype: str, taken: str) -> None:
    m = MethodWriter()
    m.inputs(m.tensor((4,), taken))
    constant = m.tensor((4,), dtype, data=np.array([1, -2, 3, 2**20], dtype))
    g, out = GraphWriter(), m.tensor((4,), taken)
    a, b = g.tensor((4,), taken), g.tensor((4,), taken)
    g.inputs(a, b)
    g.outputs(g.op("aten.add.Tensor", a, b, g.int(1), g.tensor((4,), taken)))
    m.delegate(g, [m.input(0), constant, out])
    m.outputs(unary(m, "aten.neg.default", out, (4,), taken))
    wait(expect(m, [X.astype(taken)]))


def test_bytes_that_are_read_in_another_type_are_no_view() -> None:
    """Not even where a GPU stores both types alike: the host does not."""

    async def run() -> None:
        m = MethodWriter()
        m.inputs(m.tensor((4,), "int32"))
        place = m.planned_bytes
        unary(m, "aten.neg.default", m.input(0), (4,), "int32")
        m.planned_bytes = place
        m.outputs(unary(m, "aten.neg.default", m.tensor((4,), "int64"), (4,), "int64"))
        program = await webpte.load(write_pte(m), device=SimulatedDevice())
        with pytest.raises(webpte.WebpteError, match="is read before anything wrote it"):
            await program.forward(X.astype(np.int32))

    wait(run())

"""Mutable buffers, and inputs that a method changes: written back on the GPU, where they stay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import webpte
from support.devices.recorded import ones, runs
from support.graphs.graphs import wait
from support.graphs.offloading import offloaded, places
from support.graphs.stitching import (
    X,
    expect,
    logcumsumexp,
    method,
    neg,
    plus,
    recording,
    unary,
)
from support.harness.samples import relu
from support.write.pte_writer import GraphWriter, Host, MethodWriter, write_pte
from webpte import errors
from webpte.engine.gpu.device_info import CLOCK, DeviceInfo
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.engine.load.stitch import stitch

COPY, NEG = "aten::copy_", "aten.neg.default"


def buffer(m: MethodWriter, dtype: str = "float32", *shape: int) -> Host:
    shape = shape or (4,)
    return m.tensor(shape, dtype, data=np.zeros(shape, dtype), mutable=True)


def write_back(m: MethodWriter, target: Host, source: Host) -> None:
    m.kernel(COPY, target, source, False, target)


def summing() -> MethodWriter:
    """total += -x; returns total"""
    m = method((4,))
    total = buffer(m)
    new = plus(m, total, neg(m, m.input(0)))
    write_back(m, total, new)
    m.outputs(neg(m, new))
    return m


async def payloads(program: webpte.Program, calls: int) -> list[int]:
    """Bytes that go up with each call, one submission for each."""
    device = recording(program)
    start = len(runs(device))
    for _ in range(calls):
        await program.forward(X)
    return [len(done["payload"]) for done in runs(device)[start:]]


# What stays


def test_a_buffer_stays_on_the_gpu() -> None:
    async def run() -> None:
        program = await expect(summing(), [X], [X], [X])
        assert places(program) == {COPY: "gpu"}
        assert await payloads(program, 2) == [16, 16], "the input alone"
        assert "read" not in [name for name, _ in recording(program).log]
        assert program.stats.submissions == 1

    wait(run())


def test_its_new_value_can_be_an_output_or_read_after_it_was_written() -> None:
    m = method((4,))
    total = buffer(m)
    new = plus(m, total, m.input(0))
    write_back(m, total, new)
    m.outputs(new, neg(m, total))

    async def run() -> None:
        assert await payloads(await expect(m, [X], [X], [X]), 1) == [16]

    wait(run())


def test_it_can_be_written_twice() -> None:
    m = method((4,))
    total = buffer(m)
    write_back(m, total, plus(m, total, m.input(0)))
    write_back(m, total, plus(m, total, total))
    m.outputs(neg(m, total))

    async def run() -> None:
        assert await payloads(await expect(m, [X], [X], [X]), 1) == [16]

    wait(run())


def test_two_buffers_can_change_places() -> None:
    m = method((4,))
    one, other = buffer(m), buffer(m)
    sums = plus(m, other, m.input(0))
    before = neg(m, one)
    write_back(m, one, sums)
    write_back(m, other, before)
    m.outputs(plus(m, sums, before))

    async def run() -> None:
        assert await payloads(await expect(m, [X], [X], [X], [X]), 1) == [16]

    wait(run())


@pytest.mark.parametrize("dtype", ["float16", "int32", "int8", "bool"])
def test_buffers_of_several_types(dtype: str) -> None:
    m = MethodWriter()
    flip = "aten.logical_not.default" if dtype == "bool" else "aten.neg.default"
    x, state = m.tensor((5,), dtype), buffer(m, dtype, 5)
    m.inputs(x)
    given = unary(m, flip, x, (5,), dtype)
    before = unary(m, flip, state, (5,), dtype)
    write_back(m, state, given)
    m.outputs(before)
    numbers = np.array([1, 0, 1, 1, 0]).astype(dtype)

    async def run() -> None:
        assert places(await expect(m, [numbers], [numbers[::-1].copy()], [numbers])) == {
            COPY: "gpu"
        }

    wait(run())


def test_what_nothing_reads_is_not_kept() -> None:
    m = method((4,))
    made = neg(m, m.input(0))
    write_back(m, buffer(m), plus(m, made, made))
    m.outputs(made)

    async def run() -> None:
        program = await expect(m, [X], [X])
        assert program._build.methods["forward"].only_delegate is not None

    wait(run())


def test_rows_of_a_cache_are_put_where_it_is() -> None:
    """cache[at] = -x; returns cache * 2"""
    m = MethodWriter()
    x, at, out = m.tensor((2,)), m.tensor((2,), "int64"), m.tensor((4,))
    m.inputs(x, at)
    cache = buffer(m)
    m.kernel("aten::index_put_", cache, [at], neg(m, x, (2,)), False, cache)
    m.kernel("aten::mul.Scalar_out", cache, 2, out, out)
    m.outputs(neg(m, out))
    calls = [[ones(2) * n, np.array(i)] for n, i in ((1, [0, 1]), (2, [-1, 1]), (3, [2, 2]))]

    async def run() -> None:
        program = await expect(m, *calls)
        assert places(program)["aten::index_put_"] == "gpu"
        assert await payload_of(program, calls[0]) == [32], "x and indices, in whole quads"

    wait(run())


@pytest.mark.parametrize("read_last", [True, False])
def test_a_cache_that_is_read_as_it_was_is_not_written_before(read_last: bool) -> None:
    """One delegate returns the cache with a new row, and the old one negated."""
    shape, row = (1, 4, 1, 2), (1, 1, 1, 2)
    g = GraphWriter()
    x, at, old, place = g.tensor(row), g.tensor((1,), "int64"), g.tensor(shape), g.symint(0)
    g.op("et_vk.select_as_symint.default", at, g.int(0), g.int(0), place)
    made = [g.tensor(shape), g.tensor(shape)]
    if not read_last:
        g.op(NEG, old, made[1])
    g.op("webpte.updated_cache.default", x, old, place, made[0])
    if read_last:
        g.op(NEG, old, made[1])
    g.inputs(x, at, old)
    g.outputs(*made)
    m = MethodWriter()
    m.inputs(m.tensor(row), m.tensor((1,), "int64"))
    cache, out = buffer(m, "float32", *shape), m.tensor(shape)
    m.delegate(g, [*m.input_values, cache, cache, out])
    m.outputs(out)
    calls = [[n * ones(*row), np.array([n])] for n in (1, 2, 1, 3)]
    program = wait(expect(m, *calls))
    assert wait(payload_of(program, calls[0])) == [16 + 16 + 256], "the cache stays on the GPU"


async def payload_of(program: webpte.Program, inputs: list[Any]) -> list[int]:
    start = len(runs(recording(program)))
    await program.forward(*inputs)
    return [len(done["payload"]) for done in runs(recording(program))[start:]]


# Inputs that are written to


def test_an_input_that_changes_is_an_output() -> None:
    m = method((4,))
    x = m.input(0)
    new = neg(m, x)
    write_back(m, x, new)
    m.outputs(x, plus(m, x, new))

    async def run() -> None:
        program = await expect(m, [X], [-X])
        assert places(program) == {COPY: "alias"}
        given = X.copy()
        await program.forward(given)
        assert np.array_equal(given, X), "arrays of the caller stay as they are"

    wait(run())


def test_an_input_of_any_size_can_change() -> None:
    m = MethodWriter()
    x = m.tensor((4, 3), dynamic=True)
    m.inputs(x)
    row = relu(m, m.tensor((3,), data=ones(3)), (3,))
    given = relu(m, x, (4, 3), dynamic=True)
    write_back(m, x, row)
    m.outputs(x, given)

    async def run() -> None:
        program = await expect(m, *([ones(count, 3) * 7] for count in (4, 1, 3)))
        assert places(program) == {COPY: "gpu"}

    wait(run())


def test_what_is_written_to_an_input_and_not_read_is_no_output() -> None:
    m = method((4,))
    made = neg(m, m.input(0))
    write_back(m, m.input(0), plus(m, made, made))
    m.outputs(made)

    async def run() -> None:
        await expect(m, [X])
        contents, state = await offloaded(m)
        (graph,) = stitch(contents, state, DeviceInfo("recording")).graphs
        assert graph is not None
        assert len(graph.outputs) == 1

    wait(run())


# What stays on the host


def read_by_the_host(m: MethodWriter, total: Host) -> Host:
    new = plus(m, total, m.input(0))
    write_back(m, total, new)
    return logcumsumexp(m, total)


def in_two_pieces(m: MethodWriter, total: Host) -> Host:
    first = logcumsumexp(m, plus(m, total, m.input(0)))
    write_back(m, total, neg(m, first))
    return first


def returned(m: MethodWriter, total: Host) -> Host:
    write_back(m, total, plus(m, total, m.input(0)))
    return total


def seen_by_the_host(m: MethodWriter, total: Host) -> Host:
    """Through a view that the exporter left out."""
    end, m.planned_bytes = m.planned_bytes, m.planned_bytes - 16
    view, m.planned_bytes = m.tensor((2, 2)), end
    write_back(m, total, plus(m, total, m.input(0)))
    return logcumsumexp(m, view, (2, 2))


@pytest.mark.parametrize("build", [read_by_the_host, in_two_pieces, returned, seen_by_the_host])
def test_what_others_touch_stays_on_the_host(build: Any) -> None:
    m = method((4,))
    m.outputs(build(m, buffer(m)))

    async def run() -> None:
        program = await webpte.load(write_pte(m), device=SimulatedDevice())
        expected = await webpte.load(write_pte(m), device="numpy")
        for _ in range(3):
            for got, want in zip(await program.forward(X), await expected.forward(X), strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-6)

    wait(run())


def test_64_bits_stay_on_the_host() -> None:
    m = method((4,))
    count, one, new = buffer(m, "int64"), m.tensor((4,), "int64", data=np.ones(4, int)), None
    new = m.tensor((4,), "int64")
    m.kernel("aten::add.out", count, one, 1, new, new)
    write_back(m, count, new)
    m.outputs(neg(m, m.input(0)), new)

    async def run() -> None:
        program = await expect(m, [X], [X])
        assert set(places(program).values()) == {"host"}

    wait(run())


@pytest.mark.parametrize("hosted", [False, True])
def test_without_delegates_a_method_is_on_the_gpu_as_a_whole_or_on_the_host(hosted: bool) -> None:
    m = method((4,))
    total, new = buffer(m), m.tensor((4,))
    m.kernel("aten::add.out", total, m.input(0), 1, new, new)
    write_back(m, total, new)
    m.outputs(logcumsumexp(m, new) if hosted else new)

    async def run() -> None:
        program = await expect(m, [X], [X], submitted=0 if hosted else 1)
        assert set(places(program).values()) == {"host" if hosted else "gpu"}

    wait(run())


def test_methods_that_share_a_buffer_see_what_the_other_wrote(root: Path) -> None:
    async def run() -> None:
        file = root / "tests" / "data" / "state" / "mixed.pte"
        program = await webpte.load(file, device=SimulatedDevice())
        expected = await webpte.load(file, device="numpy")
        for x in ([1.0, -2.0, 0.5], [-1.0, 3.0, 0.25]):
            for name, *given in (("add", np.array([x], np.float32)), ("get",)):
                (got,), (want,) = await program.run(name, *given), await expected.run(name, *given)
                np.testing.assert_allclose(got, want, rtol=1e-5)

    wait(run())


# Whole or nothing


def test_a_call_that_fails_leaves_a_buffer_alone() -> None:
    """An index that only the GPU sees is out of range, once with the copy behind it."""
    m = MethodWriter()
    x, indices = m.tensor((4,)), m.tensor((2,), "int32")
    m.inputs(x, indices)
    total = buffer(m)
    new = plus(m, total, x)
    write_back(m, total, new)
    negated = unary(m, "aten.neg.default", indices, (2,), "int32")
    g, out = GraphWriter(), m.tensor((2,))
    source, at = g.tensor((4,)), g.tensor((2,), "int32")
    g.inputs(source, at)
    g.outputs(g.op("aten.index_select.default", source, g.int(0), at, g.tensor((2,))))
    m.delegate(g, [new, negated, out])
    m.outputs(out)

    async def run() -> None:
        program = await webpte.load(write_pte(m), device=SimulatedDevice())
        assert places(program) == {COPY: "gpu"}
        good, bad = np.array([0, -3], np.int32), np.array([0, -4], np.int32)
        assert [y.tolist() for y in await program.forward(X, good)] == [[-1, 4]]
        with pytest.raises(errors.ExecutionError, match="out of range"):
            await program.forward(X, bad)
        assert [y.tolist() for y in await program.forward(X, good)] == [[-2, 8]]

    wait(run())


def test_looking_at_a_method_changes_nothing_and_a_new_device_starts_over() -> None:
    async def run() -> None:
        device = SimulatedDevice(features=(CLOCK,))
        program = await webpte.load(write_pte(summing()), device=device)
        first = (await program.forward(X))[0].tolist()
        await program.profile("forward", X)
        await program.compare("forward", X)
        assert (await program.forward(X))[0].tolist() == [2 * y for y in first]
        await program.recover(SimulatedDevice())
        assert (await program.forward(X))[0].tolist() == first

    wait(run())


# Methods that something keeps from being a single graph


@pytest.mark.parametrize(
    ("others", "where"),
    [((), "host"), (("product",), "gpu"), (("delegate",), "gpu"), (("product", "delegate"), "gpu")],
)
def test_a_buffer_of_light_kernels_alone_stays_on_the_host(
    others: tuple[str, ...], where: str
) -> None:
    """total += x, while the host computes an output; a product or a delegate is worth it."""
    dims = (4, 4)
    m = method(dims)
    total, new = buffer(m, "float32", *dims), m.tensor(dims)
    m.kernel("aten::add.out", total, m.input(0), 1, new, new)
    if "product" in others:
        square = m.tensor(dims)
        m.kernel("aten::mm.out", new, new, square, square)
        new = square
    write_back(m, total, new)
    made = logcumsumexp(m, m.input(0), dims)
    m.outputs(neg(m, m.input(0), dims) if "delegate" in others else made, made)
    x = np.eye(4, dtype=np.float32)

    async def run() -> None:
        program = await expect(m, [x], [x], submitted=int(where == "gpu"))
        found = places(program)
        assert found.pop("aten::logcumsumexp.out") == "host"
        assert set(found.values()) == {where}

    wait(run())

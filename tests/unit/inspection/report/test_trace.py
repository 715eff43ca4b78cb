"""`Program.trace`: one run over time, and the work of its calls."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import webpte
from support.devices.recorded import ADD, RELU, ones
from support.graphs.graphs import chain, load, temporary_op, wait
from support.graphs.stitching import counting, logcumsumexp, method, plus
from support.harness.inspecting import APART
from support.write.pte_writer import GraphWriter
from webpte import errors
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.engine.ops import lookup
from webpte.inspection.report import Rates, Trace
from webpte.inspection.report.timeline import WITHOUT_CLOCK
from webpte.inspection.report.work import FLOPS

LLAMA = Path(__file__).parents[3] / "data/llm/llama_tiny_q4.pte"
TIMED = ("timestamp-query",)


def traced(writer: Any, *inputs: Any, device: Any = None) -> Trace:
    async def run() -> Trace:
        async with await load(
            writer, device=device or SimulatedDevice(features=TIMED), **APART
        ) as program:
            return await program.trace("forward", *inputs)

    return wait(run())


def test_a_timeline_of_the_host_and_the_gpu() -> None:
    trace = traced(chain(3), ones(4))
    kinds = [span.kind for span in trace.spans]
    assert sorted(kinds) == ["kernel"] * 3 + ["prepare", "submit", "upload", "wait"]
    by_kind = {span.kind: span for span in trace.spans}
    order = ["prepare", "upload", "submit", "wait"]
    ends = [0.0]
    for kind in order:
        assert by_kind[kind].start >= ends[-1]
        ends.append(by_kind[kind].start + by_kind[kind].duration)
    assert ends[-1] <= trace.microseconds
    assert (by_kind["upload"].nbytes, by_kind["wait"].nbytes) == (16, 16)
    kernels = [span for span in trace.spans if span.kind == "kernel"]
    assert [span.duration for span in kernels] == [1.0] * 3  # by the simulated clock
    assert [span.node for span in kernels] == [0, 1, 2]
    assert np.diff([span.start for span in kernels]) == pytest.approx([1.0, 1.0])
    assert kernels[0].start == pytest.approx(by_kind["wait"].start)


def test_rows_by_kernel_op_and_layer() -> None:
    async def run() -> None:
        device = SimulatedDevice(features=TIMED)
        async with await webpte.load(LLAMA, device=device, **APART) as program:
            given = np.array([[5, 9, 33]]), np.array([4])
            trace = await program.trace("forward", *given)
            await program.forward(*given)
            assert len(trace.steps) == program.stats.dispatches
            layers = {row.name: row for row in trace.by("layer")}
            assert layers.keys() == {"layer 0", "layer 1", "none"}
            assert layers["layer 0"].flops == layers["layer 1"].flops
            ops = {row.name: row for row in trace.by("op")}
            for what in ("kernel", "op", "layer", "where"):
                rows = trace.by(what)
                assert sum(row.share or 0 for row in rows) == pytest.approx(1)
                assert sum(row.count for row in rows) == len(trace.steps)
                assert [r.microseconds for r in rows] == sorted(
                    (r.microseconds or 0.0 for r in rows), reverse=True
                )
            linear, attention = ops["et_vk.linear_q4gsw.default"], ops["sdpa_with_kv_cache.default"]
            # q, k, v, o, and three of a feed-forward of 192, for two layers; logits of the last
            sums = 64 * 64 + 2 * 64 * 32 + 64 * 64 + 3 * 64 * 192
            assert linear.flops == 2 * (2 * 3 * sums + 1 * 64 * 512)
            assert linear.count == 15
            assert attention.flops == 2 * 4 * (3 * 64) * (4 + 3)
            read = 3 * 64 + 2 * 3 * 32 + 2 * 7 * 32  # queries, keys and values, both caches
            written = 3 * 64 + 2 * 3 * 32
            assert attention.nbytes == 2 * 4 * (read + written)
            assert attention.count == attention.microseconds == 4, "two dispatches of two calls"
            assert attention.gigaflops == pytest.approx(attention.flops / 4000)
            assert attention.gigabytes_per_second == pytest.approx(attention.nbytes / 4000)
            table = ops["et_vk.embedding_q4gsw.default"]
            assert table.nbytes == 3 * (32 + 2 * 4) + 3 * 4 + 3 * 64 * 4, "rows, not the table"
            best = Rates(attention.gigabytes_per_second, 10 * (attention.gigaflops or 0))
            assert attention.part_of(best) == pytest.approx(1)
            assert attention.part_of(Rates(None, None)) is None
            shorter = await program.trace("forward", given[0][:, :1], given[1])
            pairs = {pair.name: pair for pair in shorter.against(trace, "op")}
            assert pairs.keys() == ops.keys()
            name = "sdpa_with_kv_cache.default"
            assert (pairs[name].before, pairs[name].difference) == (attention, 0)
            with pytest.raises(errors.InputError, match="by 'time'; there are 'kernel', 'op'"):
                trace.by("time")

    wait(run())


def test_a_fused_call_does_the_work_of_its_parts_and_moves_less() -> None:
    async def work(**options: Any) -> tuple[int, int, int]:
        device = SimulatedDevice(features=TIMED)
        async with await webpte.load(LLAMA, device=device, **options) as program:
            trace = await program.trace("forward", np.array([[5]]), np.array([4]))
            rows = trace.by("op")
            flops = sum(row.flops or 0 for row in rows)
            return flops, sum(row.nbytes for row in rows), len(trace.steps)

    async def run() -> None:
        apart, fused = await work(**APART), await work()
        assert fused[0] == apart[0]
        assert fused[1] < apart[1]
        assert fused[2] < apart[2], "dispatches"

    wait(run())


def test_without_a_clock_it_says_so() -> None:
    trace = traced(chain(3), ones(4), device=SimulatedDevice())
    assert not trace.timed
    assert WITHOUT_CLOCK in str(trace)
    assert WITHOUT_CLOCK not in str(traced(chain(3), ones(4)))
    (span,) = (span for span in trace.spans if span.track == "gpu")
    assert span.name == "3 kernels, not timed"
    assert [step.microseconds for step in trace.steps] == [None] * 3
    (row,) = trace.by("op")
    assert (row.microseconds, row.share, row.gigabytes_per_second) == (None, None, None)
    assert row.nbytes == 3 * 2 * 16


def test_steps_on_the_host_and_several_delegates() -> None:
    def refuse(args: Any) -> Any:
        raise errors.UnsupportedError("no kernel")

    definition = {
        "shape": lambda args: [args.tensor("self").dims],
        "lower": refuse,
        "reference": lambda args: args.array("self"),
    }
    g = GraphWriter()
    x = g.tensor((4,))
    a = g.op(RELU, x, g.tensor((4,)))
    b = g.op("test.host.default", a, g.tensor((4,)))
    g.inputs(x)
    g.outputs(g.op("aten.neg.default", b, g.tensor((4,))))
    m = method((4,))
    z, w = logcumsumexp(m, m.input_values[0]), m.tensor((4,))
    m.delegate(g, [z, w])
    m.outputs(w)
    with temporary_op("test.host.default", "self: tensor -> tensor", **definition):
        trace = traced(m, ones(4))
    hosts = [(span.name, span.node) for span in trace.spans if span.kind == "host"]
    assert hosts == [("aten::logcumsumexp.out", 0), ("test.host.default", 2)]
    rows = {row.name: row for row in trace.by("where")}
    assert rows.keys() == {"host", "gpu"}
    assert rows["gpu"].microseconds == 2.0
    assert trace.time_of("host") == pytest.approx(rows["host"].microseconds)


def test_on_numpy_every_call_is_timed_on_the_host() -> None:
    trace = traced(chain(3), ones(4), device="numpy")
    assert trace.timed
    assert [span.node for span in trace.spans if span.kind == "host"] == [0, 1, 2]
    (row,) = trace.by("op")
    assert row.nbytes == 3 * 2 * 16
    assert row.microseconds is not None
    assert row.microseconds > 0


def test_it_opens_in_perfetto_and_can_be_stored() -> None:
    trace = traced(chain(2), ones(4))
    events = json.loads(trace.perfetto())["traceEvents"]
    named = {e["args"]["name"] for e in events if e["ph"] == "M"}
    assert {"Python and browser", "GPU"} < named
    spans = [e for e in events if e["ph"] == "X"]
    assert len(spans) == len(trace.spans)
    assert all({"ts", "dur", "pid", "tid", "name", "cat"} <= e.keys() for e in spans)
    kernels = [e for e in spans if e["cat"] == "kernel"]
    assert [e["args"]["op"] for e in kernels] == [RELU] * 2
    assert len({e["tid"] for e in kernels}) == 1
    assert kernels[0]["tid"] not in {e["tid"] for e in spans if e["cat"] != "kernel"}
    stored = json.loads(trace.json())
    assert stored["steps"][1]["work"] == {"read": 16, "written": 16, "flops": None}
    assert "<table>" in trace._repr_html_()


@pytest.mark.parametrize("clock", [True, False])
def test_state_is_as_before_whatever_happens(clock: bool) -> None:
    def make() -> Any:
        m = method((4,))
        first = counting(m, m.input_values[0])
        m.outputs(plus(m, counting(m, logcumsumexp(m, first)), first))
        return m

    async def run() -> None:
        device = SimulatedDevice(features=TIMED if clock else ())
        program, fresh = await load(make(), device=device, **APART), await load(make())
        await program.trace("forward", ones(4))
        for _ in range(2):
            device.inject(method="profile" if clock else "run", at_result=True)
            with pytest.raises(errors.DeviceError, match="injected"):
                await program.trace("forward", ones(4))
            task = asyncio.ensure_future(program.trace("forward", ones(4)))
            for _ in range(2):
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            got, _, expected = await asyncio.gather(
                program.forward(ones(4)), program.trace("forward", ones(4)), fresh.forward(ones(4))
            )
            np.testing.assert_array_equal(got[0], expected[0])
        program.close()
        with pytest.raises(errors.ClosedError):
            await program.trace("forward", ones(4))
        assert device.counts()["buffers"] == device.counts()["plans"] == 0

    wait(run())


def test_formulas_are_for_operators_that_exist() -> None:
    assert not [name for name in FLOPS if lookup(name) is None]


def test_a_delegate_with_state_that_a_method_calls_twice() -> None:
    """A trace brings back the state from before the method's first call, not before its second."""

    def refuse(args: Any) -> Any:
        raise errors.UnsupportedError("no kernel")

    definition = {
        "shape": lambda args: [args.tensor("self").dims],
        "lower": refuse,
        "reference": lambda args: args.array("self"),
    }

    async def run() -> None:
        g = GraphWriter()
        x, one = g.tensor((4,)), g.tensor((4,), constant=ones(4))
        count = g.prepack(g.tensor((4,), constant=np.zeros(4, np.float32)))
        g.op(ADD, count, one, g.int(1), count)
        a = g.op("test.host.default", x, g.tensor((4,)))
        g.inputs(x)
        g.outputs(g.op(ADD, a, count, g.int(1), g.tensor((4,))))
        m = method((4,))
        first, second = m.tensor((4,)), m.tensor((4,))
        m.delegate(g, [m.input_values[0], first])
        m.call_again(0, [first, second])
        m.outputs(second)
        program = await load(m, device=SimulatedDevice(features=TIMED), **APART)
        for expected in (1 + 2, 3 + 4):
            await program.trace("forward", 0 * ones(4))
            assert (await program.compare("forward", 0 * ones(4))).agrees
            (got,) = await program.forward(0 * ones(4))
            assert got.tolist() == [expected] * 4

    with temporary_op("test.host.default", "self: tensor -> tensor", **definition):
        wait(run())

"""`Program.compare`: each call against NumPy; the state on the device does not change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import webpte
from support.devices.recorded import ADD, RELU, add_graph, ones
from support.graphs.compared import several
from support.graphs.graphs import chain, load, temporary_op, wait
from support.graphs.stitching import counting, logcumsumexp, method, neg, unary
from support.harness.inspecting import APART, broken
from support.write.pte_writer import GraphWriter
from webpte import errors
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.inspection.report import Comparison

LLAMA = Path(__file__).parents[3] / "data/llm/llama_tiny_q4.pte"
SIGMOID = "aten.sigmoid.default"


def compared(writer: Any, *inputs: Any, **options: Any) -> Comparison:
    async def run() -> Comparison:
        device = options.pop("device", None) or SimulatedDevice()
        async with await load(writer, device=device, **APART) as program:
            found = await program.compare("forward", *inputs, **options)
            if isinstance(device, SimulatedDevice):
                counts = device.counts()
                await program.compare("forward", *inputs, **options)
                assert device.counts() == counts
            return found

    return wait(run())


def test_a_wrong_kernel_is_named_with_what_went_in_and_came_out() -> None:
    g = GraphWriter()
    x = g.tensor((2, 3))
    a = g.op(RELU, x, g.tensor((2, 3)))
    b = g.op(SIGMOID, a, g.tensor((2, 3)))
    g.inputs(x)
    g.outputs(g.op("aten.neg.default", b, g.tensor((2, 3))))
    with broken(SIGMOID, by=0.25):
        found = compared(g, np.arange(6, dtype=np.float32).reshape(2, 3) - 1)
    assert not found.agrees
    assert found.first is not None
    assert found.first.call.op == SIGMOID
    own = found.first.call.own
    assert own is not None
    assert (own.wrong, own.count, own.worst) == (1, 6, (1, 2))
    assert own.max_abs == pytest.approx(0.25)
    around = np.subtract(found.first.around.actual, found.first.around.wanted)
    assert found.first.around.start == (0, 0)
    np.testing.assert_allclose(around, np.array([[0, 0, 0], [0, 0, 0.25]]), atol=1e-6)
    (given,) = found.first.inputs
    assert (given.facts.low, given.facts.high) == (0, 4)
    np.testing.assert_array_equal(given.array, [[0, 0, 1], [2, 3, 4]])
    relu, sigmoid, negated = found.calls
    assert relu.own is not None
    assert relu.own.agrees
    assert negated.own is not None
    assert negated.own.agrees, "it was given what is wrong, and made the right of it"
    assert negated.drift is not None
    assert negated.drift.max_abs == pytest.approx(0.25)
    assert sigmoid == found.first.call == found.worst[0]
    assert f"{sigmoid.label} is off by 0.25 at [1, 2]" in str(found)
    stored = json.loads(found.json())
    assert stored["first"]["call"]["op"] == SIGMOID


def test_tolerances_decide() -> None:
    with broken(SIGMOID, by=0.25):
        graph, x = chain(2, op=SIGMOID), ones(4)
        assert not compared(graph, x).agrees
        assert compared(graph, x, atol=0.3).agrees
        assert compared(graph, x, rtol=0.5).agrees
        found = compared(graph, x, drift=False)
        assert [c.drift for c in found.calls] == [None, None]


def test_memory_that_is_used_again_is_read_before() -> None:
    """Most pieces are one call each: 40 equal tensors share two buffers."""
    found = compared(chain(40, op="aten.neg.default"), np.array([1, 2, 3, 4], np.float32))
    assert len(found.calls) == 40
    assert found.agrees
    assert all(c.own is not None and c.own.max_abs == 0 for c in found.calls)


def test_delegates_that_have_become_one() -> None:
    m = method((4,))
    first = neg(m, m.input_values[0])
    offloaded = m.tensor((4,))
    m.kernel("aten::mul.out", first, first, offloaded, offloaded)
    m.outputs(unary(m, SIGMOID, offloaded, (4,)))
    with broken(SIGMOID):
        found = compared(m, ones(4))
    assert [c.op for c in found.calls] == ["aten.neg.default", "aten::mul.out", SIGMOID]
    assert found.first is not None
    assert found.first.call.label == "delegate 1: op 0 (aten.sigmoid.default)"


def test_steps_on_the_host_inside_and_between() -> None:
    def refuse(args: Any) -> Any:
        raise errors.UnsupportedError("no kernel")

    definition = {
        "shape": lambda args: [args.tensor("self").dims],
        "lower": refuse,
        "reference": lambda args: args.array("self") + 1,
    }
    g = GraphWriter()
    x = g.tensor((4,))
    a = g.op(RELU, x, g.tensor((4,)))
    b = g.op("test.host.default", a, g.tensor((4,)))
    g.inputs(x)
    g.outputs(g.op(SIGMOID, b, g.tensor((4,))))
    m = method((4,))
    z, w = logcumsumexp(m, counting(m, m.input_values[0])), m.tensor((4,))
    m.delegate(g, [z, w])
    m.outputs(w)

    async def run() -> None:
        device = SimulatedDevice()
        program = await load(m, device=device, **APART)
        inputs = ones(4)
        expected = await program.forward(inputs)
        again = await program.forward(inputs)
        program = await load(m, device=device, **APART)
        found = await program.compare("forward", inputs, expected=expected)
        assert found.agrees
        assert [c.op for c in found.calls] == [
            *(ADD, "aten.alias_copy.default", ADD, "aten::logcumsumexp.out"),
            *(RELU, "test.host.default", SIGMOID),
        ]
        assert [c.own is None for c in found.calls] == [*([False] * 3), True, False, True, False]
        (first,) = await program.forward(inputs)
        np.testing.assert_array_equal(first, expected[0])
        found = await program.compare("forward", inputs, expected=again)
        assert found.agrees, "its state is that of the device now"
        (second,) = await program.forward(inputs)
        np.testing.assert_array_equal(second, again[0])
        with broken(SIGMOID):
            found = await program.compare("forward", inputs)
        assert found.first is not None
        assert found.first.call.label == "delegate 1: op 2 (aten.sigmoid.default)"

    with temporary_op("test.host.default", "self: tensor -> tensor", **definition):
        wait(run())


def test_a_language_model_goes_on_as_if_nothing_had_been_compared() -> None:
    async def tokens(compare: bool) -> list[int]:
        async with await webpte.load(LLAMA, device=SimulatedDevice(), **APART) as program:
            chosen, token, position = [], [5, 9, 33, 7], 0
            for _ in range(3):
                given = np.array([token]), np.array([position])
                if compare:
                    before = await program.compare("forward", *given)
                (logits,) = await program.forward(*given)
                if compare:
                    found = await program.compare("forward", *given, expected=[logits])
                    assert found.agrees
                    assert before.agrees
                    own = [c.own for c in found.calls if c.own is not None]
                    assert len(own) == 38
                    assert max(each.max_abs for each in own) == 0
                position += len(token)
                token = [int(logits.reshape(-1, logits.shape[-1])[-1].argmax())]
                chosen += token
            return chosen

    assert wait(tokens(True)) == wait(tokens(False))


def test_a_wrong_cache_is_found_where_it_is_written() -> None:
    async def run() -> None:
        async with await webpte.load(LLAMA, device=SimulatedDevice(), **APART) as program:
            await program.forward(np.array([[5, 9, 33]]), np.array([0]))
            with broken("sdpa_with_kv_cache.default"):
                found = await program.compare("forward", np.array([[7]]), np.array([3]))
            assert found.first is not None
            assert found.first.call.op == "sdpa_with_kv_cache.default"
            assert found.first.call.layer == "layer 0"
            found = await program.compare("forward", np.array([[7]]), np.array([3]))
            assert found.agrees, "the cache is as it was"

    wait(run())


def test_live_shapes() -> None:
    graph = add_graph((8, 3), dynamic=True)
    with broken(ADD):
        for rows in (3, 8, 1):
            found = compared(graph, ones(rows, 3), ones(rows, 3))
            assert found.first is not None
            assert found.first.actual.shape == (rows, 3)


def test_where_nan_and_infinities_arise() -> None:
    g = GraphWriter()
    x = g.tensor((3,))
    a = g.op(RELU, x, g.tensor((3,)))
    b = g.op("aten.log.default", a, g.tensor((3,)))  # -inf for 0
    c = g.op("aten.sub.Tensor", b, b, g.int(1), g.tensor((3,)))  # NaN for -inf - -inf
    g.inputs(x)
    g.outputs(g.op("aten.neg.default", c, g.tensor((3,))))
    values = np.array([0, 1, 2], np.float32)
    for device in ("numpy", SimulatedDevice()):
        found = compared(g, values, device=device)
        assert found.first is None, "NaN agrees with NaN"
        assert found.first_infinity is not None
        assert found.first_infinity.op == "aten.log.default"
        assert found.first_nan is not None
        assert found.first_nan.op == "aten.sub.Tensor"
        assert [c.nans for c in found.calls] == [0, 0, 1, 1]
        assert "NaN first arises in op 2" in str(found)


def test_expected_outputs(tmp_path: Path) -> None:
    m = method((4,))
    m.outputs(neg(m, m.input_values[0]), logcumsumexp(m, m.input_values[0]))
    right = [-ones(4), np.logaddexp.accumulate(ones(4))]
    wrong = [2 * right[0], right[1]]
    np.savez(tmp_path / "named.npz", output0=right[0], output1=right[1])
    np.savez(tmp_path / "listed.npz", *right)
    for expected in (right, [None, right[1]], {"output1": right[1]}, tmp_path / "named.npz"):
        assert compared(m, ones(4), expected=expected).agrees
    assert compared(m, ones(4), expected=str(tmp_path / "listed.npz")).agrees
    assert compared(m, ones(4), expected=right, device="numpy").agrees
    empty = compared(m, ones(4), device="numpy")
    assert (empty.is_empty, empty.agrees) == (True, False)
    assert "nothing to compare" in str(empty)
    found = compared(m, ones(4), expected=wrong, device="numpy")
    assert (found.is_empty, found.agrees) == (False, False)
    first, second = found.outputs
    assert second.difference.agrees
    assert (first.difference.wrong, first.difference.max_abs) == (4, 1)
    assert first.around is not None
    assert first.around.wanted == [-2, -2, -2]
    assert "output0: 4 of 4 wrong, off by 1" in str(found)
    found = compared(m, ones(4), expected=[ones(3), None])
    assert "[4] here, [3] there" in str(found)


def test_expected_outputs_that_cannot_be_meant(tmp_path: Path) -> None:
    (tmp_path / "text.npz").write_text("not an archive")
    (tmp_path / "cut.npz").write_bytes(b"PK\x03\x04" + bytes(50))
    np.savez(tmp_path / "pickled.npz", output0=np.array([{}], object))
    for expected, message in (
        ([ones(4), ones(4)], "2 expected outputs, but method 'forward' gives 1"),
        ({"logits": ones(4)}, "expected has logits; method 'forward' gives output0"),
        (tmp_path / "text.npz", "text.npz is not a readable .npy or .npz file"),
        (tmp_path / "cut.npz", "cut.npz is damaged or cut off"),
        (tmp_path / "pickled.npz", "pickled.npz: output0.npy holds Python objects"),
        (tmp_path / "absent.npz", "absent.npz is not a readable .npy or .npz file"),
    ):
        with pytest.raises(errors.InputError, match=message):
            compared(chain(1), ones(4), expected=expected)


def test_inputs_on_the_gpu_and_those_of_the_last_run() -> None:
    async def run() -> None:
        program = await load(chain(2, op=SIGMOID), device=SimulatedDevice(), **APART)
        with pytest.raises(errors.InputError, match="has not run yet"):
            await program.compare()
        (tensor,) = await program.forward(ones(4), output="gpu")
        assert (await program.compare("forward", tensor)).agrees
        await program.forward(ones(4))
        assert (await program.compare()).agrees

    wait(run())


@pytest.mark.parametrize("device", ["numpy", "recording"])
def test_arrays_of_calls_that_are_asked_for_and_progress(device: str) -> None:
    async def run() -> None:
        made = SimulatedDevice() if device == "recording" else device
        program = await load(several(), device=made, **APART)
        graph, told = program.graph(), list[tuple[str, int, int]]()
        (last,) = (n.id for n in graph.nodes if n.outputs == graph.outputs)
        (cumulated,) = (n for n in graph.nodes if n.op == "aten::logcumsumexp.out")
        progress = lambda *done: told.append(done)  # noqa: E731
        found = await program.compare("forward", 2 * ones(4), keep=[last], progress=progress)
        kept = found.kept[last]
        assert [a.key for a in kept.inputs] == list(graph.nodes[last].inputs)
        one, other = (a.array for a in kept.inputs)
        np.testing.assert_array_equal(one, np.logaddexp.accumulate(3 * ones(4)) + 1)
        np.testing.assert_array_equal(other, 3 * ones(4))
        (output,) = kept.outputs
        np.testing.assert_array_equal(output.array, one + other)
        assert output.facts.high == pytest.approx(3 + np.log(4) + 1 + 3)
        count = len(graph.nodes)
        assert told == [("compare", done, count) for done in range(1, count + 1)]
        for wrong in (count, -1, cumulated.id):
            with pytest.raises(errors.InputError, match=f"keep={wrong}: no call inside"):
                await program.compare("forward", ones(4), keep=[wrong])

    wait(run())

"""Inspection of programs on WebGPU, whose kernels the simulated device does not run."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from support.graphs.stitching import counting, logcumsumexp, method, unary
from support.page.page import COUNTS, check_counts, encode_bytes, python
from support.write.pte_writer import GraphWriter, write_pte
from webpte_host.harness.browser import Harness

SIGMOID = "aten.sigmoid.default"

# Replaces an operator's kernel while a program is loaded and inspected.
BROKEN = """
from dataclasses import replace
from webpte.engine.ops.core import registry
from webpte.engine.ops.core.registry import lookup
async def with_broken(name, other, look):
    right = registry._REGISTRY[name]
    registry._REGISTRY[name] = replace(right, lower=lookup(other).lower)
    try:
        return await look()
    finally:
        registry._REGISTRY[name] = right
"""


@pytest.fixture(autouse=True)
def flat_counts(harness: Harness) -> Iterator[None]:
    """A check that the test leaves nothing on the device; leftovers of others may go."""
    before = python(harness, COUNTS)
    yield
    check_counts(harness, before)


def test_a_language_model_agrees_with_numpy_and_goes_on(harness: Harness) -> None:
    """Caches, dynamic shapes and a position that moves; also timed, and its memory."""
    code = """
    apart = webpte.Options(fuse=False)
    async with await webpte.load("/data/llm/llama_tiny_q4.pte", options=apart) as program:
        prompt, step = (np.array([[5, 9, 33, 7]]), np.array([0])), (np.array([[3]]), np.array([4]))
        first = await program.compare("forward", *prompt)
        (logits,) = await program.forward(*prompt)
        second = await program.compare("forward", *step)
        (plain,) = await program.forward(*step)
        third = await program.compare("forward", *step, expected=[plain])
        trace = await program.trace("forward", *step)
        (again,) = await program.forward(*step)
        graph, memory = program.graph(), program.memory()
        worst = max(call.own.max_abs for call in second.calls if call.own is not None)
        return [
            [each.agrees for each in (first, second, third)], worst, np.array_equal(plain, again),
            [str(first.first), str(second.first)], [str(group) for group in graph.layers],
            trace.json(), trace.perfetto(), program.stats.dispatches,
            [memory.nbytes, program.stats.buffer_bytes], memory.used_of_limit,
            "timestamp-query" in program.device_info.features,
        ]
    """
    found = python(harness, code)
    agrees, worst, same, first, layers, trace, perfetto, dispatches, memory, used, clock = found
    assert agrees == [True] * 3, first
    assert 0 < worst < 1e-3, "a GPU that computes the very same would be no GPU"
    assert same
    assert layers == ["layer x2"]
    trace = json.loads(trace)
    assert len(trace["steps"]) == dispatches
    assert trace["timed"] == clock
    kinds = {span["kind"] for span in trace["spans"]}
    assert kinds == {"prepare", "upload", "submit", "wait", "kernel" if clock else "kernels"}
    assert len(json.loads(perfetto)["traceEvents"]) == len(trace["spans"]) + 3
    assert memory[0] == memory[1]
    assert 0 < used < 1


@pytest.mark.thorough
def test_a_wrong_kernel_is_found_in_a_stitched_method(harness: Harness) -> None:
    """neg and sigmoid are two delegates that have become one; the sigmoid computes a tanh."""
    m = method((2, 5))
    first = unary(m, "aten.neg.default", m.input_values[0], (2, 5))
    m.outputs(unary(m, SIGMOID, first, (2, 5)))
    code = (
        BROKEN
        + """
async def look():
    apart = webpte.Options(fuse=False)
    async with await webpte.load(base64.b64decode(data), options=apart) as program:
        return await program.compare("forward", np.arange(10, dtype=np.float32).reshape(2, 5) - 6)
broken = await with_broken("aten.sigmoid.default", "aten.tanh.default", look)
right = await look()
call = broken.first.call
return [
    call.op, call.label, call.own.wrong, broken.first.around.actual, broken.first.around.wanted,
    broken.first.inputs[0].facts.high, [c.own.agrees for c in broken.calls],
    [right.agrees, right.first is None], "is off by" in str(broken),
]
"""
    )
    found = python(harness, code, data=encode_bytes(write_pte(m)))
    op, label, wrong, actual, wanted, high, own, right, said = found
    assert (op, label) == (SIGMOID, f"delegate 1: op 0 ({SIGMOID})")
    assert wrong > 5
    assert actual != wanted
    assert high == 6
    assert own == [True, False]
    assert right == [True, True]
    assert said


@pytest.mark.thorough
def test_state_and_steps_on_the_host_between(harness: Harness) -> None:
    """A buffer that counts calls, a kernel on the host, and NaN that arises after it."""
    m = method((4,))
    z = logcumsumexp(m, counting(m, m.input_values[0]))
    g, out = GraphWriter(), m.tensor((4,))
    x = g.tensor((4,))
    g.inputs(x)
    g.outputs(g.op("aten.log.default", x, g.tensor((4,))))
    m.delegate(g, [z, out])
    m.outputs(out)
    code = """
    apart = webpte.Options(fuse=False)
    async with await webpte.load(base64.b64decode(data), options=apart) as program:
        x = np.array([-4, 2, 1, 3], np.float32)
        before = await program.compare("forward", x)
        (first,) = await program.forward(x)
        await program.trace("forward", x)
        after = await program.compare("forward", x)
        (second,) = await program.forward(x)
        return [
            [before.agrees, after.agrees], [c.op for c in after.calls], after.first_nan.op,
            np.nan_to_num(first, nan=-1), np.nan_to_num(second, nan=-1),
        ]
    """
    agrees, ops, nan, first, second = python(harness, code, data=encode_bytes(write_pte(m)))
    assert agrees == [True, True]
    assert ops[-2:] == ["aten::logcumsumexp.out", "aten.log.default"]
    assert nan == "aten.log.default"
    assert first == pytest.approx([-1, 1.0994, 1.1985, 1.4835], abs=1e-3)
    assert second == pytest.approx([-1, 1.3869, 1.4621, 1.6879], abs=1e-3)

"""Constants of programs on WebGPU: uploaded once, in parts, in the type that the GPU stores."""

from __future__ import annotations

import numpy as np
import pytest

from support.page.page import decode, encode, encode_bytes
from support.page.page_programs import ADD, W, add_weights, run
from support.write.pte_writer import GraphWriter, write_pte
from webpte_host.harness.browser import Harness


@pytest.mark.usefixtures("flat_counts")
def test_what_constants_determine_is_computed_once(harness: Harness) -> None:
    """x + (w + w): the inner sum is a constant that no file has; bytes too few for a whole word."""
    g = GraphWriter()
    x, w = g.tensor((2, 3)), g.tensor((3,), constant=W)
    doubled = g.op(ADD, w, w, g.int(1), g.tensor((3,)))
    kept = g.op("aten.ge.Scalar", w, g.int(0), g.tensor((3,), "bool"))
    sums = g.op(ADD, x, doubled, g.int(1), g.tensor((2, 3)))
    zero = g.tensor((1,), constant=np.zeros(1, np.float32))
    g.inputs(x)
    g.outputs(g.op("aten.where.self", kept, sums, zero, g.tensor((2, 3))))
    code = """
    async with await webpte.load(data) as program:
        (y,) = await program.forward(np.ones((2, 3), np.float32))
        return [program.stats.dispatches, y]
    """
    dispatches, result = run(harness, code, write_pte(g))
    assert dispatches == 2
    np.testing.assert_array_equal(result, np.where(W >= 0, 1 + 2 * W, 0) * np.ones((2, 1)))


# Records the calls that write, run and wait, in order, until `restore` is called.
SPY = """
(() => {
    const log = [], undo = [];
    const watched = [
        [GPUQueue.prototype, "writeBuffer"], [GPUQueue.prototype, "submit"],
        [GPUQueue.prototype, "onSubmittedWorkDone"], [GPUBuffer.prototype, "mapAsync"],
    ];
    for (const [target, name] of watched) {
        const original = target[name];
        target[name] = function (...args) { log.push(name); return original.apply(this, args); };
        undo.push(() => { target[name] = original; });
    }
    return { log, restore() { for (const step of undo) step(); } };
})()
"""


def test_the_first_call_does_not_wait_for_the_constants(harness: Harness) -> None:
    """The queue keeps the order: nothing asks whether the GPU is done before the first submit."""
    code = """
    from pyodide.code import run_js
    spy = run_js(script)
    try:
        async with await webpte.load(data) as program:
            loaded = list(spy.log)
            (y,) = await program.forward(np.zeros((2, 3), np.float32))
            return [loaded, list(spy.log), y]
    finally:
        spy.restore()
    """
    loaded, called, result = run(harness, code, add_weights(), script=SPY)
    np.testing.assert_array_equal(result, np.broadcast_to(W, (2, 3)))
    assert set(loaded) == {"writeBuffer"}, "constants and params are written, and nothing else"
    first = called.index("submit")
    assert set(called[:first]) == {"writeBuffer"}
    assert called[first:] == ["submit", "mapAsync"]


@pytest.mark.usefixtures("flat_counts")
def test_constants_move_once(harness: Harness) -> None:
    code = """
    async with await webpte.load(data) as program:
        counts = [program.stats.prepack_transfers]
        for _ in range(10):
            (y,) = await program.forward(np.ones((2, 3), np.float32))
        counts.append(program.stats.prepack_transfers)
        return [counts, program.stats.executions, y]
    """
    counts, executions, result = run(harness, code, add_weights())
    assert counts == [1, 1]
    assert executions == 10
    np.testing.assert_array_equal(result, np.broadcast_to(1 + W, (2, 3)))


def test_a_cast_to_halves_rounds_whatever_stores_them(harness: Harness) -> None:
    """Also on a GPU without f16, which stores it as float32."""
    values = np.array([1.0009, -3.14159, 65519, 65520, -1e9, 1e-8, 9e-8, 6.1e-5, -0.0], np.float32)
    g = GraphWriter()
    x, half, out = (g.tensor((9,), dtype) for dtype in ("float32", "float16", "float32"))
    for source, target in ((x, half), (half, out)):
        g.op("aten._to_copy.default", source, *(g.null() for _ in range(6)), target)
    g.inputs(x)
    g.outputs(out)
    code = """
    async with await webpte.load(data) as program:
        (y,) = await program.forward(unpack(x))
        return pack(y)
    """
    result = decode(run(harness, code, write_pte(g), x=encode(values)))
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(result, values.astype(np.float16).astype(np.float32))


@pytest.mark.parametrize("dtype", ["float16", "float64", "int64", "int8", "uint8", "bool", "int32"])
def test_constants_of_every_type(harness: Harness, dtype: str) -> None:
    """Odd lengths; 64-bit numbers and f16 are converted during the upload."""
    values = {
        "float16": [1, -2, 0.5, 65504, 6e-8, -0.0, np.inf],
        "float64": [1, -2, 0.1, 1e30, 1e-30, -0.0, np.inf],
        "int64": [1, -2, 2**31 - 1, -(2**31), 0, 7, -1],
        "bool": [1, 0, 1, 1, 0, 1, 1],
        "uint8": [1, 2, 255, 128, 0, 7, 9],
    }.get(dtype, [1, -2, 127, -128, 0, 7, -1])
    weights = np.array(values).astype(dtype)
    g = GraphWriter()
    x = g.tensor((7,), dtype)
    w = g.prepack(g.tensor((7,), dtype, constant=weights))
    name = "aten.logical_or.default" if dtype == "bool" else ADD
    extra = [] if dtype == "bool" else [g.int(1)]
    g.inputs(x)
    g.outputs(g.op(name, x, w, *extra, g.tensor((7,), dtype)))
    code = """
    async with await webpte.load(data) as program:
        (y,) = await program.forward(unpack(x))
        return pack(y)
    """
    result = decode(run(harness, code, write_pte(g), x=encode(np.zeros(7, dtype))))
    assert result.dtype == np.dtype(dtype)
    wanted = weights.astype(np.float32).astype(dtype) if dtype == "float64" else weights
    np.testing.assert_array_equal(result, wanted)


@pytest.mark.usefixtures("flat_counts")
def test_a_constant_that_does_not_fit_is_an_error(harness: Harness) -> None:
    g = GraphWriter()
    x = g.tensor((2,), "int64")
    w = g.prepack(g.tensor((2,), "int64", constant=np.array([1, 2**31])))
    g.inputs(x)
    g.outputs(g.op(ADD, x, w, g.int(1), g.tensor((2,), "int64")))
    code = "return await raises(webpte.errors.ConstantError, webpte.load(data))"
    assert "does not fit into 32 bits" in run(harness, code, write_pte(g))


def test_large_constants_arrive_in_parts(harness: Harness) -> None:
    """More than one part of 32 MiB, and a tail that is not a whole word."""
    count = (32 << 20) + 12_345_677
    g = GraphWriter()
    x = g.tensor((), "uint8")
    w = g.prepack(g.tensor((count,), "uint8", constant=b"?", key="w"))
    g.inputs(x)
    g.outputs(g.op("aten.bitwise_or.Tensor", x, w, g.tensor((count,), "uint8")))
    pattern = np.resize(np.arange(251, dtype=np.uint8), count)
    data = write_pte(g, named_data={"w": pattern})
    head = data[: data.index(pattern[:502].tobytes())]
    tail = data[len(head) + count :]
    code = """
    pattern = np.resize(np.arange(251, dtype=np.uint8), count)
    whole = data + pattern.tobytes() + base64.b64decode(tail)
    events = []
    async with await webpte.load(whole, progress=lambda *event: events.append(event)) as program:
        (y,) = await program.forward(np.zeros((), np.uint8))
    constants = [event for event in events if event[0] == "constants"]
    return [np.flatnonzero(y != pattern)[:5], constants]
    """
    wrong, events = run(harness, code, head, tail=encode_bytes(tail), count=count)
    assert wrong == []
    steps = [event[1] for event in events]
    assert len(steps) > 1
    assert steps == sorted(steps)
    assert steps[-1] == count
    assert {event[2] for event in events} == {count}

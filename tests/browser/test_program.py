"""Programs on WebGPU: what they allocate, share, repeat, refuse and survive."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest

from support.graphs import chain
from support.page import decode, encode, encode_bytes, python
from support.pte_writer import GraphWriter, write_pte
from support.recorded import narrowed_graph
from support.samples import convolution, numbers
from webpte_host.browser import Harness

RELU, ADD = "aten.relu.default", "aten.add.Tensor"
W = np.array([1.5, -2, 3.25], np.float32)


def add_weights(
    *, dims: tuple[int, ...] = (2, 3), weights: np.ndarray = W, prepack: bool = True
) -> bytes:
    """M(x) = x + w."""
    g = GraphWriter()
    x = g.tensor(dims)
    w = g.tensor(weights.shape, str(weights.dtype), constant=weights)
    g.inputs(x)
    g.outputs(g.op(ADD, x, g.prepack(w) if prepack else w, g.int(1), g.tensor(dims)))
    return write_pte(g)


@pytest.fixture
def flat_counts(harness: Harness) -> Iterator[None]:
    """Nothing that the test loads may stay on the device."""
    code = "counts = (await shared_device()).counts(); return [counts['buffers'], counts['plans']]"
    before = python(harness, code)
    yield
    assert python(harness, code) == before


def run(harness: Harness, code: str, data: bytes, **arguments: Any) -> Any:
    """`data` is the program's bytes in the page."""
    return python(
        harness,
        "data = base64.b64decode(encoded)\n" + dedent(code),
        encoded=encode_bytes(data),
        **arguments,
    )


# Prepack


@pytest.mark.parametrize("prepack", [True, False])
@pytest.mark.usefixtures("flat_counts")
def test_the_sum_is_the_sum(harness: Harness, prepack: bool) -> None:
    x = np.array([[10, 20, 30], [-1, -2, -3]], np.float32)
    code = """
    async with await webpte.load(data) as program:
        (y,) = await program.forward(unpack(x))
        return pack(y)
    """
    result = decode(run(harness, code, add_weights(prepack=prepack), x=encode(x)))
    np.testing.assert_array_equal(result, x + W)


# Notes the calls that write, run and wait, in order, until `restore` is called.
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
    """Also where the GPU has no halves and stores them as float32."""
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
    """Odd lengths; 64-bit and half floats are converted on their way to the GPU."""
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


# Buffers and plans


def test_closing_frees_everything(harness: Harness) -> None:
    code = """
    device = await shared_device()
    before = device.counts()
    async with await webpte.load(data) as program:
        await program.forward(np.ones((2, 3), np.float32))
        during = device.counts()
        reported = program.stats.buffers
    after = device.counts()
    closed = await raises(webpte.errors.ClosedError, program.forward(np.ones((2, 3), np.float32)))
    return [before, during, after, reported, closed]
    """
    before, during, after, reported, closed = run(harness, code, add_weights())
    assert during["buffers"] == before["buffers"] + reported
    assert during["plans"] == before["plans"] + 1
    assert (after["buffers"], after["plans"]) == (before["buffers"], before["plans"])
    assert "was closed; load it again" in closed


def test_two_hundred_rounds_leave_nothing_behind(harness: Harness) -> None:
    code = """
    device = await shared_device()
    counts = []
    for _ in range(200):
        async with await webpte.load(data) as program:
            (y,) = await program.forward(np.ones((2, 3), np.float32))
        counts.append(device.counts())
    return [counts, y]
    """
    counts, result = run(harness, code, add_weights())
    assert all(count == counts[0] for count in counts), "pipelines are made once and kept"
    np.testing.assert_array_equal(result, np.broadcast_to(1 + W, (2, 3)))


@pytest.mark.usefixtures("flat_counts")
def test_two_programs_at_once(harness: Harness) -> None:
    code = """
    x = np.ones((2, 3), np.float32)
    first, second = await webpte.load(data), await webpte.load(base64.b64decode(other))
    results = []
    for program in (first, second, first, second):
        results.append((await program.forward(x))[0])
    first.close()
    results.append((await second.forward(x))[0])
    second.close()
    return results
    """
    results = run(harness, code, add_weights(), other=encode_bytes(add_weights(weights=W * 2)))
    for at, result in enumerate(results):
        factor = 2 if at in (1, 3, 4) else 1
        np.testing.assert_array_equal(result, np.broadcast_to(1 + factor * W, (2, 3)))


@pytest.mark.usefixtures("flat_counts")
def test_calls_at_once_get_their_own_answers(harness: Harness) -> None:
    """Of one shape and of several, on one program."""
    g = GraphWriter()
    x = g.tensor((64,))
    value = x
    for _ in range(3):
        value = g.op("aten.neg.default", value, g.tensor((64,)))
    g.inputs(x)
    g.outputs(value)
    for tensor in (x, value):
        g.host(tensor, dynamic=True)
    code = """
    async with await webpte.load(data) as program:
        inputs = [np.full(length, at, np.float32) for at, length in enumerate(lengths)]
        results = await asyncio.gather(*(program.forward(x) for x in inputs))
        return [y for (y,) in results]
    """
    lengths = [64, 64, 5, 64, 5, 1, 64, 0, 17, 5]
    for at, result in enumerate(run(harness, code, write_pte(g), lengths=lengths)):
        assert result == [-at] * lengths[at]


def test_executions_cross_over_as_often_for_10_dispatches_as_for_500(harness: Harness) -> None:
    code = """
    counts = []
    for encoded in programs:
        async with await webpte.load(base64.b64decode(encoded), fuse=False) as program:
            x = np.array([-1, 2, -3, 4], np.float32)
            await program.forward(x)
            before = program.stats.interop_calls
            (y,) = await program.forward(x)
            counts.append([program.stats.dispatches, program.stats.interop_calls - before, y])
    return counts
    """
    programs = [encode_bytes(write_pte(chain(count))) for count in (10, 500)]
    few, many = python(harness, code, programs=programs)
    assert (few[0], many[0]) == (10, 500)
    assert few[1] == many[1] <= 4
    assert few[2] == many[2] == [0, 2, 0, 4]


def test_closing_while_a_call_runs(harness: Harness) -> None:
    """The call that was submitted answers; one that was not says that the program is closed."""
    code = """
    program = await webpte.load(data)
    x = np.ones((2, 3), np.float32)
    await program.forward(x)
    running = asyncio.ensure_future(program.forward(x))
    await asyncio.sleep(0)
    program.close()
    (y,) = await running
    return [y, await raises(webpte.errors.ClosedError, program.forward(x))]
    """
    result, closed = run(harness, code, add_weights())
    np.testing.assert_array_equal(result, np.broadcast_to(1 + W, (2, 3)))
    assert "closed" in closed


# What is refused


@pytest.mark.usefixtures("flat_counts")
def test_a_wrong_input_between_two_right_ones(harness: Harness) -> None:
    code = """
    async with await webpte.load(data) as program:
        x = np.ones((2, 3), np.float32)
        (first,) = await program.forward(x)
        errors = [
            await raises(webpte.errors.InputError, program.forward(wrong))
            for wrong in (np.ones((2, 4), np.float32), np.ones((2, 3)), np.ones(6, np.float32))
        ]
        (second,) = await program.forward(x)
        return [first, errors, second]
    """
    first, errors, second = run(harness, code, add_weights())
    assert first == second == np.broadcast_to(1 + W, (2, 3)).tolist()
    assert ["[2, 4] was given" in errors[0], "not float64" in errors[1], "not 1" in errors[2]] == [
        True
    ] * 3


@pytest.mark.usefixtures("flat_counts")
def test_int64_beyond_int32_is_an_error(harness: Harness) -> None:
    g = narrowed_graph(2)
    code = """
    async with await webpte.load(data) as program:
        (first,) = await program.forward(np.array([5, 2**31 - 1]))
        errors = [
            await raises(webpte.errors.ExecutionError, program.forward(np.array([0, value])))
            for value in (2**31, -2**31 - 1)
        ]
        (second,) = await program.forward(np.array([7, 8]))
        return [first, errors, second, str(second.dtype)]
    """
    first, errors, second, dtype = run(harness, code, write_pte(g))
    assert first == [-5, -(2**31) + 1]
    assert all("outside the range of int32" in error for error in errors)
    assert (second, dtype) == ([-7, -8], "int64")


@pytest.mark.usefixtures("flat_counts")
def test_unsupported_ops_are_named(harness: Harness) -> None:
    g = GraphWriter()
    x = g.tensor((2,))
    a = g.op("aten.nope.default", x, g.tensor((2,)))
    g.inputs(x)
    g.outputs(g.op("aten.nope.default", a, g.tensor((2,))))
    code = (
        "return await raises(webpte.errors.UnsupportedOpError, webpte.load(data, name='odd.pte'))"
    )
    message = run(harness, code, write_pte(g))
    assert message.startswith("odd.pte: 1 operator not supported")
    assert message.endswith("aten.nope.default ×2")


@pytest.mark.usefixtures("flat_counts")
def test_a_broken_file_leaves_nothing_allocated(harness: Harness) -> None:
    whole = add_weights()
    code = """
    messages = []
    for size in sizes:
        messages.append(await raises(webpte.errors.FormatError, webpte.load(data[:size])))
    return messages
    """
    sizes = [0, 7, 100, len(whole) // 2, len(whole) - 4]
    for message in run(harness, code, whole, sizes=sizes):
        assert "(at byte " in message


@pytest.mark.usefixtures("flat_counts")
def test_a_tensor_over_the_limit_is_an_error_with_sizes(harness: Harness) -> None:
    g = GraphWriter()
    x = g.tensor((1,))
    g.inputs(x)
    g.outputs(g.op(ADD, x, x, g.int(1), g.tensor((1,))))
    huge = g.tensor((1 << 31,))
    g.op(ADD, x, g.prepack(g.tensor((), constant=np.ones((), np.float32))), g.int(1), huge)
    code = "return await raises(webpte.WebpteError, webpte.load(data))"
    assert run(harness, code, write_pte(g))
    g = GraphWriter()
    a, b = g.tensor((1 << 16, 1)), g.tensor((1, 1 << 15))
    g.inputs(a, b)
    g.outputs(g.op(ADD, a, b, g.int(1), g.tensor((1 << 16, 1 << 15))))
    code = "return await raises(webpte.errors.OutOfMemoryError, webpte.load(data))"
    message = run(harness, code, write_pte(g))
    assert "8,589,934,592 bytes" in message
    assert "limit" in message


def test_a_kernel_that_does_not_compile_is_a_shader_error(harness: Harness) -> None:
    code = """
    from webpte.gpu.device import PipelineSpec
    device = await shared_device()
    before = device.counts()
    spec = PipelineSpec("broken kernel", "fn main() { let x: u32 = 1.5; }", (), ())
    message = await raises(webpte.errors.ShaderError, device.create_pipelines([spec]))
    return [message, device.counts() == before]
    """
    message, same = python(harness, code)
    assert "broken kernel" in message
    assert "line 1" in message
    assert same


# Losing the device


def test_a_lost_device_is_told_and_replaced(harness: Harness) -> None:
    code = """
    x = np.ones((2, 3), np.float32)
    program = await webpte.load(data)
    await program.forward(x)
    (await shared_device()).destroy()
    causes = []
    for _ in range(2):
        try:
            await program.forward(x)
        except webpte.errors.ExecutionError as error:
            causes.append([type(error.__cause__).__name__, str(error)])
    program.close()
    async with await webpte.load(data) as again:
        (y,) = await again.forward(x)
    return [causes, y]
    """
    causes, result = run(harness, code, add_weights())
    assert [cause[0] for cause in causes] == ["DeviceLostError"] * 2
    assert all("call program.recover(), or load the program again" in cause[1] for cause in causes)
    np.testing.assert_array_equal(result, np.broadcast_to(1 + W, (2, 3)))


def test_a_device_lost_while_a_call_runs(harness: Harness) -> None:
    code = """
    from webpte.gpu.webgpu import WebGPUDevice
    device = await WebGPUDevice.create()
    x = np.ones((2, 3), np.float32)
    program = await webpte.load(data, device=device)
    await program.forward(x)
    running = asyncio.ensure_future(program.forward(x))
    await asyncio.sleep(0)
    device.destroy()
    try:
        await running
        cause = "it was done already"
    except webpte.errors.ExecutionError as error:
        cause = type(error.__cause__).__name__
    program.close()
    async with await webpte.load(data) as again:
        (y,) = await again.forward(x)
    return [cause, y]
    """
    cause, result = run(harness, code, add_weights())
    assert cause in ("DeviceLostError", "it was done already")
    np.testing.assert_array_equal(result, np.broadcast_to(1 + W, (2, 3)))


# Sources


@pytest.mark.parametrize(
    "source", ["data", "bytearray(data)", "memoryview(data)", "blob", "url", "path"]
)
@pytest.mark.usefixtures("flat_counts")
def test_sources(harness: Harness, root: Path, source: str) -> None:
    code = f"""
    import js
    from pathlib import Path
    from pyodide.ffi import to_js
    path = Path("/tmp/tiny.pte")
    path.write_bytes(data)
    url = str(js.location.origin) + "/samples/add.pte"
    blob = js.Blob.new([to_js(data)])
    source = {source}
    methods = await webpte.inspect(source)
    async with await webpte.load(source) as program:
        return [program.name, sorted(methods), len(methods["forward"].inputs)]
    """
    sample = (root / "web" / "samples" / "add.pte").read_bytes()
    name, methods, inputs = run(harness, code, sample)
    assert name == {"url": "add.pte", "path": "tiny.pte", "blob": "blob"}.get(source, "bytes")
    assert methods == ["forward"]
    assert inputs == 2


def test_an_address_that_is_not_there(harness: Harness) -> None:
    code = """
    import js
    origin = str(js.location.origin)
    addresses = [origin + "/nothing.pte", "http://localhost:9/x.pte"]
    return [await raises(webpte.errors.SourceError, webpte.load(a)) for a in addresses]
    """
    missing, refused = python(harness, code)
    assert "404" in missing
    assert "nothing.pte" in missing
    assert "localhost:9" in refused
    harness.log.console_errors.clear()


@pytest.mark.parametrize("ranges", [True, False])
def test_progress_tells_every_stage(harness: Harness, ranges: bool) -> None:
    """A server without range requests sends the whole file first, and that is a stage, too."""
    code = """
    import js
    from pyodide.ffi import to_js
    from webpte.gpu.webgpu import WebGPUDevice
    device = await WebGPUDevice.create()  # for which no kernel was compiled yet
    if ranges:
        url = str(js.URL.createObjectURL(js.Blob.new([to_js(data)])))
    else:
        url = "data:application/octet-stream;base64," + encoded
    events = []
    def note(*event):
        events.append(event)
    async with await webpte.load(url, device=device, progress=note) as program:
        laps = program.stats.load_ms
        (y,) = await program.forward(np.zeros((64, 3), np.float32))
    device.destroy()
    return [events, laps, y[63]]
    """
    data = add_weights(dims=(64, 3))
    events, laps, last = run(harness, code, data, ranges=ranges)
    assert last == W.tolist()
    stages = [event[0] for event in events]
    first = ["read"] if ranges else ["fetch", "read"]
    assert list(dict.fromkeys(stages))[: len(first)] == first
    assert set(stages) == {*first, "compile", "constants"}
    for stage in set(stages):
        done = [event[1:] for event in events if event[0] == stage]
        assert done == sorted(done)
        assert done[-1][0] == done[-1][1]
    if not ranges:
        assert events[stages.index("read") - 1][1] == len(data)
    assert {"fetch", "read", "build"} <= laps.keys()


def test_the_device_says_what_it_is(harness: Harness) -> None:
    code = """
    async with await webpte.load(data) as program:
        info = program.device_info
    limit = info.limits["maxBufferSize"]
    return [info.kind, info.vendor, info.software, limit, list(info.features)]
    """
    kind, vendor, software, limit, features = run(harness, code, add_weights())
    assert kind == "webgpu"
    assert vendor
    assert isinstance(software, bool)
    assert limit >= 1 << 28
    assert isinstance(features, list)


# Several methods


@pytest.mark.usefixtures("flat_counts")
def test_methods_share_weights_and_state(harness: Harness) -> None:
    """tests/data/state/mixed.pte; see tests/unit/runtime/test_state.py for what it computes."""
    code = """
    import js
    url = str(js.location.origin) + "/data/state/mixed.pte"
    results = {}
    for device in ("webgpu", "numpy"):
        async with await webpte.load(url, device=device) as program:
            seen = []
            for x in ([1.0, -2.0, 0.5], [-1.0, 3.0, 0.25]):
                seen += await program.run("add", np.array([x], np.float32))
                seen += await program.run("get")
            results[device] = [seen, program.stats.prepack_transfers]
    return results
    """
    results = python(harness, code)
    np.testing.assert_allclose(results["webgpu"][0], results["numpy"][0], rtol=1e-5)
    assert results["webgpu"][1] == 1


@pytest.mark.usefixtures("flat_counts")
def test_inputs_without_bounds_up_to_what_a_delegate_takes(harness: Harness) -> None:
    """tests/data/unbound/relu.pte: cumsum(relu(x)) + 1, its delegates take at most 4 rows."""
    code = """
    import js
    results = []
    async with await webpte.load(str(js.location.origin) + "/data/unbound/relu.pte") as program:
        for rows in (2, 4, 1):
            results += await program.forward(np.ones((rows, 3), np.float32))
        call = program.forward(np.ones((5, 3), np.float32))
        return [results, await raises(webpte.errors.ExecutionError, call)]
    """
    results, message = python(harness, code)
    for result, rows in zip(results, (2, 4, 1), strict=True):
        np.testing.assert_array_equal(result, np.arange(2, rows + 2)[:, None].repeat(3, axis=1))
    assert "[5, 3] does not fit into its maximum [4, 3]" in message


# Kernels between delegates


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 3, 1)])
@pytest.mark.usefixtures("flat_counts")
def test_a_kernel_between_delegates_gives_what_numpy_gives(
    harness: Harness, order: tuple[int, ...]
) -> None:
    """With weights as they are in the file, and in another order than there."""
    weight = np.ascontiguousarray(numbers(3, 2, 3, 3).transpose(order))
    code = """
    results = {}
    for device in ("webgpu", "numpy"):
        async with await webpte.load(data, device=device) as program:
            outputs = [pack((await program.forward(unpack(x)))[0]) for x in (one, four, one)]
            (row,) = [row for row in program.report if "::" in row.op]
            results[device] = [outputs, row.where]
    return results
    """
    images = numbers(4, 2, 5, 5)
    data = write_pte(convolution(data=weight, dim_order=order))
    results = run(harness, code, data, one=encode(images[:1]), four=encode(images))
    assert [results[device][1] for device in ("webgpu", "numpy")] == ["gpu", "host"]
    for got, want in zip(results["webgpu"][0], results["numpy"][0], strict=True):
        np.testing.assert_allclose(decode(got), decode(want), rtol=1e-5, atol=1e-6)

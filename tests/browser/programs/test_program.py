"""Programs on WebGPU: allocations, sharing, repeated calls, refusals and recovery."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from support.graphs.graphs import chain
from support.harness import extent
from support.harness.samples import convolution, numbers
from support.page.page import decode, encode, encode_bytes, python
from support.page.page_programs import W, add_weights, run
from support.write.pte_writer import GraphWriter, write_pte
from webpte_host.harness.browser import Harness

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


def test_many_rounds_leave_nothing_behind(harness: Harness) -> None:
    code = """
    device = await shared_device()
    counts = []
    for _ in range(rounds):
        async with await webpte.load(data) as program:
            (y,) = await program.forward(np.ones((2, 3), np.float32))
        counts.append(device.counts())
    return [counts, y]
    """
    counts, result = run(harness, code, add_weights(), rounds=extent.count(50, 200))
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
    """Calls of one shape and of several overlap on one program."""
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
        apart = webpte.Options(fuse=False)
        async with await webpte.load(base64.b64decode(encoded), options=apart) as program:
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
    """A submitted call answers; a later call says that the program is closed."""
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
    from webpte.engine.gpu.webgpu.device import WebGPUDevice
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
    """tests/unit/engine/load/test_state.py says what state/mixed.pte computes."""
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
    """The weights are used in the file's order, and in another one."""
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

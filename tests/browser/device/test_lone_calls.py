"""Costs of one call between Python and the GPU: no extra turn of the loop, no extra copy."""

from __future__ import annotations

from typing import Any

from support.graphs.graphs import chain
from support.page.page import encode_bytes, python
from support.write.pte_writer import write_pte
from webpte_host.harness.browser import Harness


def run(harness: Harness, code: str, size: int) -> Any:
    data = encode_bytes(write_pte(chain(1, dims=(size,), op="aten.neg.default")))
    return python(harness, code, data=data, size=size)


def test_a_call_goes_on_in_the_turn_in_which_its_result_comes(harness: Harness) -> None:
    code = """
    async with await webpte.load(base64.b64decode(data)) as program:
        x = np.arange(4, dtype=np.float32)
        for _ in range(2):
            await program.forward(x)
        loop, turns = asyncio.get_running_loop(), []
        later = loop.call_later
        loop.call_later = lambda *rest, **more: (turns.append(rest), later(*rest, **more))[1]
        try:
            (y,) = await program.forward(x)
            seen = len(turns)
            await asyncio.sleep(0)
        finally:
            del loop.call_later
        return [y, seen, len(turns)]
    """
    assert run(harness, code, 4) == [[0, -1, -2, -3], 0, 1]


def test_calls_at_once_and_memory_that_grows_leave_every_result_right(harness: Harness) -> None:
    """Commands are ready by the third call; results up to 4 MiB have a place in Python's memory."""
    code = """
    wrong, kept = [], []
    async with await webpte.load(base64.b64decode(data)) as program:
        for number in range(4):
            given = [np.full(size, 10 * number + i, np.float32) for i in range(3)]
            results = await asyncio.gather(*(program.forward(x) for x in given))
            wrong += [number for x, (y,) in zip(given, results) if not np.array_equal(y, -x)]
            kept.append(np.ones(48 << 20, np.uint8))  # more than Python's memory has left
        return wrong
    """
    for size in (1000, (4 << 20) // 4 + 1):
        assert run(harness, code, size) == []


def test_results_that_memory_has_no_room_for_are_an_error_and_nobody_waits_for_ever(
    harness: Harness,
) -> None:
    code = """
    from webpte.engine.gpu.webgpu import pending_requests as webgpu

    class Large:
        def to_bytes(self):
            raise MemoryError

    async with await webpte.load(base64.b64decode(data)) as program:
        x = np.arange(size, dtype=np.float32)
        told, bytes_of = [], webgpu._bytes_of
        for _ in range(3):  # commands are ready by the third
            webgpu._bytes_of = lambda data, window: bytes_of(Large(), None)
            try:
                running = asyncio.wait_for(program.forward(x), 20)
                told.append(await raises(webpte.errors.OutOfMemoryError, running))
            finally:
                webgpu._bytes_of = bytes_of
            (y,) = await program.forward(x)
        return [told, np.array_equal(y, -x)]
    """
    told, right = run(harness, code, 4)
    assert len(told) == 3
    assert all("Python has no memory left" in message for message in told)
    assert right


# Records writes to the queue, and staging buffers that are created and destroyed.
_LIFTS = """
(() => {
    const seen = { writes: 0, made: 0, destroyed: 0 };
    const lifts = new WeakSet();
    const { createBuffer } = GPUDevice.prototype;
    const { destroy } = GPUBuffer.prototype;
    const { writeBuffer } = GPUQueue.prototype;
    GPUDevice.prototype.createBuffer = function (what) {
        const made = createBuffer.call(this, what);
        if (what.usage & GPUBufferUsage.MAP_WRITE) { seen.made++; lifts.add(made); }
        return made;
    };
    GPUBuffer.prototype.destroy = function () {
        if (lifts.delete(this)) seen.destroyed++;
        destroy.call(this);
    };
    GPUQueue.prototype.writeBuffer = function (...rest) {
        seen.writes++;
        writeBuffer.apply(this, rest);
    };
    seen.restore = () => {
        GPUDevice.prototype.createBuffer = createBuffer;
        GPUBuffer.prototype.destroy = destroy;
        GPUQueue.prototype.writeBuffer = writeBuffer;
    };
    return seen;
})()
"""


def test_a_large_input_goes_by_a_mapped_buffer_which_the_next_call_has_again(
    harness: Harness,
) -> None:
    code = """
    from pyodide.code import run_js
    async with await webpte.load(base64.b64decode(data)) as program:
        x = np.arange(size, dtype=np.float32)
        await program.forward(x)  # creates what later calls reuse
        seen, told = run_js(script), []
        try:
            for number in range(4):
                (y,) = await program.forward(x + number)
                assert np.array_equal(y, -(x + number)), number
            told.append([seen.writes, seen.made <= 1])  # one may not be mapped again yet
            made = seen.made
            results = await asyncio.gather(*(program.forward(x * i) for i in range(5)))
            assert all(np.array_equal(y, -x * i) for i, (y,) in enumerate(results))
            told.append(seen.made - made <= 5)
            running = asyncio.ensure_future(program.forward(x))
            await asyncio.sleep(0)
            program.close()  # with a call in flight
            try:
                await running
            except webpte.WebpteError:
                pass
            while seen.destroyed < seen.made:
                await asyncio.sleep(0.01)
        finally:
            seen.restore()
        return told
    """
    data = encode_bytes(write_pte(chain(1, dims=(50_000,), op="aten.neg.default")))
    found = python(harness, code, data=data, size=50_000, script=_LIFTS)
    assert found == [[0, True], True]
    small = encode_bytes(write_pte(chain(1, dims=(1000,), op="aten.neg.default")))
    code = """
    from pyodide.code import run_js
    async with await webpte.load(base64.b64decode(data)) as program:
        x = np.arange(1000, dtype=np.float32)
        await program.forward(x)
        seen = run_js(script)
        try:
            await program.forward(x)
        finally:
            seen.restore()
        return [seen.writes, seen.made]
    """
    assert python(harness, code, data=small, script=_LIFTS) == [1, 0]


def test_a_lost_device_is_told_whatever_the_size_of_an_input(harness: Harness) -> None:
    """Buffers for large ones are unmapped at once; that it is lost, a device says later."""
    code = """
    from webpte.errors import DeviceLostError
    from webpte.engine.gpu.webgpu.device import WebGPUDevice
    device, told = await WebGPUDevice.create(), []
    async with await webpte.load(base64.b64decode(data), device=device) as program:
        x = np.arange(size, dtype=np.float32)
        for _ in range(3):  # there is a buffer then
            await program.forward(x)
        await asyncio.sleep(0.05)  # and it is mapped again
        device.native.destroy()
        for _ in range(2):
            told.append(await raises(DeviceLostError, program.forward(x)))
    return told
    """
    for size in (1000, 50_000):
        first, second = run(harness, code, size)
        assert "recover" in first
        assert first == second

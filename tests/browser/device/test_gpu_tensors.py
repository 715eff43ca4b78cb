"""Tensors that stay on the GPU, and buffers that other WebGPU code made."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from support.devices.recorded import add_graph
from support.graphs.graphs import chain
from support.page.page import COUNTS, check_counts, encode_bytes, python
from support.write.pte_writer import MethodWriter, write_pte
from webpte_host.harness.browser import Harness


@pytest.fixture(autouse=True)
def flat_counts(harness: Harness) -> Iterator[None]:
    """Check that nothing which the test loads or holds stays on the device."""
    before = python(harness, COUNTS)
    yield
    check_counts(harness, before)


def test_outputs_stay_on_the_gpu_and_belong_to_the_caller(harness: Harness) -> None:
    """Powers of two by doubling: no result is overwritten by the calls after it."""
    code = """
    async with await webpte.load(base64.b64decode(data)) as program:
        tensors = [np.ones((2, 3), np.float32)]
        for _ in range(4):
            (doubled,) = await program.forward(tensors[-1], tensors[-1], output="gpu")
            tensors.append(doubled)
        (mixed,) = await program.forward(tensors[1], tensors[4])
        seven, zero = np.full((1, 3), 7, np.float32), np.zeros((1, 3), np.float32)
        (small,) = await program.forward(seven, zero, output="gpu")
        held = program.stats.buffers
        tensors[3].destroy()
        return [
            [(await tensor.numpy()) for tensor in (tensors[1], tensors[2], tensors[4], small)],
            mixed, held - program.stats.buffers,
            await raises(webpte.errors.ClosedError, tensors[3].numpy()),
        ]
    """
    data = encode_bytes(write_pte(add_graph((2, 3), dynamic=True)))
    (two, four, sixteen, small), mixed, freed, gone = python(harness, code, data=data)
    assert [np.unique(t).tolist() for t in (two, four, sixteen, small)] == [[2], [4], [16], [7]]
    assert np.shape(small) == (1, 3)
    assert np.unique(mixed).tolist() == [18]
    assert freed == 1
    assert "was destroyed" in gone


def test_what_the_host_computes_goes_up_and_what_it_needs_comes_back(harness: Harness) -> None:
    """relu on the GPU, then the host: what goes in and comes out are tensors of the GPU."""
    m = MethodWriter.of(chain(1))
    out = m.tensor((4,))
    m.kernel("aten::logcumsumexp.out", m.output(0), 0, out, out)
    m.output_values[:] = [out]
    code = """
    async with await webpte.load(base64.b64decode(data)) as program:
        (first,) = await program.forward(np.array([1, 2, 3, -4], np.float32), output="gpu")
        (second,) = await program.forward(first)
        return [type(first).__name__, await first.numpy(), second]
    """
    kind, first, second = python(harness, code, data=encode_bytes(write_pte(m)))
    assert kind == "GpuTensor"
    assert first == pytest.approx([1, 2.3133, 3.4076, 3.4402], abs=1e-3)
    assert second == pytest.approx([1, 2.5514, 3.7616, 4.3069], abs=1e-3)


def test_other_kernels_read_and_write_our_tensors(harness: Harness) -> None:
    """A kernel of the user's own, on the buffer of an output, into a buffer that is an input."""
    code = """
    from pyodide.code import run_js
    program = await webpte.load(base64.b64decode(data))
    (x,) = await program.forward(np.array([-1, 2, -3, 4], np.float32), output="gpu")
    result = run_js(script)(program.device.native, x.buffer)
    (y,) = await program.forward(result)
    (z,) = await program.forward(webpte.GpuTensor.from_buffer(result, "float32", (4,)))
    program.close()
    again = await webpte.load(base64.b64decode(data))
    (kept,) = await again.forward(result)  # closing a program leaves the user's buffer alone
    again.close()
    result.destroy()
    return [y, z, kept]
    """
    script = """
    (device, source) => {
        const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC;
        const target = device.createBuffer({ size: 16, usage });
        const module = device.createShaderModule({ code: `
            @group(0) @binding(0) var<storage, read> x: array<f32>;
            @group(0) @binding(1) var<storage, read_write> y: array<f32>;
            @compute @workgroup_size(4) fn main(@builtin(local_invocation_index) i: u32) {
                y[i] = x[i] * 10.0 - 5.0;
            }` });
        const pipeline = device.createComputePipeline({ layout: "auto", compute: { module } });
        const group = device.createBindGroup({
            layout: pipeline.getBindGroupLayout(0),
            entries: [source, target].map((buffer, binding) => ({ binding, resource: { buffer } })),
        });
        const encoder = device.createCommandEncoder();
        const pass = encoder.beginComputePass();
        pass.setPipeline(pipeline);
        pass.setBindGroup(0, group);
        pass.dispatchWorkgroups(1);
        pass.end();
        device.queue.submit([encoder.finish()]);
        return target;
    }
    """
    results = python(harness, code, data=encode_bytes(write_pte(chain(1))), script=script)
    assert results == [[0, 15, 0, 35]] * 3


def test_buffers_that_webgpu_refuses_are_errors_of_their_call(harness: Harness) -> None:
    """And the program goes on after each of them."""
    code = """
    import js
    from pyodide.code import run_js
    make = run_js("(device, size, usage) => device.createBuffer({ size, usage })")
    src, dst = int(js.GPUBufferUsage.COPY_SRC), int(js.GPUBufferUsage.COPY_DST)
    x = np.array([-1, 2, -3, 4], np.float32)
    async with await webpte.load(base64.b64decode(data)) as program:
        ours = program.device.native
        adapter = await js.navigator.gpu.requestAdapter()
        other = await adapter.requestDevice()
        gone, mapped = make(ours, 16, src), make(ours, 16, int(js.GPUBufferUsage.MAP_WRITE) | src)
        gone.destroy()
        await mapped.mapAsync(int(js.GPUMapMode.WRITE))
        (held,) = await program.forward(x, output="gpu")
        held.buffer.destroy()
        errors = []
        for given in (gone, mapped, make(other, 16, src), held):
            for output in ("numpy", "gpu"):
                call = program.forward(given, output=output)
                errors.append(await raises(webpte.WebpteError, call))
            (y,) = await program.forward(x)
            errors.append(y)
        errors.append(await raises(webpte.WebpteError, held.numpy()))
        wrong = []
        odd = [make(ours, 16, dst), make(ours, 12, src), make(ours, 64, src), js.Object.new()]
        for given in odd:
            wrong.append(await raises(webpte.errors.InputError, program.forward(given)))
        (y,) = await program.forward(make(ours, 16, src))
        other.destroy()
        return [errors, wrong, y]
    """
    told, wrong, zeros = python(harness, code, data=encode_bytes(write_pte(chain(1))))
    messages = [item for item in told if isinstance(item, str)]
    assert len(messages) == 9
    assert all("running" in message for message in messages[:8])
    assert "reading a tensor back" in messages[8]
    assert [item for item in told if not isinstance(item, str)] == [[0, 2, 0, 4]] * 4
    expected = ["usage COPY_SRC", "12 bytes is too small", "64 bytes is larger", "a NumPy array"]
    assert all(part in message for part, message in zip(expected, wrong, strict=True))
    assert zeros == [0, 0, 0, 0]


def test_tensors_of_a_lost_device(harness: Harness) -> None:
    code = """
    from webpte.engine.gpu.webgpu.device import WebGPUDevice
    device = await WebGPUDevice.create()
    program = await webpte.load(base64.b64decode(data), device=device)
    (x,) = await program.forward(np.ones(4, np.float32), output="gpu")
    device.destroy()
    lost = webpte.errors.DeviceLostError
    messages = []
    while not device.lost:
        await asyncio.sleep(0.01)
    messages += [await raises(lost, x.numpy()), await raises(lost, program.forward(x))]
    await program.recover(await shared_device())
    wrong = webpte.errors.DeviceLostError
    messages.append(await raises(wrong, x.numpy()))
    (y,) = await program.forward(np.ones(4, np.float32))
    program.close()
    return [messages, y]
    """
    messages, y = python(harness, code, data=encode_bytes(write_pte(chain(1))))
    assert all("was lost with its device" in message for message in messages)
    assert y == [1] * 4

"""Programs on WebGPU that are refused or fail: the error says why, and nothing leaks."""

from __future__ import annotations

import numpy as np
import pytest

from support.devices.recorded import narrowed_graph
from support.page.page import python
from support.page.page_programs import ADD, W, add_weights, run
from support.write.pte_writer import GraphWriter, write_pte
from webpte_host.harness.browser import Harness

# Refused programs


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


def test_hostile_arrays_and_json(harness: Harness) -> None:
    """A browser's stack and memory are small; running out must not end the interpreter."""
    code = """
    import io
    from webpte.engine.files.arrays import read_npz
    from webpte.engine.files.json_reader import MAX_DEPTH, parse_json

    stream = io.BytesIO()
    np.savez_compressed(stream, a=np.arange(6.0))
    whole = stream.getvalue()
    deep = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    read = [read_npz(whole, "x.npz")["a"].tolist(), len(parse_json(deep, "x", ValueError))]
    attempts = {
        "cut": lambda: read_npz(whole[:-9], "x.npz"),
        "damaged": lambda: read_npz(whole[:60] + b"?" + whole[61:], "x.npz"),
        "deep": lambda: parse_json("[" * 1_000_000, "x", webpte.errors.TextError),
        "tables": lambda: parse_json('{"a":' * 100_000, "x", webpte.errors.TextError),
    }
    told = {}
    for name, attempt in attempts.items():
        try:
            attempt()
        except webpte.WebpteError as error:
            told[name] = type(error).__name__
    return [read, told]
    """
    read, told = python(harness, code)
    assert read == [[0, 1, 2, 3, 4, 5], 1]
    assert told == {
        "cut": "InputError",
        "damaged": "InputError",
        "deep": "TextError",
        "tables": "TextError",
    }


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
        assert "program but" in message or "(at byte " in message


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
    from webpte.engine.gpu.device import (PipelineSpec)
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
    told = []
    for _ in range(2):
        try:
            await program.forward(x)
        except webpte.errors.DeviceLostError as error:
            told.append(str(error))
    program.close()
    async with await webpte.load(data) as again:
        (y,) = await again.forward(x)
    return [told, y]
    """
    told, result = run(harness, code, add_weights())
    assert len(told) == 2
    for message in told:
        assert message.startswith("method 'forward', delegate 0: ")
        assert "call program.recover(), or load the program again" in message
    np.testing.assert_array_equal(result, np.broadcast_to(1 + W, (2, 3)))


def test_a_device_lost_while_a_call_runs(harness: Harness) -> None:
    code = """
    from webpte.engine.gpu.webgpu.device import WebGPUDevice
    device = await WebGPUDevice.create()
    x = np.ones((2, 3), np.float32)
    program = await webpte.load(data, device=device)
    await program.forward(x)
    running = asyncio.ensure_future(program.forward(x))
    await asyncio.sleep(0)
    device.destroy()
    try:
        await running
        end = "it was done already"
    except webpte.errors.DeviceLostError:
        end = "lost"
    program.close()
    async with await webpte.load(data) as again:
        (y,) = await again.forward(x)
    return [end, y]
    """
    end, result = run(harness, code, add_weights())
    assert end in ("lost", "it was done already")
    np.testing.assert_array_equal(result, np.broadcast_to(1 + W, (2, 3)))

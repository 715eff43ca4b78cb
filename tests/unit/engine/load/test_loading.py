"""Loading: files that cannot run, sources, progress and counters."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import webpte
from support.devices.recorded import ADD, DEVICES, RELU, device_of, ones
from support.graphs.graphs import chain, load, wait
from support.write.pte_writer import GraphWriter, MethodWriter, write_ptd, write_pte
from webpte import errors
from webpte.engine.files.source import BytesSource
from webpte.engine.gpu.simulated.device import SimulatedDevice


@pytest.mark.parametrize("device", DEVICES)
def test_unsupported_ops_are_reported_all_at_once(device: str) -> None:
    g = GraphWriter()
    value = x = g.tensor((4,))
    for name in ("aten.nope.default", "et.hmm", RELU, "aten.nope.default"):
        value = g.op(name, value, g.tensor((4,)))
    g.inputs(x)
    g.outputs(value)
    m = MethodWriter.of(g)
    z = m.tensor((4,))
    m.kernel("made::up.out", m.output(0), z, z)
    m.outputs(z)

    async def run() -> None:
        used = device_of(device)
        with pytest.raises(errors.UnsupportedOpError) as caught:
            await webpte.load(write_pte(m), device=used, name="odd.pte")
        assert caught.value.ops == {"aten.nope.default": 2, "et.hmm": 1, "made::up.out": 1}
        assert str(caught.value) == (
            "odd.pte: 3 operators not supported by this version of webpte: "
            "aten.nope.default ×2, et.hmm ×1, made::up.out ×1"
        )
        if device == "recording":
            assert used.log == []
        info = (await webpte.inspect(write_pte(m)))["forward"]
        assert info.unsupported == caught.value.ops
        assert info.kernels_outside == {"made::up.out": 1}
        assert info.ops == {"aten.nope.default": 2, "et.hmm": 1, RELU: 1}

    wait(run())


def test_a_foreign_delegate_names_its_backend_and_the_way_out() -> None:
    data = write_pte(chain(1), delegate_id="CoreMLBackend")

    async def run() -> None:
        with pytest.raises(errors.ForeignDelegateError) as caught:
            await webpte.load(data, device="numpy")
        assert "a delegate compiled for 'CoreMLBackend' (Apple's Core ML)" in str(caught.value)
        assert "VulkanPartitioner" in str(caught.value)
        info = (await webpte.inspect(data))["forward"]
        assert (info.ops, info.foreign) == ({}, {"CoreMLBackend": 1})

    wait(run())


NO_PROGRAM = r"not an ExecuTorch program|damaged or cut off"


@pytest.mark.parametrize("broken", [b"", b"not a program", bytes(100), b"\x00" * 4 + b"ET12"])
def test_bytes_that_are_no_program(broken: bytes) -> None:
    async def run() -> None:
        device = SimulatedDevice()
        for action in (webpte.load(broken, device=device), webpte.inspect(broken)):
            with pytest.raises(errors.FormatError, match=NO_PROGRAM):
                await action
        assert device.log == []

    wait(run())


def test_constants_at_the_same_place_of_two_files_are_two() -> None:
    """Files that are written alike have their first constants at the same offset."""
    values = {key: np.full(3, number, np.float32) for number, key in enumerate("ab")}
    g = GraphWriter()
    value = x = g.tensor((3,))
    for key, array in [*values.items(), ("b", values["b"])]:
        constant = g.tensor((3,), constant=array, key=key)
        value = g.op(ADD, value, constant, g.int(1), g.tensor((3,)))
    g.inputs(x)
    g.outputs(value)
    files = [write_ptd({key: array}) for key, array in values.items()]
    program = write_pte(g, external_constants=True)
    info = wait(webpte.inspect(program, data=files))["forward"]
    assert {c.key: c.count for c in info.constants} == {"a": 1, "b": 2}


def test_an_unknown_device() -> None:
    async def run() -> None:
        with pytest.raises(errors.DeviceError, match="no device is called 'cuda'; there are"):
            await load(chain(1), device="cuda")

    wait(run())


def test_webgpu_needs_a_browser() -> None:
    async def run() -> None:
        with pytest.raises(errors.DeviceError, match=r"needs a browser.*device='numpy'"):
            await load(chain(1), device="webgpu")

    wait(run())


# Sources


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_load_from_memory(kind: Any) -> None:
    async def run() -> None:
        program = await webpte.load(kind(write_pte(chain(1))), device="numpy")
        assert program.name == "bytes"
        (result,) = await program.forward(-ones(4))
        assert result.tolist() == [0] * 4

    wait(run())


@pytest.mark.parametrize("kind", [Path, str])
def test_load_from_a_file(tmp_path: Path, kind: Any) -> None:
    (tmp_path / "tiny.pte").write_bytes(write_pte(chain(1)))

    async def run() -> None:
        program = await webpte.load(kind(tmp_path / "tiny.pte"), device="numpy")
        assert program.name == "tiny.pte"
        assert (await webpte.inspect(kind(tmp_path / "tiny.pte")))["forward"].ops == {RELU: 1}

    wait(run())


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    async def run() -> None:
        with pytest.raises(errors.SourceError, match=r"none\.pte: No such file"):
            await webpte.load(tmp_path / "none.pte", device="numpy")

    wait(run())


@pytest.mark.parametrize("load", [webpte.load, webpte.inspect, webpte.text.load_tokenizer])
def test_names_that_are_of_no_file(tmp_path: Path, load: Any) -> None:
    async def run() -> None:
        for source, says in (
            ("", "'' names no file"),
            (tmp_path, "it is a folder"),
            (str(tmp_path), "it is a folder"),
            ("a\0b", "'a.*b': embedded null"),
        ):
            with pytest.raises(errors.SourceError, match=says):
                await load(source)

    wait(run())


@pytest.mark.parametrize("source", [None, 5, [b"x"], object()])
def test_a_source_of_the_wrong_type(source: Any) -> None:
    async def run() -> None:
        with pytest.raises(errors.SourceError, match=f"cannot open a {type(source).__name__}"):
            await webpte.load(source, device="numpy")

    wait(run())


def test_progress_and_times() -> None:
    async def run() -> None:
        calls: list[tuple[str, int, int]] = []
        program = await load(chain(1), progress=lambda *call: calls.append(call))
        assert ("read", 1, 1) in calls
        assert {"fetch", "read", "build"} <= program.stats.load_ms.keys()
        assert all(ms >= 0 for ms in program.stats.load_ms.values())

    wait(run())


def test_stats() -> None:
    async def run() -> None:
        device = SimulatedDevice()
        program = await load(chain(7), device=device)
        await program.forward(ones(4))
        stats = program.stats
        assert stats.dispatches == 7
        assert stats.pipelines == 1
        assert stats.buffers == len(device.buffers)
        assert stats.buffer_bytes == sum(device.buffers.values())
        assert stats.executions == 1
        assert stats.interop_calls == device.interop_calls
        assert program.device_info.kind == "recording"
        numpy = await load(chain(7))
        assert (numpy.stats.buffers, numpy.stats.interop_calls) == (0, 0)
        assert numpy.device_info.kind == "numpy"

    wait(run())


def test_two_programs_on_one_device() -> None:
    async def run() -> None:
        device = SimulatedDevice()
        first = await load(chain(2), device=device)
        buffers = set(device.buffers)
        second = await load(chain(3), device=device)
        assert len(device.pipelines) == 1
        second.close()
        assert set(device.buffers) == buffers
        await first.forward(ones(4))
        first.close()
        assert device.buffers == {}

    wait(run())


@pytest.mark.parametrize("device", DEVICES)
def test_unsupported_ops_of_a_delegate_that_nothing_calls(device: str) -> None:
    g = GraphWriter()
    x = g.tensor((4,))
    g.inputs(x)
    g.outputs(g.op("aten.nope.default", x, g.tensor((4,))))
    m = MethodWriter.of(g)
    m.instructions.clear()

    async def run() -> None:
        used = device_of(device)
        with pytest.raises(errors.UnsupportedOpError, match="a delegate: 1 operator not supported"):
            await webpte.load(write_pte(m), device=used)
        if device == "recording":
            assert used.log == []

    wait(run())


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("count", [1, 3])
def test_a_delegate_called_with_the_wrong_number_of_values(device: str, count: int) -> None:
    m = MethodWriter()
    x, y = m.tensor((4,)), m.tensor((4,))
    m.inputs(x)
    m.delegate(chain(1), [x, y, y][:count])
    m.outputs(y)
    with pytest.raises(errors.GraphError, match=f"1 inputs and 1 outputs, but .* {count} values"):
        wait(webpte.load(write_pte(m), device=device_of(device)))


@pytest.mark.parametrize("device", DEVICES)
def test_a_delegate_called_with_another_shape(device: str) -> None:
    """This happens when the exporter left out one value, and the call passes one too many."""
    m = MethodWriter()
    x, y = m.tensor((4,)), m.tensor((1,))
    m.inputs(x)
    m.delegate(chain(1), [x, y])
    m.outputs(y)
    with pytest.raises(errors.GraphError, match=r"value 1 .* \[1\] in the program and .* \[4\]"):
        wait(webpte.load(write_pte(m), device=device_of(device)))


@pytest.mark.parametrize("device", DEVICES)
def test_a_graph_that_returns_a_number(device: str) -> None:
    g = GraphWriter()
    x = g.tensor((4,))
    g.inputs(x)
    g.outputs(g.int(4))
    with pytest.raises(errors.GraphError, match="output value 1 is an int; a graph"):
        wait(webpte.load(write_pte(g), device=device_of(device)))


@pytest.mark.parametrize("device", DEVICES)
def test_an_op_with_too_few_arguments_to_be_planned(device: str) -> None:
    """The cache, which it changes in place, is not even there."""
    g = GraphWriter()
    x = g.tensor((4,))
    g.inputs(x)
    g.outputs(g.op("llama.update_cache.default", g.tensor((4,))))
    with pytest.raises(errors.GraphError, match=r"takes 3 arguments and an output, but .* 1 ids"):
        wait(webpte.load(write_pte(g), device=device_of(device)))


class LibraryFile(BytesSource):
    """A file like those of `webpte.library`, which only a browser has."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data, "model.pte")
        self.ended: list[str] = []

    async def keep(self) -> bool:
        self.ended.append("kept")
        return True

    def stop(self) -> None:
        self.ended.append("stopped")

    def leave(self) -> None:
        self.ended.append("left")


@pytest.mark.parametrize(
    ("data", "ended"), [((), "kept"), (("missing.ptd",), "stopped"), ((b"no constants",), "left")]
)
def test_what_is_kept_is_let_go_if_another_file_is_not_there(
    data: tuple[Any, ...], ended: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that can be used when the load is tried again stay where they are."""
    file = LibraryFile(write_pte(chain(2)))

    async def open_source(source: Any, **_: Any) -> Any:
        if isinstance(source, bytes):
            return BytesSource(source)
        if source != "model.pte":
            raise errors.SourceError(f"{source}: 404")
        return file

    async def run() -> None:
        monkeypatch.setattr("webpte.hub.program_files.open_source", open_source)
        failure = errors.SourceError if data == ("missing.ptd",) else errors.FormatError
        with pytest.raises(failure) if data else nullcontext():
            await webpte.load("model.pte", data=data, device="numpy", keep=True)
        await asyncio.sleep(0)  # nobody waits for it

    wait(run())
    assert file.ended == [ended]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("kvcache::update_and_attend.out", "whether a layer sees all tokens or a window"),
        ("aten::view_as_real_copy.out", "real and imaginary parts as two tensors"),
        ("aten::_conj_physical.out", "real and imaginary parts as two tensors"),
    ],
)
def test_an_operator_that_cannot_be_supported_says_what_to_do(name: str, told: str) -> None:
    m = MethodWriter()
    x, out = m.tensor((4,)), m.tensor((4,))
    m.inputs(x)
    m.kernel(name, x, out, out)
    m.outputs(out)
    with pytest.raises(webpte.errors.UnsupportedOpError, match=told) as caught:
        asyncio.run(webpte.load(write_pte(m), device="numpy"))
    assert name in str(caught.value)
    assert set(caught.value.ops) == {name}

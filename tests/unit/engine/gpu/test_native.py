"""The native device beyond the conformance checks: programs, files, event loops."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import webpte
from support.devices.device_fixture import NO_PAYLOAD, Bench, floats, floats_in, payload_of
from support.devices.native import need_native
from support.graphs.graphs import load
from support.harness.python_process import in_python
from support.harness.samples import add_graph
from support.write.pte_writer import write_pte
from webpte.engine.files.source import ByteSource, BytesSource, FileSource, Region
from webpte.engine.gpu.device import (
    DispatchCommand,
    PipelineSpec,
    PlanCommands,
    PlanRun,
    Readback,
    Resource,
    Transfer,
)
from webpte.engine.gpu.devices import _SharedDevices
from webpte.engine.gpu.native import device as native
from webpte.engine.gpu.native.dawn import load_dawn
from webpte.engine.gpu.native.device import NativeDevice
from webpte.engine.gpu.pipelines import add_packed_dot
from webpte.errors import (
    DeviceError,
    DeviceLostError,
    NoWebGPUError,
    SourceError,
)

X = np.arange(6, dtype=np.float32).reshape(2, 3)
SUM = X + np.arange(3, dtype=np.float32)  # the output of add_graph


@pytest.fixture(autouse=True)
def _driver(request: pytest.FixtureRequest) -> None:
    if "without_driver" not in request.keywords:
        need_native()


@pytest.fixture
def device() -> Iterator[NativeDevice]:
    made = asyncio.run(NativeDevice.create())
    yield made
    made.destroy()


# Programs


def test_a_program_runs_and_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "add.pte"
    path.write_bytes(write_pte(add_graph()))

    async def run() -> None:
        device = await webpte.shared_device("native")
        before = device.counts()  # type: ignore[attr-defined]
        async with await webpte.load(path, device="native") as program:
            assert program.device is device
            assert program.device_info.kind == "native"
            (result,) = await program.forward(X)
            assert np.array_equal(result, SUM)
            assert program.stats.interop_calls == 0
            (there,) = await program.forward(X, output="gpu")
            (again,) = await program.forward(there)
            assert np.array_equal(again, SUM + SUM - X)
            assert np.array_equal(await there.numpy(), SUM)
            if "timestamp-query" in device.info.features:
                ((_, microseconds),) = await program.profile("forward", X)
                assert 0 <= microseconds < 1e7
        after = device.counts()  # type: ignore[attr-defined]
        assert {**after, "pipelines": 0} == {**before, "pipelines": 0}

    asyncio.run(run())


def test_one_device_serves_many_event_loops() -> None:
    """Several `asyncio.run` in a row, as in scripts, one of which ends early."""

    async def run() -> object:
        async with await load(add_graph(), device="native") as program:
            (result,) = await program.forward(X)
            assert np.array_equal(result, SUM)
        return await webpte.shared_device("native")

    async def leave() -> None:
        asyncio.ensure_future(load(add_graph(), device="native"))  # noqa: RUF006
        await asyncio.sleep(0)

    first = asyncio.run(run())
    asyncio.run(leave())
    assert asyncio.run(run()) is first


def test_a_lost_program_recovers() -> None:
    async def run() -> None:
        async with await load(add_graph(), device="native") as program:
            lost = program.device
            lost.destroy()  # type: ignore[attr-defined]
            with pytest.raises(DeviceLostError):
                await program.forward(X)
            await program.recover()
            assert program.device is not lost
            (result,) = await program.forward(X)
            assert np.array_equal(result, SUM)

    asyncio.run(run())


def test_the_event_loop_goes_on_while_results_are_awaited(device: NativeDevice) -> None:
    async def run() -> None:
        bench = await Bench.create(device, 2, elements=1 << 16)
        plan = await bench.plan(*[("neg", 0, 1), ("neg", 1, 0)] * 200, back=[0])
        turns, ended = 0, False

        async def watch() -> None:
            nonlocal turns
            while not ended:
                await asyncio.sleep(0)
                turns += 1

        running = device.run(PlanRun(plan, NO_PAYLOAD))
        watching = asyncio.ensure_future(watch())
        await running
        ended = True
        await watching
        assert turns > 5

    asyncio.run(run())


# Files


def sources(tmp_path: Path, data: bytes) -> dict[str, ByteSource]:
    path = tmp_path / "constants.bin"
    path.write_bytes(data)
    return {"bytes": BytesSource(data), "file": FileSource(path)}


@pytest.mark.parametrize("kind", ["bytes", "file"])
@pytest.mark.parametrize("convert", [None, "float16", "int64"])
def test_constants_go_up_in_parts(
    monkeypatch: pytest.MonkeyPatch,
    device: NativeDevice,
    tmp_path: Path,
    kind: str,
    convert: str | None,
) -> None:
    """Parts of 64 bytes, at most 256 of them unfinished; the last part is not full."""
    monkeypatch.setattr(native, "CHUNK_BYTES", 64)
    monkeypatch.setattr(native, "IN_FLIGHT_BYTES", 256)
    array = np.arange(1001).astype(convert or np.uint8)
    stored = array.astype({None: "uint8", "float16": "float32", "int64": "int32"}[convert])
    source = sources(tmp_path, b"head" + array.tobytes())[kind]
    seen: list[int] = []

    async def run() -> bytes:
        (buffer,) = await device.create_buffers([4008])
        transfer = Transfer(Region(source, 4, array.nbytes), buffer, convert)
        await device.transfer([transfer], lambda stage, done, total: seen.append(done))
        return await device.read(buffer, 4008)

    assert asyncio.run(run())[: stored.nbytes] == stored.tobytes()
    assert seen == [*range(64, array.nbytes, 64), array.nbytes]


def test_a_file_that_changed_is_not_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "shrinking"
    path.write_bytes(bytes(10_000))
    source = FileSource(path)
    assert source.view(9_000, 1_000) == bytes(1_000)
    with pytest.raises(SourceError, match="10001 were asked for, but the file has 10000"):
        source.view(9_001, 1_000)
    path.write_bytes(bytes(5_000))
    with pytest.raises(SourceError, match="changed its size"):
        source.view(0, 10)


# Kernels

PRODUCTS = """
@group(0) @binding(0) var<storage, read_write> result: array<i32>;

@compute @workgroup_size(1)
fn main() {
    result[0] = dot4I8Packed(0x01ff807fu, 0x02037f80u);
    result[1] = dot4I8Packed(0x80808080u, 0x80808080u);
}
"""


@pytest.mark.parametrize("has_packed_dot", [True, False])
def test_byte_products_are_the_same_without_the_builtin(
    device: NativeDevice, has_packed_dot: bool
) -> None:
    code = add_packed_dot(PRODUCTS, has_packed_dot)
    assert ("fn dot4I8Packed" in code) is not has_packed_dot

    async def run() -> bytes:
        (buffer,) = await device.create_buffers([8])
        (pipeline,) = await device.create_pipelines([PipelineSpec("dot", code, ("write",), ())])
        dispatch = DispatchCommand(pipeline, (Resource(buffer, 0, 8),), (1, 1, 1))
        commands = PlanCommands((), (dispatch,), (Readback(buffer, 8, 0),), 8)
        return await device.run(PlanRun(await device.create_plan(commands), NO_PAYLOAD))

    products = 1 * 2 + -1 * 3 + -128 * 127 + 127 * -128
    assert np.frombuffer(asyncio.run(run()), np.int32).tolist() == [products, 4 * 128 * 128]


def test_more_dispatches_than_a_query_set_has_room_for(device: NativeDevice) -> None:
    if "timestamp-query" not in device.info.features:
        pytest.skip("this adapter has no clock")

    async def run() -> None:
        bench = await Bench.create(device, 2)
        plan = await bench.plan(*[("neg", 0, 1), ("neg", 1, 0)] * 1500, upload=[0], back=[0])
        data, times = await device.profile(PlanRun(plan, payload_of(floats(1, 2, 3, 4))))
        assert floats_in(data).tolist() == [1, 2, 3, 4]
        assert len(times) == 3000
        assert all(0 <= time < 1e7 for time in times)

    asyncio.run(run())


# Without a driver


@pytest.mark.without_driver
def test_the_binding_is_imported_on_first_use() -> None:
    done = in_python(
        "import sys, webpte, webpte.engine.gpu.native.device; print('pydawn' in sys.modules)"
    )
    assert done.stdout.strip() == "False", done.stderr


@pytest.mark.without_driver
def test_without_the_binding_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydawn", None)
    with pytest.raises(NoWebGPUError, match=r"pip install webpte\[native\]"):
        load_dawn.__wrapped__()


@pytest.mark.without_driver
@pytest.mark.skipif(sys.platform != "linux", reason="Vulkan's way to have no driver")
def test_without_a_driver_it_says_what_to_install() -> None:
    code = """
import asyncio, webpte, webpte.errors
try:
    asyncio.run(webpte.shared_device("native"))
except webpte.errors.NoWebGPUError as error:
    print(error)
"""
    done = in_python(code, VK_DRIVER_FILES="/nowhere.json", VK_ICD_FILENAMES="/nowhere.json")
    assert "apt-get install mesa-vulkan-drivers" in done.stdout, done.stderr


def test_names_of_devices() -> None:
    with pytest.raises(DeviceError, match="there are 'webgpu', 'native', 'numpy'"):
        asyncio.run(webpte.load(write_pte(add_graph()), device="cuda"))
    with pytest.raises(DeviceError, match="no GPU is called 'numpy'"):
        asyncio.run(webpte.shared_device("numpy"))
    assert set(_SharedDevices.made) <= {"native:0"}

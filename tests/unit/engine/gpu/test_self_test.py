"""The self-test of a device: each fault turns its option off, or is an error that names it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from support.devices.native import make_device, need_native
from support.devices.plain_matrices import with_matrices
from webpte.engine.files.download import Progress
from webpte.engine.gpu.device import PipelineSpec, PlanCommands, PlanRun
from webpte.engine.gpu.device_info import DeviceInfo
from webpte.engine.gpu.native.device import NativeDevice
from webpte.engine.gpu.self_test import (
    LARGE_GRID,
    SelfTestKernel,
    apply_self_test,
    run_self_test,
    trials,
)
from webpte.engine.gpu.self_test_cache import MOST_KEPT, MemoryText, checked_info
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.engine.plan.shaders import ShaderLibrary
from webpte.errors import DeviceLostError, FaultyDeviceError, ShaderError

OPTIONS = ("f16", "packed dot products", "subgroup matrices")
FATAL = ("uploads and read-backs", "workgroup memory", "barriers", "atomics", "large grids")


def results(ran: list[SelfTestKernel], fault: str) -> bytes:
    """Return the bytes that a device sends back, with a wrong word in the results of `fault`."""
    parts = []
    for trial in ran:
        for name, array in (("uploads and read-backs", trial.values), *trial.expected.items()):
            part = bytearray(array.tobytes().ljust(-(-array.nbytes // 4) * 4, b"\0"))
            if name == fault:
                part[0] ^= 0x40
            parts.append(bytes(part))
    return b"".join(parts)


class FaultyDevice(SimulatedDevice):
    """A device that computes the self-test, all but one part of it."""

    def __init__(self, fault: str = "", uncompiled: str = "") -> None:
        super().__init__()
        self.info = replace(with_matrices(self.info), packed_dot=True, vendor="acme")
        self.fault, self.uncompiled = fault, uncompiled
        self.runs = 0

    async def create_pipelines(
        self, specs: Sequence[PipelineSpec], progress: Progress | None = None
    ) -> list[int]:
        if self.uncompiled and specs[0].label.endswith(self.uncompiled):
            raise ShaderError(f"{specs[0].label}: unknown type\nline 1")
        return await super().create_pipelines(specs, progress)

    async def create_plan(self, commands: PlanCommands) -> int:
        # Its own kernels are calls of operators, which these dispatches are not.
        return await super().create_plan(replace(commands, dispatches=()))

    def run(self, run: PlanRun) -> Awaitable[bytes]:
        self.runs += 1
        ran = [trial for trial in trials(self.info) if trial.kernel != self.uncompiled]
        return self._later(results(ran, self.fault), None)


def is_on(info: DeviceInfo, option: str) -> bool:
    return {
        "f16": info.has_f16,
        "packed dot products": info.packed_dot,
        "subgroup matrices": "chromium-experimental-subgroup-matrix" in info.features,
    }[option]


async def opened(device: FaultyDevice, store: MemoryText | None = None) -> DeviceInfo:
    return await checked_info(device, store or MemoryText(), "browser 1")


def test_a_device_without_faults_has_everything() -> None:
    device = FaultyDevice()
    info = asyncio.run(opened(device))
    assert info.self_test is not None
    assert info.self_test.passed == (*FATAL, *OPTIONS)
    assert not info.self_test.faults
    assert all(is_on(info, option) for option in OPTIONS)
    assert device.runs == 1
    counts = device.counts()
    assert counts["buffers"] == counts["plans"] == 0


@pytest.mark.parametrize("fault", OPTIONS)
def test_an_option_that_fails_is_off(fault: str) -> None:
    info = asyncio.run(opened(FaultyDevice(fault)))
    assert info.self_test is not None
    assert list(info.self_test.faults) == [fault]
    assert "results are wrong, result 0 is" in info.self_test.faults[fault]
    assert {option: is_on(info, option) for option in OPTIONS} == {o: o != fault for o in OPTIONS}


@pytest.mark.parametrize(
    ("kernel", "option"),
    list(zip(("f16", "packed_dot", "subgroup_matrix"), OPTIONS, strict=True)),
)
def test_an_option_whose_kernel_does_not_compile_is_off(kernel: str, option: str) -> None:
    info = asyncio.run(opened(FaultyDevice(uncompiled=kernel)))
    assert info.self_test is not None
    assert "does not compile: self-test" in info.self_test.faults[option]
    assert not is_on(info, option)


def test_without_f16_there_are_no_subgroup_matrices() -> None:
    assert not asyncio.run(opened(FaultyDevice("f16"))).has_subgroup_matrices


@pytest.mark.parametrize("fault", FATAL)
def test_a_device_that_cannot_be_used_is_an_error(fault: str) -> None:
    device, store = FaultyDevice(fault), MemoryText()
    with pytest.raises(FaultyDeviceError, match=rf"\(acme\) fails .*: {fault}: .*Update") as raised:
        asyncio.run(opened(device, store))
    assert list(raised.value.faults) == [fault]
    assert device.counts()["buffers"] == 0
    assert not asyncio.run(store.read())  # it is tested again next time


def test_a_workgroup_kernel_that_does_not_compile_is_an_error() -> None:
    with pytest.raises(FaultyDeviceError, match="workgroup memory: its kernel does not compile"):
        asyncio.run(opened(FaultyDevice(uncompiled="workgroup")))


def test_a_verdict_is_kept_for_adapter_and_browser() -> None:
    async def go() -> None:
        store, first, second = MemoryText(), FaultyDevice("f16"), FaultyDevice()
        await opened(first, store)
        info = await opened(second, store)
        assert second.runs == 0
        assert info.self_test is not None
        assert info.self_test.kept
        assert not info.has_f16
        assert (await checked_info(second, store, "browser 2")).has_f16
        assert second.runs == 1
        for number in range(MOST_KEPT + 3):
            await checked_info(FaultyDevice(), store, f"browser {number + 3}")
        assert len(json.loads(await store.read())) == MOST_KEPT

    asyncio.run(go())


@pytest.mark.parametrize(
    "row",
    [
        *("not JSON", "[]", '{"KEY": 1}', '{"KEY": {"passed": [], "faults": []}}'),
        '{"KEY": {"passed": [1], "faults": {}, "ms": 1}}',
        '{"KEY": {"passed": [], "faults": {"barriers": "gone"}, "ms": 1}}',
    ],
)
def test_a_verdict_that_is_not_one_is_replaced(row: str) -> None:
    async def go() -> None:
        store, device = MemoryText(), FaultyDevice()
        await opened(device, store)
        (key,) = json.loads(await store.read())
        await store.write(row.replace("KEY", key))
        again = FaultyDevice()
        assert (await opened(again, store)).self_test is not None
        assert again.runs == 1
        assert key in json.loads(await store.read())

    asyncio.run(go())


def test_a_device_lost_meanwhile_leaves_nothing() -> None:
    device = FaultyDevice()
    device.inject(DeviceLostError, method="create_plan")
    with pytest.raises(DeviceLostError):
        asyncio.run(opened(device))
    assert device.counts()["buffers"] == 0


def test_an_outcome_without_trials_of_options_says_nothing_about_them() -> None:
    info = DeviceInfo("webgpu")
    assert [trial.kernel for trial in trials(info)] == ["workgroup", "grid"]
    assert trials(info)[1].grid == LARGE_GRID
    assert trials(replace(info, software=True))[1].grid < LARGE_GRID


# On a real device: each kernel with a fault in its text.

WRONG = {
    "workgroup memory": ("workgroup", "values[COUNT - 1u - lane]", "values[lane]"),
    "barriers": ("workgroup", "half /= 2u", "half /= 4u"),
    "atomics": ("workgroup", "atomicMax(&output[TOTAL + 1u], value)", "_ = value"),
    "large grids": ("grid", "id.x + id.y * groups.x", "id.x"),
    "f16": ("f16", "f32(params.seed)", "1.25"),
    "packed dot products": ("packed_dot", "dot4I8Packed(", "1 + dot4I8Packed("),
}


def wrong_text(device: NativeDevice, name: str) -> dict[str, str]:
    kernel, right, wrong = WRONG[name]
    (trial,) = (trial for trial in trials(device.info) if trial.kernel == kernel)
    code = ShaderLibrary().assemble(f"lib/self_test/{kernel}", trial.types).code
    assert right in code
    return {kernel: code.replace(right, wrong)}


@pytest.fixture(scope="module")
def native() -> NativeDevice:
    need_native()
    return make_device()


def test_the_native_device_passes(native: NativeDevice) -> None:
    verdict = asyncio.run(run_self_test(native))
    assert not verdict.faults
    assert set(FATAL) <= set(verdict.passed)
    assert 0 < verdict.milliseconds < 60_000
    assert native.counts()["buffers"] == native.counts()["plans"] == 0


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_kernel_is_found(native: NativeDevice, name: str) -> None:
    if name == "f16" and not native.info.has_f16:
        pytest.skip("this driver has no f16")
    verdict = asyncio.run(run_self_test(native, wrong_text(native, name)))
    assert list(verdict.faults) == [name]
    if name in OPTIONS:
        assert not is_on(apply_self_test(native.info, verdict), name)
    else:
        with pytest.raises(FaultyDeviceError, match=name):
            apply_self_test(native.info, verdict)


def test_a_native_device_is_opened_without_what_fails() -> None:
    need_native()

    async def go() -> None:
        whole = await NativeDevice.create()
        again = await NativeDevice.create()
        assert again.info.self_test is not None
        assert again.info.self_test.kept
        texts = wrong_text(whole, "packed dot products")
        device = await NativeDevice.create(self_test_texts=texts)
        assert whole.info.packed_dot
        assert not device.info.packed_dot
        # A kernel with packed products is compiled with a function in their place, and is right.
        trial = next(t for t in trials(whole.info) if t.kernel == "packed_dot")
        (pipeline,) = await device.create_pipelines([replace(trial.spec(None), label="other")])
        device.info = replace(device.info, packed_dot=True)
        assert pipeline
        verdict = await run_self_test(device)
        assert not verdict.faults

    asyncio.run(go())
    assert np.array_equal(trials(DeviceInfo("native"))[0].values[:2], [0, 2654435761 % 1009])

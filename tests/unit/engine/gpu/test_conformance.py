"""Every device passes the conformance checks, and every check fails a broken device."""

from __future__ import annotations

import asyncio
import gc
import warnings

import pytest

from support.devices import device_fixture
from support.devices.broken_devices import BROKEN, LIMIT, Uncompiled, recording
from support.devices.device_conformance import CHECKS
from support.devices.device_fixture import Subject
from support.devices.native import NativeSubject, need_native
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.errors import DeviceError


async def run_check(name: str, subject: Subject) -> None:
    await asyncio.wait_for(CHECKS[name](subject), 120)


@pytest.mark.parametrize("name", CHECKS)
@pytest.mark.parametrize("clock", [True, False], ids=["clock", "no-clock"])
def test_recording_device(name: str, clock: bool) -> None:
    asyncio.run(run_check(name, recording(clock=clock)))


@pytest.mark.parametrize("name", CHECKS)
def test_native_device(name: str) -> None:
    need_native()

    async def go() -> None:
        subject = await NativeSubject.create()
        await run_check(name, subject)
        subject.device.destroy()

    asyncio.run(go())


@pytest.mark.parametrize(("name", "kind"), BROKEN)
def test_a_check_sees_a_broken_promise(
    name: str, kind: type[SimulatedDevice], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_fixture, "SETTLING_SECONDS", 0.2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of runs that nobody waited for
        with pytest.raises((AssertionError, DeviceError)):
            asyncio.run(run_check(name, recording(kind)))
        gc.collect()


def test_a_check_sees_a_compiler_that_sees_nothing() -> None:
    subject = Uncompiled(SimulatedDevice(LIMIT))
    with pytest.raises(AssertionError, match="ShaderError was not raised"):
        asyncio.run(run_check("a_kernel_that_does_not_compile_is_named", subject))


def test_every_check_was_seen_failing() -> None:
    assert {name for name, _ in BROKEN} | {"a_kernel_that_does_not_compile_is_named"} == set(CHECKS)

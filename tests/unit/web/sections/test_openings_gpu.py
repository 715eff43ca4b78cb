"""Openings on a GPU that is lost, faulty, or in use by another tab."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from page.app import App
from page.browser import OpenProgram
from page.sections.open import controller as open_controller
from support.page.fake_page import (
    GPU,
    SAMPLES,
    Engine,
    FakeBrowser,
    drive,
    open_sample,
)
from webpte import errors
from webpte.engine.gpu.device_info import SelfTest
from webpte.engine.gpu.simulated.device import SimulatedDevice

SIGMOID = (SAMPLES / "sigmoid.pte").read_bytes()
BROKEN = {
    "text": b"not a program at all",
    "cut": SIGMOID[:600],
    "empty": b"",
    "unsupported": SIGMOID.replace(b"aten.sigmoid", b"aten.sigmund"),
    "foreign": SIGMOID.replace(b"VulkanBackend", b"XnnpackBacken"),
}
FAILURES = {
    "constants": errors.ConstantError("tensor 3 has its bytes in a .ptd file"),
    "compile": errors.ShaderError("conv2d: unexpected token"),
    "memory": errors.OutOfMemoryError("4 GiB"),
    "bug": KeyError("x"),
}


def test_a_lost_gpu_while_opening_can_be_tried_again() -> None:
    engine = Engine()

    async def script(app: App, browser: FakeBrowser) -> None:
        engine.failure = errors.DeviceLostError("gone")
        await open_sample(app)
        assert 'data-act="retry"' in browser.html["error"]
        engine.failure = None
        await app.receive({"act": "retry"})
        assert browser.html["error"] == ""
        assert "sigmoid.pte loaded" in browser.text["status"]

    drive(script, engine=engine)


def test_on_a_faulty_gpu_the_program_can_be_opened_on_numpy() -> None:
    engine = Engine()
    engine.failure = errors.FaultyDeviceError("this GPU fails the self-test: barriers", {})

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app, "sigmoid.pte")
        assert "fails the self-test" in browser.html["error"]
        assert 'data-act="retry-on-numpy"' in browser.html["error"]
        engine.failure = None
        await app.receive({"act": "retry-on-numpy"})
        assert engine.devices == ["webgpu", "numpy"]
        assert not browser.html["error"]
        assert "sigmoid.pte" in browser.html["file"]

    drive(script, GPU, engine)


def test_an_open_program_shows_what_the_self_test_found() -> None:
    class TestedEngine(Engine):
        async def load(self, source: Any, **options: Any) -> Any:
            program = await super().load(source, **options)
            info = replace(GPU, self_test=SelfTest((), {"f16": "wrong"}))
            build = program._build
            build.device = SimulatedDevice()
            build.device.info = info
            return program

    async def script(app: App, browser: FakeBrowser) -> None:
        assert "self-test" not in browser.html["gpu"]
        await open_sample(app, "sigmoid.pte")
        assert "found wrong results: f16" in browser.html["gpu"]

    drive(script, GPU, TestedEngine())


@pytest.mark.parametrize("adapter", [GPU, "missing"])
def test_the_gpu_is_opened_and_tested_while_the_program_is_fetched(adapter: Any) -> None:
    engine = Engine()

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app, "sigmoid.pte")
        assert engine.early == (adapter is GPU)
        assert browser.text["status"].startswith("sigmoid.pte loaded")
        engine.failure = errors.FaultyDeviceError("wrong sums", {})
        await open_sample(app, "add.pte")
        assert "wrong sums" in browser.html["error"]  # once, by the load

    drive(script, adapter, engine)


@pytest.mark.parametrize("large", [True, False])
def test_a_large_program_that_another_tab_has_open_says_so(
    monkeypatch: pytest.MonkeyPatch, large: bool
) -> None:
    monkeypatch.setattr(open_controller, "LARGE_BYTES", 100 if large else 1 << 20)

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app, "add.pte")
        assert "another tab" not in browser.text["status"]
        assert browser.held_program is not None
        key = browser.held_program.key.replace("add", "sigmoid")
        browser.other_tabs.append(OpenProgram("sigmoid.pte", key, 0))
        await open_sample(app, "sigmoid.pte")
        assert ("also open in another tab" in browser.text["status"]) is large
        await app.receive({"act": "close"})
        assert browser.held_program is None

    drive(script)

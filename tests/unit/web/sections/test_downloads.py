"""Downloads on the page: programs by their manifest, pauses, and the rate."""

from __future__ import annotations

import asyncio
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

import webpte
from page.app import App
from page.sections.open import transfer_rate
from page.sections.open.transfer_rate import TransferRate
from support.page.fake_page import SAMPLES, FakeBrowser, drive, open_sample


async def settle() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


def manifest_beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sha256: str = "") -> str:
    """Write a program with its manifest where the fake browser fetches from."""
    data = (SAMPLES / "sigmoid.pte").read_bytes()
    (tmp_path / "web" / "samples").mkdir(parents=True)
    monkeypatch.setattr("support.page.fake_page.SAMPLES", tmp_path / "web" / "samples")
    (tmp_path / "web" / "mine.pte").write_bytes(data)
    file = {"name": "mine.pte", "sha256": sha256 or hashlib.sha256(data).hexdigest()}
    manifest = {"program": "mine.pte", "files": [file]}
    (tmp_path / "web" / "mine.manifest.json").write_text(json.dumps(manifest))
    return "mine.manifest.json"


def test_a_manifest_opens_its_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = manifest_beside(tmp_path, monkeypatch)

    async def script(app: App, browser: FakeBrowser) -> None:
        await app.receive({"act": "open-url", "fields": {"url": url}})
        assert browser.text["status"].startswith("mine.pte loaded")

    drive(script)


def test_a_manifest_of_another_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = manifest_beside(tmp_path, monkeypatch, "0" * 64)

    async def script(app: App, browser: FakeBrowser) -> None:
        await app.receive({"act": "open-url", "fields": {"url": url}})
        assert "DigestError" in browser.html["error"]
        assert browser.opened[-1].left

    drive(script)


def test_a_download_is_paused_and_goes_on() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        gate, downloads = asyncio.Event(), list[webpte.Download]()
        fetch = browser.fetch

        async def slowly(url: str, progress: Any, download: Any = None) -> Any:
            downloads.append(download)
            progress("fetch", 1024, 4096)
            await gate.wait()
            return await fetch(url, progress, download)

        browser.fetch = slowly  # type: ignore[method-assign, assignment]
        opening = asyncio.ensure_future(open_sample(app))
        await settle()
        assert ">Pause</button>" in browser.html["stages"]
        await app.receive({"act": "pause-opening"})
        assert [one.paused for one in downloads] == [True]
        assert "The download is paused." in browser.html["stages"]
        await app.receive({"act": "pause-opening"})
        assert [one.paused for one in downloads] == [False]
        gate.set()
        await opening
        assert browser.text["status"].startswith("sigmoid.pte loaded")

    drive(script)


def test_the_rate_and_the_time_that_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(transfer_rate, "perf_counter", lambda: clock[0])
    rate = TransferRate()
    rate.add(0)
    assert rate.text(1) == ""
    clock[0] = 2.0
    rate.add(4 << 20)
    assert rate.text(40 << 20) == "2.00 MiB/s, 20 seconds left"
    assert rate.text(200 << 20) == "2.00 MiB/s, 2 minutes left"
    assert rate.text(0) == "2.00 MiB/s"
    rate.add(1 << 20)  # another file
    assert rate.text(1 << 20) == ""

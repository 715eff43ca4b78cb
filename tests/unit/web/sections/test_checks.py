"""The check of a card's example: the badge, and the way to a safer variant."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np

import page.sections.check.controller as checks
from page.app import App
from page.sections.check.view import Verdict, check_view
from support.page.fake_page import GPU, ROOT, Engine, FakeBrowser, File, drive
from webpte.engine.call.options import USUAL, DeveloperOptions, SaferVariant
from webpte.engine.format.bundled import parse_bundle
from webpte_host.serving.gallery import gallery

CARDS = json.loads(gallery(ROOT / "web", None))


class WatchedEngine(Engine):
    """An engine that notes the options of programs."""

    def __init__(self) -> None:
        super().__init__()
        self.options: list[Any] = []

    async def load(self, source: Any, **options: Any) -> Any:
        self.options.append(options["options"])
        return await super().load(source, **options)


async def open_card(app: App, name: str) -> None:
    await app.receive({"act": "hello", "cards": CARDS})
    await app.receive({"act": "card", "name": name})


def test_an_example_that_agrees() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_card(app, "add")
        assert "Built-in test" in browser.html["run-check"]
        assert "reference" not in browser.html["run-check"].replace("the reference", "", 1)
        await app.receive({"act": "check-example"})
        assert "Matches the reference" in browser.html["run-check"]
        assert "(NumPy; largest error: 0.0% of what is allowed)" in browser.html["run-check"]
        assert browser.text["status"] == "Matches the reference"
        await app.receive({"act": "close"})
        assert not browser.html["run-check"]
        await app.receive({"act": "card", "name": "add"})
        assert "Matches the reference" in browser.html["run-check"]  # it was kept
        await app.receive({"act": "card", "name": "superres"})
        assert not browser.html["run-check"]  # it has no example

    drive(script)


def test_the_usual_variant_goes_without_saying() -> None:
    agrees, differs = Verdict(True, "largest error: 2.0% of what is allowed"), Verdict(False, "x")
    told = check_view(agrees, USUAL, "")
    assert "</strong> (largest error: 2.0% of what is allowed)" in told
    assert "</strong>: x." in check_view(differs, USUAL, "")
    assert "</strong> (without f16): x." in check_view(differs, "without f16", "")


def test_an_example_is_not_checked_with_another_kv_cache_than_its_own() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_card(app, "stories")
        assert "Built-in test" in browser.html["run-check"]
        await app.receive({"act": "kv-cache", "value": "int8"})
        assert browser.html["run-check"] == ""
        await app.receive({"act": "kv-cache", "value": ""})
        assert "Built-in test" in browser.html["run-check"]

    drive(script)


def test_an_example_that_differs_leads_to_numpy(monkeypatch: Any) -> None:
    engine = WatchedEngine()

    def safer(options: Any, info: Any) -> SaferVariant | None:
        if len(engine.options) == 1:
            return SaferVariant("with plain kernels", DeveloperOptions(plain=True))
        return SaferVariant("on NumPy") if len(engine.options) == 2 else None

    monkeypatch.setattr(checks, "safer_variant", safer)

    async def script(app: App, browser: FakeBrowser) -> None:
        fetch = browser.fetch_bytes

        async def wrong(url: str) -> bytes:
            data = await fetch(url)
            if not url.endswith(".check.npz"):
                return data
            arrays = dict(np.load(io.BytesIO(data)))
            arrays["output0"][2, 3] += 1
            file = io.BytesIO()
            np.savez(file, **arrays)
            return file.getvalue()

        browser.fetch_bytes = wrong  # type: ignore[method-assign]
        await open_card(app, "add")
        await app.receive({"act": "check-example"})
        assert "Differs from the reference" in browser.html["run-check"]
        assert "output0[2, 3] is" in browser.html["run-check"]
        assert "Run with plain kernels" in browser.html["run-check"]
        await app.receive({"act": "safer"})
        assert engine.options[-1] == DeveloperOptions(plain=True)
        assert engine.devices == ["webgpu", "webgpu"]
        assert "Run on NumPy" in browser.html["run-check"]
        browser.fetch_bytes = fetch  # type: ignore[method-assign]
        await app.receive({"act": "safer"})
        assert engine.devices[-1] == "numpy"
        assert engine.options[-1] is None
        assert "Matches the reference" in browser.html["run-check"]
        assert 'data-act="safer"' not in browser.html["run-check"]

    drive(script, GPU, engine)


def test_a_missing_example_is_an_error_with_its_address() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        card = {"name": "a", "folder": "samples/", "files": {"program": "add.pte", "check": "no"}}
        await app.receive({"act": "hello", "cards": [card]})
        await app.receive({"act": "card", "name": "a"})
        await app.receive({"act": "check-example"})
        assert "samples/no: the server answered 404" in browser.html["error"]

    drive(script)


def test_a_bundled_program_is_checked_against_its_first_case() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        data = (ROOT / "tests" / "data" / "format" / "bundled.bpte").read_bytes()
        await app.receive({"act": "hello", "cards": CARDS})
        await app.receive({"act": "open-file", "files": [File("small.bpte", data)]})
        assert "Built-in test" in browser.html["run-check"]
        await app.receive({"act": "check-example"})
        assert "Matches the reference" in browser.html["run-check"]
        await app.receive({"act": "open-file", "files": [File("a.pte", program(data))]})
        assert not browser.html["run-check"]  # the program alone has no cases

    drive(script)


def program(bundle: bytes) -> bytes:
    """Return the program in a bundle."""
    span = parse_bundle(bundle).program
    return bundle[span.offset : span.end]

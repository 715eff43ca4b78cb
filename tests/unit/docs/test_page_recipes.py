"""The view and the card in docs/inside/extending.md work."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from pathlib import Path

import pytest

import page.views
from page.app import App
from page.shared.cards.cards import read_card
from page.views import find_views
from support.docs.documents import blocks_of
from support.page.fake_page import GPU, ROOT, Engine, FakeBrowser, open_sample, run

DOCUMENT = ROOT / "docs/inside/extending.md"
BLOCKS = blocks_of(DOCUMENT)


def test_the_view(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page.views, "__path__", [*page.views.__path__, str(tmp_path)])
    (block,) = [block for block in BLOCKS if "VIEW = View" in block.text]
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "__init__.py").touch()
    (tmp_path / "memory" / "panel.py").write_text(block.text, encoding="utf-8")
    assert not find_views().problems

    async def script() -> None:
        browser = FakeBrowser(GPU)
        app = App(browser, Engine())
        await app.receive({"act": "hello"})
        await open_sample(app)
        assert "memory" in [name for name, _ in browser.other["tabs"]]
        await app.receive({"act": "view", "name": "memory"})
        assert "Run the program first" in browser.html["view-memory"]
        await run(app)
        shown = browser.html.pop("view-memory")
        assert re.search(r"<h2>Memory</h2><p>\d+", shown)
        await app.receive({"act": "memory:refresh"})
        assert browser.html["view-memory"] == shown

    asyncio.run(script())


def test_the_skeleton(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "_skeleton" not in {view.name for view in find_views().views}
    assert "views/_skeleton/` to `web/page/views/NAME/`" in DOCUMENT.read_text(encoding="utf-8")
    copied = tmp_path / "skeleton"
    shutil.copytree(ROOT / "web/page/views/_skeleton", copied)
    assert (copied / "panel.py").read_text(encoding="utf-8").count("SKELETON:") >= 5
    monkeypatch.setattr(page.views, "__path__", [*page.views.__path__, str(tmp_path)])
    found = find_views()
    assert not found.problems

    async def script() -> None:
        browser = FakeBrowser(GPU)
        app = App(browser, Engine(), found.views)
        await app.receive({"act": "hello"})
        await open_sample(app)
        await app.receive({"act": "view", "name": "skeleton"})
        assert "Run the program first" in browser.html["view-skeleton"]
        await run(app)
        assert "0 times" in browser.html["view-skeleton"]
        await app.receive({"act": "skeleton:press"})
        assert "1 time." in browser.html["view-skeleton"]
        await app.receive({"act": "skeleton:again"})
        assert browser.text["status"].startswith("Run again in")
        await open_sample(app, "add.pte")
        await run(app)
        assert "0 times" in browser.html["view-skeleton"]

    asyncio.run(script())


def test_the_card() -> None:
    (block,) = [block for block in BLOCKS if block.language == "json"]
    raw = json.loads(block.text)
    card = read_card({**raw, "folder": "samples/"})
    assert card.program == f"samples/{raw['name']}.pte"
    assert card.examples == (f"samples/{raw['name']}.npy",)
    table = DOCUMENT.read_text(encoding="utf-8").split("| field | meaning |")[1].split("\n\n")[0]
    told = set(re.findall(r"`(?:files\.)?(\w+)`", table))
    fields = {*raw, *raw["files"], *(key for one in raw["inputs"] for key in one)}
    fields |= {key for one in raw["outputs"] for key in one}
    assert fields - {"files"} <= told

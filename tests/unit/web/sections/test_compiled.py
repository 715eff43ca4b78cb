"""Compiled programs that are dropped: their dispatches in the graph, and refused files."""

from __future__ import annotations

import asyncio
import io
import json
import re
import zipfile
from typing import Any

import pytest

import webpte
from page.app import App
from page.browser import Message
from support.page.fake_page import SAMPLES, FakeBrowser, File, drive
from support.page.markup import check


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a compiled folder, by path."""
    out = tmp_path_factory.mktemp("compiled") / "digits"
    asyncio.run(webpte.compile(SAMPLES / "digits.pte", out))
    found = (path for path in out.rglob("*") if path.is_file())
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in found}


def zipped(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in files.items():
            archive.writestr(f"digits/{path}", data)
    return out.getvalue()


def dropped(files: dict[str, bytes], kind: str) -> Message:
    """Return the message of a drop: of a description, a zip, or a folder."""
    if kind == "description":
        return {"act": "open-file", "files": [File("program.json", files["program.json"])]}
    if kind == "zip":
        return {"act": "open-file", "files": [File("digits.zip", zipped(files))]}
    paths = [f"digits/{path}" for path in files]
    given = [File(path.rpartition("/")[2], data) for path, data in files.items()]
    return {"act": "open-file", "files": given, "paths": paths}


def drawing(browser: FakeBrowser) -> Any:
    return json.loads(browser.other["script"]["graph"]["drawing"])


@pytest.mark.parametrize("kind", ["description", "zip", "folder"])
def test_dispatches_are_drawn(folder: dict[str, bytes], kind: str) -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await app.receive(dropped(folder, kind))
        assert not browser.html.get("error")
        assert app._state.front == "graph"
        assert ["graph", "Graph"] in browser.other["tabs"]
        assert browser.other["opened"]["any"]
        titles = [box["title"] for box in drawing(browser)["boxes"]]
        assert titles[0] == "input0"
        assert titles[-1] == "output0"
        assert titles[1].startswith("conv")
        shown = browser.html["view-graph"]
        check(shown)
        assert "digits.pte, compiled · 14 buffers of" in shown
        assert "Optimized" not in shown
        # A dispatch: its buffers and kernel, and its WGSL where the folder has come.
        await app.receive({"act": "graph:choose", "node": "0"})
        inside = browser.html["view-graph"]
        check(inside)
        assert re.search(r"buffer \d+, 288 bytes: digits\.pte from [\d,]+", inside)
        assert "in_channels" in inside if kind != "description" else "as words" in inside
        assert ("WGSL of" in inside) is (kind != "description")
        await app.receive({"act": "graph:colour", "value": "time"})  # nothing has run
        await app.receive({"act": "close-compiled"})
        assert not browser.other["opened"]["any"]
        assert ["graph", "Graph"] not in browser.other["tabs"]

    drive(script)


def test_the_class_of_devices_is_chosen(folder: dict[str, bytes]) -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await app.receive(dropped(folder, "folder"))
        assert "for every GPU" not in browser.html["view-graph"]
        assert re.search(
            r'value="program.json" selected[^>]*>every GPU', browser.html["view-graph"]
        )
        await app.receive({"act": "graph:compiled", "name": "file", "value": "software.json"})
        assert re.search(r'value="software.json" selected', browser.html["view-graph"])
        await app.receive({"act": "graph:compiled", "name": "plan", "value": "7"})  # there is none
        await app.receive({"act": "graph:compiled", "name": "method", "value": "none"})
        assert not browser.html.get("error")

    drive(script)


def test_the_open_program_comes_back(folder: dict[str, bytes]) -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        program = File("digits.pte", folder["digits.pte"])
        await app.receive({"act": "open-file", "files": [program]})
        await app.receive(dropped(folder, "zip"))
        assert "digits.pte, compiled" in browser.html["view-graph"]
        await app.receive({"act": "close-compiled"})
        assert "Optimized" in browser.html["view-graph"]
        assert app._state.session is not None
        await app.receive(dropped(folder, "zip"))
        await app.receive({"act": "graph:call", "node": "0"})  # as the profile links to it
        assert "Optimized" in browser.html["view-graph"]
        # A program that is opened takes the place of a compiled one.
        await app.receive(dropped(folder, "zip"))
        await app.receive({"act": "open-file", "files": [program]})
        assert app._state.compiled is None
        assert "Optimized" in browser.html["view-graph"]

    drive(script)


def refused(files: dict[str, bytes]) -> dict[str, tuple[Message, str]]:
    newer = json.loads(files["program.json"]) | {"version": 2}
    empty = zipped({"readme.txt": b"no"})
    bomb = zipped({"program.json": bytes(200 << 20)})
    return {
        "no JSON": (dropped({"program.json": b"{..."}, "description"), "it is no JSON"),
        "newer": (dropped({"program.json": json.dumps(newer).encode()}, "zip"), "newer webpte"),
        "no zip": ({"act": "open-file", "files": [File("a.zip", b"PK")]}, "is no .zip"),
        "empty": ({"act": "open-file", "files": [File("a.zip", empty)]}, "it has none of"),
        "bomb": ({"act": "open-file", "files": [File("a.zip", bomb)]}, "64.0 MiB are read"),
    }


@pytest.mark.parametrize("case", ["no JSON", "newer", "no zip", "empty", "bomb"])
def test_wrong_files_are_named(folder: dict[str, bytes], case: str) -> None:
    message, told = refused(folder)[case]

    async def script(app: App, browser: FakeBrowser) -> None:
        await app.receive(dropped(folder, "zip"))
        await app.receive(message)
        assert told in browser.html["error"]
        check(browser.html["error"])
        assert app._state.compiled is not None  # the program before stays
        assert app._state.compiled.name == "digits.pte"

    drive(script)


def test_a_dropped_model_folder_is_no_compiled_one(folder: dict[str, bytes]) -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await app.receive(dropped({"digits.pte": folder["digits.pte"]}, "folder"))
        assert app._state.session is not None
        assert app._state.compiled is None

    drive(script)

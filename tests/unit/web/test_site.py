"""The files of the page fit together."""

from __future__ import annotations

import json
import re
from pathlib import Path

WEB = Path(__file__).resolve().parents[3] / "web"
INDEX = (WEB / "index.html").read_text(encoding="utf-8")
PAGE = "".join(path.read_text(encoding="utf-8") for path in (WEB / "page").glob("*.py"))


def test_every_page_module_is_fetched() -> None:
    listed = json.loads((WEB / "pyscript.json").read_text(encoding="utf-8"))["files"]
    modules = {f"./page/{path.name}" for path in (WEB / "page").glob("*.py")}
    assert set(listed) == modules | {"./webpte.zip"}


def test_only_main_touches_the_browser() -> None:
    for path in (WEB / "page").glob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"^\s*(import|from) (js|pyodide|pyscript|polyscript)\b", text, re.M), (
            path
        )


def test_nothing_is_inline() -> None:
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=", INDEX)
    for attributes in re.findall(r"<script([^>]*)>", INDEX):
        assert " src=" in attributes


def test_nothing_comes_from_elsewhere() -> None:
    for name in ("index.html", "style.css", "events.js", "icon.svg", "pyscript.json"):
        text = (WEB / name).read_text(encoding="utf-8")
        text = text.replace("http://www.w3.org/2000/svg", "").replace("https://…/model.pte", "")
        assert "http" not in text, name
        assert not re.search(r"""(src|href)=["']/""", text), f"{name} must work below a path"


def test_sections_that_are_drawn_exist() -> None:
    ids = set(re.findall(r'\sid="([^"]+)"', INDEX))
    assert {
        "gpu",
        "error",
        "progress",
        "file",
        "inputs",
        "run",
        "timing",
        "stats",
        "outputs",
    } <= ids
    assert {"status", "welcome", "run-controls", "boot-note", "ask", "kernels"} <= ids


def test_no_module_does_everything() -> None:
    for path in (WEB / "page").glob("*.py"):
        lines = path.read_text(encoding="utf-8").count("\n")
        assert lines <= 400, f"{path.name} has {lines} lines: split it"


def test_acts_of_the_markup_have_handlers() -> None:
    sources = INDEX + "".join(
        path.read_text(encoding="utf-8") for path in (WEB / "page").glob("*_view.py")
    )
    acts = set(re.findall(r'data[-_]act="([a-z-]+)"', sources))
    acts |= set(re.findall(r'data_drop="([a-z-]+)"', sources)) | {"hello", "open-file", "scalar"}
    assert acts
    for act in acts:
        assert f"def on_{act.replace('-', '_')}(" in PAGE, act


def test_samples_are_there() -> None:
    for url in re.findall(r'data-url="([^"]+)"', INDEX):
        assert (WEB / url).read_bytes()[4:8] == b"ET12"

"""The files of the page fit together."""

from __future__ import annotations

import io
import json
import re
import zipfile
from pathlib import Path

from webpte_host.base.bundle import page_bundle
from webpte_host.serving.page_config import page_config

WEB = Path(__file__).resolve().parents[3] / "web"
INDEX = (WEB / "index.html").read_text(encoding="utf-8")
MODULES = sorted((WEB / "page").rglob("*.py"))
PAGE = "".join(path.read_text(encoding="utf-8") for path in MODULES)
SHEETS = re.findall(r'rel="stylesheet" href="\./([^"]+)"', INDEX)
SCRIPTS = [f"scripts/{path.name}" for path in sorted((WEB / "scripts").glob("*.js"))]


def test_every_page_module_is_in_the_archive() -> None:
    assert json.loads(page_config())["files"]["./page.zip"] == "./*"
    with zipfile.ZipFile(io.BytesIO(page_bundle(WEB).archive().data)) as archive:
        assert "page/views/run/panel.py" in archive.namelist()
        assert {(WEB / name) for name in archive.namelist()} == set(MODULES)


def test_only_main_touches_the_browser() -> None:
    for path in MODULES:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"^\s*(import|from) (js|pyodide|pyscript|polyscript)\b", text, re.M), (
            path
        )


def test_nothing_is_inline() -> None:
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=", INDEX)
    for attributes in re.findall(r"<script([^>]*)>", INDEX):
        assert " src=" in attributes


def test_what_moves_for_as_long_as_something_takes_takes_little_itself() -> None:
    """Animations run in steps: 60 frames per second take a quarter of a core without a GPU."""
    moving = []
    for path in WEB.rglob("*.css"):
        moving += re.findall(r"animation: ([^;}]*infinite[^;}]*)", path.read_text(encoding="utf-8"))
    assert moving
    assert [one for one in moving if "steps(" not in one] == []


def test_nothing_comes_from_elsewhere() -> None:
    assert b"http" not in page_config()
    assert SCRIPTS
    assert "style/style.css" in SHEETS
    for name in ("index.html", "icon.svg", *SHEETS, *SCRIPTS):
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
    assert {
        "status",
        "welcome",
        "run-controls",
        "run-more",
        "boot-note",
        "ask",
        "kernels",
        "figures",
        "gallery-list",
    } <= ids
    assert {"tabs", "tab-run", "view-run", "panels"} <= ids


def test_acts_of_the_markup_have_handlers() -> None:
    sources = INDEX + "".join(
        path.read_text(encoding="utf-8") for path in (WEB / "page" / "parts").glob("*_view.py")
    )
    acts = set(re.findall(r'data[-_]act(?:=|": )"([a-z-]+)"', sources))
    acts |= set(re.findall(r'data_drop="([a-z-]+)"', sources)) | {"hello"}
    assert {"open-file", "scalar", "picture-setting"} <= acts
    for act in acts:
        assert f"def on_{act.replace('-', '_')}(" in PAGE, act


def test_acts_of_views_have_handlers() -> None:
    found = 0
    for path in (WEB / "page" / "views").glob("*/panel.py"):
        text = path.read_text(encoding="utf-8")
        for act in re.findall(r'self\.act\("([a-z-]+)"', text):
            found += 1
            assert f"def on_{act.replace('-', '_')}(" in text, f"{act} of {path.name}"
    assert found

"""The files of the page fit together."""

from __future__ import annotations

import io
import json
import re
import struct
import zipfile
from html.parser import HTMLParser
from pathlib import Path

import pytest

from webpte_host.base.bundle import (
    Bundle,
    package_bundle,
    page_bundle,
    start_bundles,
    suites_bundle,
)
from webpte_host.serving.page_config import page_config
from webpte_host.serving.page_facts import package_version, source_address, with_facts
from webpte_host.setup.precompile import BYTECODE, SOURCES
from webpte_host.site.icons import LINK_PICTURE, icons

WEB = Path(__file__).resolve().parents[3] / "web"
INDEX = (WEB / "index.html").read_text(encoding="utf-8")
MODULES = sorted((WEB / "page").rglob("*.py"))
PAGE = "".join(path.read_text(encoding="utf-8") for path in MODULES)
SHEETS = re.findall(r'rel="stylesheet" href="\./([^"]+)"', INDEX)
SCRIPTS = [f"scripts/{path.name}" for path in sorted((WEB / "scripts").glob("*.js"))]


def test_the_page_fetches_compiled_modules_where_there_are_any(tmp_path: Path) -> None:
    start, _ = start_bundles(WEB, tmp_path / SOURCES)
    assert BYTECODE not in page_config(tmp_path, start).decode()
    (tmp_path / BYTECODE).touch()
    config = json.loads(page_config(tmp_path, start, runtime="./there/"))
    assert config["version"] != json.loads(page_config(tmp_path, start, "another"))["version"]
    assert config["bytecode"] == f"./there/{BYTECODE}"
    assert f'_SHIPPED = "{BYTECODE}"' in (WEB / "boot/imports.py").read_text()


def test_every_page_module_is_in_the_archive() -> None:
    with zipfile.ZipFile(io.BytesIO(page_bundle(WEB).archive().data)) as archive:
        assert "page/views/run/panel.py" in archive.namelist()
        assert {(WEB / name) for name in archive.namelist()} == set(MODULES)


def test_no_page_fetches_or_imports_the_tools_of_developers() -> None:
    def names(bundle: Bundle) -> list[str]:
        with zipfile.ZipFile(io.BytesIO(bundle.archive().data)) as archive:
            return archive.namelist()

    assert "webpte_export/suites/suite.py" in names(suites_bundle())
    shipped = [*names(package_bundle()), *names(page_bundle(WEB))]
    assert [name for name in shipped if name.startswith("webpte_export/")] == []
    naming = [
        path.relative_to(WEB).as_posix()
        for path in WEB.rglob("*")
        if path.suffix in {".html", ".js", ".json", ".py"}
        and "suites.zip" in path.read_text(encoding="utf-8")
    ]
    assert naming == ["harness.js"]


def test_only_main_touches_the_browser() -> None:
    for path in MODULES:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"^\s*(import|from) (js|pyodide|pyodide_js)\b", text, re.M), path


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
    assert b"http" not in page_config(Path("runtime"), page_bundle(WEB))
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
    modules = [
        *(WEB / "page" / "sections").rglob("*.py"),
        *(WEB / "page" / "shared").rglob("*.py"),
    ]
    sources = INDEX + "".join(path.read_text(encoding="utf-8") for path in modules)
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


class _OutsideText(HTMLParser):
    """Collects the text that is in no landmark: axe's rule `region`, also for folded parts."""

    _LANDMARKS = ("header", "main", "footer", "nav", "dialog", "noscript", "head")
    _OUTSIDE = ("skip", "veil")  # the skip link, and the veil while something is dragged

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._open: list[bool] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag in ("img", "link", "meta", "input", "br"):
            return
        names = dict(attributes)
        named = tag == "section" and ("aria-label" in names or "aria-labelledby" in names)
        live = names.get("role") in ("alert", "status")
        left_out = names.get("class") in self._OUTSIDE
        self._open.append(tag in self._LANDMARKS or named or live or left_out)

    def handle_endtag(self, tag: str) -> None:
        self._open.pop()

    def handle_data(self, data: str) -> None:
        if data.strip() and not any(self._open) and self._open:
            self.found.append(data.strip())


def test_everything_is_in_a_landmark() -> None:
    parser = _OutsideText()
    parser.feed(INDEX)
    assert parser.found == []


def test_the_page_has_a_place_for_each_fact(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    config = tmp_path / ".git/config"
    config.write_text('[remote "origin"]\n\turl = git@github.com:some/one.git\n')
    page = with_facts(INDEX, "./docs/", "https://some.example/<here>/", tmp_path)
    assert f'<span id="version">{package_version()}</span>' in page
    assert 'name="webpte-docs" content="./docs/"' in page
    assert 'name="webpte-source" content="https://github.com/some/one"' in page
    address = "https://some.example/&lt;here&gt;/"
    assert f'property="og:url" content="{address}"' in page
    assert f'property="og:image" content="{address}og.png"' in page
    config.write_text("[remote")
    assert 'name="webpte-source" content=""' in with_facts(INDEX, root=tmp_path)


@pytest.mark.parametrize(
    ("remote", "address"),
    [
        ("https://github.com/a/b.c.git", "https://github.com/a/b.c"),
        ("ssh://git@gitlab.com/a/b", "https://gitlab.com/a/b"),
        ("https://user:secret@github.com/a/b", ""),
        ("/some/folder", ""),
    ],
)
def test_the_source_is_where_a_checkout_came_from(
    tmp_path: Path, remote: str, address: str
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/config").write_text(f'[remote "origin"]\n\turl = {remote}\n')
    assert source_address(tmp_path) == address


def test_icons_are_there_in_the_sizes_that_the_page_names() -> None:
    """`serve.py pictures --icons` makes them again."""

    def size_of(name: str) -> tuple[int, int]:
        data = (WEB / name).read_bytes()
        assert data.startswith(b"\x89PNG")
        return struct.unpack(">II", data[16:24])

    for icon in icons():
        assert size_of(icon.name) == (icon.width, icon.height)
        assert icon.page.count("<svg width=") == (2 if icon.name == LINK_PICTURE else 1)
    manifest = json.loads((WEB / "app.webmanifest").read_text(encoding="utf-8"))
    for one in manifest["icons"]:
        if one["sizes"] != "any":
            width, height = size_of(one["src"])
            assert one["sizes"] == f"{width}x{height}"
    named = re.findall(r'"\./((?:icon|og)[\w-]*\.png)"', INDEX)
    assert {LINK_PICTURE, "icon-32.png", "icon-180.png"} == {*named}

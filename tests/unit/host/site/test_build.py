"""The static site's files: their content, and that they work in any folder."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

import webpte
from webpte_host.base.errors import HostError
from webpte_host.models.store import ModelStore
from webpte_host.serving.routing import COMMON_HEADERS
from webpte_host.site import build_site

# A quoted address that starts at the host's root, or names a host. Addresses of modules that are
# only a fallback, and XML namespaces, do not count.
ABSOLUTE = re.compile(
    r"""(?:src|href|import|from|fetch\(|new URL\(|: )\s*["'](/[^/"'][^"']*)["']"""
)


@pytest.fixture
def runtime(tmp_path: Path) -> Path:
    folder = tmp_path / "runtime"
    (folder / "pyodide").mkdir(parents=True)
    (folder / "pyodide" / "pyodide.asm.wasm").write_bytes(bytes(5000))
    (folder / "stamp.json").write_text("{}")
    return folder


@pytest.fixture
def models(tmp_path: Path) -> ModelStore:
    source = tmp_path / "made"
    source.mkdir()
    (source / "model.pte").write_bytes(b"program")
    store = ModelStore(tmp_path / "installed")
    store.install(source, {"name": "tiny", "title": "Tiny", "files": []})
    return store


@pytest.fixture
def site(tmp_path: Path, runtime: Path) -> Path:
    site = tmp_path / "site"
    build_site.write_page(site, runtime)
    return site


def known_to_worker(site: Path) -> dict[str, Any]:
    text = (site / build_site.SITE_FILES).read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text.removeprefix("self.SITE = ").rstrip().removesuffix(";"))
    return found


def test_has_the_page_and_no_tools_of_tests(site: Path) -> None:
    for name in ("index.html", "main.py", "start.zip", "python.json", "samples/add.pte"):
        assert (site / name).is_file(), name
    assert (site / "runtime/pyodide/pyodide.asm.wasm").is_file()
    assert not list(site.rglob("harness*"))
    assert not list(site.rglob("suites*"))
    assert not list(site.rglob("__pycache__"))
    assert not (site / "runtime/stamp.json").exists()


def test_no_address_is_absolute(site: Path) -> None:
    found = {
        path.relative_to(site).as_posix(): ABSOLUTE.findall(path.read_text(encoding="utf-8"))
        for path in site.rglob("*")
        if path.suffix in (".html", ".js", ".css", ".json", ".py")
    }
    assert {name: addresses for name, addresses in found.items() if addresses} == {}


def test_worker_is_registered_first_by_a_relative_address(site: Path) -> None:
    for name, address in (("index", "./"), ("embed", "./"), ("examples/main", "../")):
        text = (site / f"{name}.html").read_text(encoding="utf-8")
        first = text.index("<script")
        assert text[first:].startswith(f'<script src="{address}service-worker-register.js">')


def test_the_site_can_be_installed(site: Path) -> None:
    index = (site / "index.html").read_text(encoding="utf-8")
    assert '<link rel="manifest" href="./app.webmanifest">' in index
    manifest = json.loads((site / "app.webmanifest").read_text(encoding="utf-8"))
    assert (manifest["start_url"], manifest["scope"]) == ("./", "./")
    assert all((site / icon["src"]).is_file() for icon in manifest["icons"])


def test_worker_knows_files_by_content(site: Path) -> None:
    (site / "ä name.txt").write_text("hello")
    build_site.write_worker(site, later=["notebooks/"])
    known = known_to_worker(site)
    assert known["files"]["ä name.txt"] == [hashlib.sha256(b"hello").hexdigest(), 5]
    assert "index.html" in known["files"]
    assert not {"service-worker.js", build_site.SITE_FILES} & known["files"].keys()
    assert known["later"] == ["models/", "webpte.zip", "notebooks/"]
    assert {**known["headers"], "Content-Security-Policy": known["policy"]} == COMMON_HEADERS
    assert "frame-ancestors *;" in known["headersOf"]["embed.html"]["Content-Security-Policy"]
    assert '<html lang="en" data-embed>' in (site / "embed.html").read_text(encoding="utf-8")


def test_installed_models_are_in_the_gallery(site: Path, models: ModelStore) -> None:
    assert build_site.write_models(site, models) == 1
    cards = {card["name"]: card for card in json.loads((site / "gallery.json").read_bytes())}
    assert cards["tiny"]["folder"] == "models/tiny/"
    assert (site / "models/tiny/model.pte").read_bytes() == b"program"
    assert "digits" in cards


def test_without_models(site: Path) -> None:
    assert build_site.write_models(site, None) == 0
    assert not (site / "models").exists()
    assert "digits" in {card["name"] for card in json.loads((site / "gallery.json").read_bytes())}


def test_compressed_files_are_beside_those_that_get_smaller(tmp_path: Path) -> None:
    (tmp_path / "long.js").write_text("again " * 1000)
    (tmp_path / "short.js").write_text("again")
    (tmp_path / "packed.whl").write_bytes(bytes(5000))
    build_site.compress(tmp_path)
    assert {path.name for path in tmp_path.glob("*.gz")} == {"long.js.gz"}
    packed = (tmp_path / "long.js.gz").read_bytes()
    assert gzip.decompress(packed) == (tmp_path / "long.js").read_bytes()
    build_site.compress(tmp_path)
    assert (tmp_path / "long.js.gz").read_bytes() == packed


def test_replaces_only_what_it_made(tmp_path: Path) -> None:
    build_site.SITE.check(tmp_path / "new")
    build_site.SITE.check(tmp_path)  # empty
    (tmp_path / "precious.txt").write_text("mine")
    with pytest.raises(HostError, match="not of a site"):
        build_site.SITE.check(tmp_path)
    with pytest.raises(HostError, match="is a file"):
        build_site.SITE.check(tmp_path / "precious.txt")
    (tmp_path / build_site.SITE_FILES).write_text("")
    build_site.SITE.check(tmp_path)


def test_the_examples_of_the_document_are_the_files(root: Path) -> None:
    document = (root / "docs/use/python.md").read_text(encoding="utf-8")
    for name in (
        "docs/examples/own_page/index.html",
        "web/examples/worker.html",
        "web/examples/pyscript.json",
    ):
        text = (root / name).read_text(encoding="utf-8")
        assert f"```{name.rpartition('.')[2]}\n{text}```" in document


def test_the_page_of_three_files_names_the_versions_that_are_tested(root: Path) -> None:
    text = (root / "docs/examples/own_page/index.html").read_text(encoding="utf-8")
    lock = json.loads((root / "pysrc/webpte_host/setup/runtime_lock.json").read_text("utf-8"))
    (pyodide,) = (one["version"] for one in lock["npm"] if one["name"] == "pyodide")
    assert f"/pyodide/v{pyodide}/full/" in text
    assert f"webpte-{webpte.__version__}-py3-none-any.whl" in text


def test_the_example_on_the_main_thread_differs_in_one_word(root: Path) -> None:
    examples = root / "web" / "examples"
    worker = (examples / "worker.html").read_text(encoding="utf-8")
    main = (examples / "main.html").read_text(encoding="utf-8")
    assert worker.replace(' type="py" worker ', ' type="py" ') == main

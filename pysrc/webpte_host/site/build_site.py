"""Writes the files of the static site: a folder for any host and sub-path.

    index.html ...          the page (web/), which also registers the service worker
    embed.html              the page for frames of other sites (see serving/embed.py)
    python.json, gallery.json, start.zip, sources.zip, webpte.zip, runtime/, models/
                            as server.py serves them
    webpte-VERSION-py3-none-any.whl     for micropip
    service-worker.js       isolation headers, a cache by content, offline
    site-files.js           the worker's list of files, generated here
    NAME.gz                 compressed copies, for hosts that send them

All addresses are relative, so the site works in any folder.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
from collections.abc import Sequence
from pathlib import Path

from webpte_host.base.bundle import package_bundle, start_bundles
from webpte_host.base.errors import HostError
from webpte_host.base.layout import WEB
from webpte_host.models.store import INDEX, ModelStore
from webpte_host.serving.embed import EMBED, EMBED_HEADERS, embed_page
from webpte_host.serving.gallery import gallery
from webpte_host.serving.page_config import CONFIG, SOURCE_ARCHIVE, START, page_config
from webpte_host.serving.page_facts import with_facts
from webpte_host.serving.routing import COMMON_HEADERS
from webpte_host.setup.precompile import SOURCES
from webpte_host.setup.runtime import runtime_version
from webpte_host.site.build_package import build_wheel
from webpte_host.site.output_folder import OutputFolder

NOTEBOOKS = "notebooks"
SITE_FILES = "site-files.js"
SITE = OutputFolder("site", SITE_FILES, "serve.py build")
WORKER = "service-worker.js"
_PACKAGE = "webpte.zip"  # for pages of one's own
_REGISTER = "service-worker-register.js"
_MANIFEST = "app.webmanifest"  # installs what opens without a network: `serve.py` leaves it out
_NOT_KEPT = (WORKER, SITE_FILES)  # the browser fetches both past the worker
_NOT_PAGE = ("harness.html", "harness.js", "npm")  # tests, and the package for npm

_HEAD = "<head>"
_COMPRESSED = frozenset(
    {".cjs", ".css", ".html", ".ipynb", ".js", ".json", ".mjs"}
    | {".pte", ".py", ".svg", ".wasm", ".wgsl"}
)
_WORTH_BYTES = 1024
_WORTH_SHARE = 0.9


def write_page(
    site: Path, runtime: Path, web: Path = WEB, docs: str = "", address: str = ""
) -> None:
    """Write the page with the browser runtime and the package; `docs` and `address` are facts of
    the page (see page_facts.py)."""
    ignored = shutil.ignore_patterns(".*", "__pycache__", *_NOT_PAGE)
    shutil.copytree(web, site, ignore=ignored)
    shutil.copytree(runtime, site / "runtime")
    (site / "runtime" / "stamp.json").unlink(missing_ok=True)
    package = package_bundle()
    start, sources = start_bundles(web, runtime / SOURCES, package)
    (site / CONFIG).write_bytes(page_config(runtime, start, runtime_version(runtime)))
    for name, bundle in ((START, start), (SOURCE_ARCHIVE, sources), (_PACKAGE, package)):
        (site / name).write_bytes(bundle.archive().data)
    for module in (site / "page").rglob("*.py"):  # in the archive
        module.unlink()
    index = site / "index.html"
    text = with_facts(index.read_text(encoding="utf-8"), docs, address)
    index.write_text(text, encoding="utf-8")
    framed = embed_page(index.read_text(encoding="utf-8"))
    (site / EMBED).write_text(framed, encoding="utf-8")
    for page in (index, site / EMBED, *sorted((site / "examples").glob("*.html"))):
        register_worker(page, site)


def write_models(site: Path, models: ModelStore | None, web: Path = WEB) -> int:
    """Write the installed models, if given, and the gallery; return the number of models."""
    cards = []
    if models is not None:
        cards = models.cards()
        for card in cards:
            shutil.copytree(models.folder / card["name"], site / "models" / card["name"])
    index = site / "models" / INDEX
    if cards:
        index.write_text(json.dumps(cards, ensure_ascii=False), encoding="utf-8")
    (site / "gallery.json").write_bytes(gallery(web, index if cards else None, site / "runtime"))
    return len(cards)


def write_wheel(site: Path) -> Path:
    return build_wheel(site)


def register_worker(page: Path, site: Path) -> None:
    """Register the service worker first in the page, which may have to reload for it."""
    up = "../" * (len(page.relative_to(site).parts) - 1) or "./"
    text = page.read_text(encoding="utf-8")
    if _HEAD not in text:
        raise HostError(f"{page.name} has no {_HEAD}: the service worker cannot be registered.")
    tags = [_HEAD, f'<script src="{up}{_REGISTER}"></script>']
    if page == site / "index.html":
        tags.append(f'<link rel="manifest" href="{up}{_MANIFEST}">')
    page.write_text(text.replace(_HEAD, "\n  ".join(tags), 1), encoding="utf-8")


def write_worker(site: Path, later: Sequence[str] = ()) -> None:
    """Write the service worker's list of files, after all files. A changed file changes the worker.

    later  prefixes of files that are cached on first use, not in advance
    """
    files = {
        path.relative_to(site).as_posix(): [_sha256(path), path.stat().st_size]
        for path in sorted(site.rglob("*"))
        if path.is_file() and path.name not in _NOT_KEPT
    }
    headers = dict(COMMON_HEADERS)
    policy = headers.pop("Content-Security-Policy")
    # JupyterLite has scripts in its pages, which the page's policy forbids.
    known = {"files": files, "headers": headers, "policy": policy, "withoutPolicy": f"{NOTEBOOKS}/"}
    known["headersOf"] = {EMBED: EMBED_HEADERS}
    # Cached responses include these headers, so a change of them is a new version.
    sent = json.dumps([COMMON_HEADERS, EMBED_HEADERS]).encode()
    known["headersHash"] = hashlib.sha256(sent).hexdigest()[:8]
    known["later"] = ["models/", _PACKAGE, *later]  # large, or not the page's
    text = f"self.SITE = {json.dumps(known, ensure_ascii=False, separators=(',', ':'))};\n"
    (site / SITE_FILES).write_text(text, encoding="utf-8")


def compress(site: Path) -> None:
    """Write a compressed copy of each file. The same input gives the same bytes."""
    for path in sorted(site.rglob("*")):
        if path.suffix not in _COMPRESSED or path.stat().st_size < _WORTH_BYTES:
            continue
        plain = path.read_bytes()
        packed = gzip.compress(plain, 9, mtime=0)
        if len(packed) < _WORTH_SHARE * len(plain):
            path.with_name(path.name + ".gz").write_bytes(packed)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

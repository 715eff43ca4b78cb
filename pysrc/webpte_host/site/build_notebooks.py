"""The notebooks of the static site: JupyterLite with webpte in it, under `notebooks/`.

JupyterLite is built by its own command, in its own environment. Its kernel is the page's Pyodide;
the packages of IPython and matplotlib are set up like the browser runtime, pinned by
`notebooks_lock.json`, and added to that Pyodide's packages.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

from webpte_host.base.layout import ROOT, STATE
from webpte_host.base.pinned_venv import PinnedVenv
from webpte_host.base.process import run_tool
from webpte_host.base.progress import Display
from webpte_host.setup.runtime import ensure_runtime
from webpte_host.site import build_site

NOTEBOOKS = ROOT / "docs" / "notebooks"
_LOCK = Path(__file__).with_name("notebooks_lock.json")
_PACKAGES = STATE / "notebook-packages"
_ENVIRONMENT = STATE / "notebooks"
_PINNED = (
    "doit==0.37.0",
    "jupyter_core==5.9.1",
    "jupyterlite-core==0.8.6",
    "jupyterlite-pyodide-kernel==0.8.6",
    "pkginfo==2.0",
    "platformdirs==4.14.5",
    "traitlets==5.16.1",
)
_BYTES_NEEDED = 150_000_000
_APPS = ("lab", "notebooks")  # JupyterLab, and a single notebook
_KERNEL = "@jupyterlite/pyodide-kernel-extension:kernel"
# The site's own service worker replaces JupyterLite's, and isolates the page: a page can have only
# one.
_OTHER_WORKER = "@jupyterlite/application-extension:service-worker-manager"
_PYODIDE = Path("runtime") / "pyodide"
_LOCK_NAME = "pyodide-lock.json"
_ALL = "all.json"
_WHEN = "2026-01-01T00:00:00Z"  # a constant date keeps builds of the site identical


def write_notebooks(site: Path, wheel: Path, display: Display) -> list[str]:
    """Write the notebooks into the site; return the paths that only notebooks need."""
    packages = ensure_runtime(display, _PACKAGES, _LOCK)
    python = _python(display)
    folder = site / build_site.NOTEBOOKS
    with display.stage("JupyterLite"):
        _run_jupyterlite(python, folder)
        _add_contents(folder)
        for app in ("", *_APPS):
            build_site.register_worker(folder / app / "index.html", site)
    return [f"{build_site.NOTEBOOKS}/", *_add_packages(site, packages / "pyodide", wheel)]


def _python(display: Display) -> Path:
    made = PinnedVenv(_ENVIRONMENT, "The environment for notebooks", _PINNED, _BYTES_NEEDED)
    if not made.is_ready():
        display.line("Setting up the environment for notebooks (once)")

        def install() -> None:
            with display.stage("JupyterLite from PyPI"):
                hint = "Check the network connection and pip's settings, then run this again."
                made.pip_install(_PINNED, "--only-binary=:all:", "JupyterLite", hint)

        made.make(display, install)
    return made.python


def _run_jupyterlite(python: Path, folder: Path) -> None:
    """Build in a separate folder: JupyterLite reads settings from the current folder."""
    work = folder.with_name("jupyterlite-work")
    work.mkdir()
    settings = {
        "appName": "webpte",
        "contentsAllJsonFile": _ALL,
        "disabledExtensions": [_OTHER_WORKER],
        # Relative to this file, for any address of the site.
        "litePluginSettings": {
            _KERNEL: {
                "pyodideUrl": "./../runtime/pyodide/pyodide.mjs",
                "disablePyPIFallback": False,
            }
        },
    }
    config = {"jupyter-lite-schema-version": 0, "jupyter-config-data": settings}
    (work / "jupyter-lite.json").write_text(json.dumps(config), encoding="utf-8")
    command = [str(python), "-m", "jupyter", "lite", "build", "--output-dir", str(folder)]
    command += ["--no-sourcemaps", "--no-unused-shared-packages"]
    command += [option for app in _APPS for option in ("--apps", app)]
    try:
        run_tool(command, "the build of JupyterLite", cwd=work)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _add_contents(folder: Path) -> None:
    """Write the files, and the list of them in the form of Jupyter's contents API."""
    listed = []
    (folder / "files").mkdir(exist_ok=True)
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        shutil.copy(path, folder / "files" / path.name)
        listed.append(_model(path.name, "notebook", size=path.stat().st_size))
    api = folder / "api" / "contents"
    api.mkdir(parents=True, exist_ok=True)
    text = json.dumps({**_model("", "directory"), "content": listed, "format": "json"})
    (api / _ALL).write_text(text, encoding="utf-8")


def _model(name: str, kind: str, **more: Any) -> dict[str, Any]:
    fixed = {"created": _WHEN, "last_modified": _WHEN, "mimetype": None, "writable": True}
    return {
        "name": name,
        "path": name,
        "type": kind,
        "format": None,
        "content": None,
        **fixed,
        **more,
    }


def _add_packages(site: Path, packages: Path, wheel: Path) -> list[str]:
    """Add packages to Pyodide's lock, so that the kernel loads them on import."""
    place = site / _PYODIDE
    lock = json.loads((place / _LOCK_NAME).read_text(encoding="utf-8"))
    more = json.loads((packages / _LOCK_NAME).read_text(encoding="utf-8"))["packages"]
    added = []
    for name, entry in more.items():
        if name not in lock["packages"]:
            lock["packages"][name] = entry
            shutil.copy(packages / entry["file_name"], place)
            added.append((_PYODIDE / entry["file_name"]).as_posix())
    lock["packages"]["webpte"] = _entry(wheel)
    shutil.copy(wheel, place)
    added.append((_PYODIDE / wheel.name).as_posix())
    (place / _LOCK_NAME).write_text(json.dumps(lock, indent=1), encoding="utf-8")
    return added


def _entry(wheel: Path) -> dict[str, Any]:
    """Return webpte's entry for Pyodide's lock."""
    return {
        "depends": ["flatbuffers", "numpy"],
        "file_name": wheel.name,
        "imports": ["webpte"],
        "install_dir": "site",
        "name": "webpte",
        "package_type": "package",
        "sha256": hashlib.sha256(wheel.read_bytes()).hexdigest(),
        "unvendored_tests": False,
        "version": wheel.name.split("-")[1],
    }

"""The virtual environment for tests and verify, in `.webpte/venv`.

It is made once: a stamp holds the Python and the pinned packages that it was made for. pip of the
running Python installs into it, so that a system Python without `ensurepip` will do.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

from webpte_host import chromium, vulkan
from webpte_host.errors import HostError
from webpte_host.layout import PYSRC, ROOT, STATE, VENV
from webpte_host.process import pip_command, run_tool
from webpte_host.progress import Display, megabytes
from webpte_host.runtime import ensure_runtime

_STAMP = "webpte-stamp"
_PLAYWRIGHT_PATH = (
    "from playwright.sync_api import sync_playwright\n"
    "with sync_playwright() as playwright: print(playwright.chromium.executable_path)"
)


def requirements() -> list[str]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    pinned: list[str] = project["optional-dependencies"]["test"]
    return pinned


def venv_python() -> Path:
    return VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def inside() -> bool:
    """Whether this process already runs in the environment."""
    return Path(sys.prefix).resolve() == VENV.resolve()


def ensure(*, with_browser: bool = True, with_driver: bool = False) -> Path:
    """Packages, a driver, Chromium and the browser runtime; returns the environment's Python."""
    display = Display()
    _ensure_venv(display)
    if with_driver:
        vulkan.ensure(display)
    if with_browser:
        if chromium.find() is None:
            chromium.ensure(display, venv_python(), _playwright_chromium())
        ensure_runtime(display)
    return venv_python()


def _ensure_venv(display: Display) -> None:
    if inside():
        return
    pinned = requirements()
    stamp = hashlib.sha256(
        "\n".join([sys.version, sys.base_prefix, str(VENV), *pinned]).encode()
    ).hexdigest()
    try:
        if (VENV / _STAMP).read_text() == stamp and venv_python().exists():
            return
    except OSError:
        pass
    display.line("Setting up the test environment (once)")
    try:
        _make_venv(display, pinned)
        (VENV / _STAMP).write_text(stamp)
    except OSError as error:
        shutil.rmtree(VENV, ignore_errors=True)
        raise HostError(
            f"The test environment could not be written to {VENV}: {error}.\n"
            f"The folder must be writable, with {megabytes(600_000_000)} free on its disk."
        ) from error
    except BaseException:
        shutil.rmtree(VENV, ignore_errors=True)
        raise


def _make_venv(display: Display, pinned: list[str]) -> None:
    STATE.mkdir(parents=True, exist_ok=True)
    with display.stage(f"Python {sys.version.split()[0]} environment"):
        venv.create(VENV, clear=True, with_pip=False, symlinks=os.name != "nt")
    command = [*pip_command(), "--python", str(venv_python()), "install", "--no-input"]
    command += ["--disable-pip-version-check", "--only-binary=:all:", *pinned]
    with display.stage(f"{len(pinned)} test packages from PyPI"):
        hint = "Check the network connection and pip's settings, then run this again."
        run_tool(command, "pip install of the test packages", cwd=ROOT, hint=hint)


def _playwright_chromium() -> Path | None:
    """Where Playwright would have its own Chromium."""
    result = subprocess.run(
        [venv_python(), "-c", _PLAYWRIGHT_PATH], capture_output=True, text=True, check=False
    )
    return Path(result.stdout.strip()) if result.returncode == 0 else None


def rerun_inside(arguments: list[str], *, with_browser: bool) -> int:
    """Run `serve.py` with these arguments in the environment; replaces this process if it can."""
    python = str(ensure(with_browser=with_browser))
    command = [python, str(ROOT / "serve.py"), *arguments]
    if os.name == "posix":
        sys.stdout.flush()
        os.execv(python, command)
    return subprocess.call(command)


def tool_environment() -> dict[str, str]:
    """For child processes in the environment: they import from the source tree."""
    return {**os.environ, "PYTHONPATH": str(PYSRC)}

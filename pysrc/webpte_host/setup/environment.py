"""The virtual environment of the commands that run programs, and of the tests: `.webpte/venv`.

The environment is created once, with the packages that pyproject.toml pins: see pinned_venv.py.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from webpte_host.base.layout import PYSRC, ROOT, RUNTIME, VENV
from webpte_host.base.pinned_venv import PinnedVenv
from webpte_host.base.progress import Display
from webpte_host.setup import chromium, firefox, vulkan
from webpte_host.setup.runtime import ensure_runtime

_PLAYWRIGHT_PATH = (
    "from playwright.sync_api import sync_playwright\n"
    "with sync_playwright() as playwright: print(playwright.chromium.executable_path)"
)


def requirements(extra: str = "test") -> list[str]:
    """Return the packages of an extra of pyproject.toml."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    pinned: list[str] = project["optional-dependencies"][extra]
    return pinned


def pinned(names: Iterable[str]) -> tuple[str, ...]:
    """Return some of the test packages, by name, with their versions."""
    pins = {pin.partition("==")[0]: pin for pin in requirements()}
    return tuple(pins[name] for name in names)


def _venv() -> PinnedVenv:
    return PinnedVenv(VENV, "webpte's environment", tuple(requirements()), 600_000_000)


def venv_python() -> Path:
    return _venv().python


def inside() -> bool:
    """Return whether this process already runs in the environment."""
    return Path(sys.prefix).resolve() == VENV.resolve()


def ensure(
    *,
    with_browser: bool = True,
    with_runtime: bool = False,
    with_driver: bool = False,
    with_firefox: bool = False,
) -> Path:
    """Set up the environment, and on request a driver or browsers with their runtime.

    with_runtime  the browser runtime alone, as with_browser sets it up

    Returns the environment's Python.
    """
    display = Display()
    with_runtime |= with_browser
    with _runtime_ahead(with_runtime):
        _ensure_venv(display)
    if with_driver:
        vulkan.ensure(display)
    if with_browser and chromium.find() is None:
        chromium.ensure(display, venv_python(), _playwright_chromium())
    if with_runtime:
        ensure_runtime(display)
    if with_firefox:
        firefox.ensure(display)
    return venv_python()


@contextmanager
def _runtime_ahead(wanted: bool) -> Iterator[None]:
    """Set up a missing runtime in another process, while pip keeps this process waiting.

    The process says nothing: after a failure, `ensure_runtime` tries again, and reports.
    """
    if not wanted or RUNTIME.exists() or inside() or _venv().is_ready():
        yield
        return
    quiet = subprocess.DEVNULL
    command = [sys.executable, str(ROOT / "serve.py"), "setup"]
    process = subprocess.Popen(command, cwd=ROOT, stdin=quiet, stdout=quiet, stderr=quiet)
    try:
        yield
    except BaseException:
        process.terminate()
        raise
    finally:
        process.wait()


def _ensure_venv(display: Display) -> None:
    made = _venv()
    if not inside() and not made.is_ready():
        install_pinned(made, display, "webpte's environment in .webpte/venv")


def install_pinned(made: PinnedVenv, display: Display, name: str) -> None:
    """Create an environment with its packages, from PyPI alone. Raises HostError."""

    def install() -> None:
        with display.stage(f"{len(made.packages)} packages from PyPI"):
            hint = "Check the network connection and pip's settings, then run this again."
            made.pip_install(made.packages, "--only-binary=:all:", "the packages", hint)

    display.line(f"Setting up {name} (once)")
    made.make(display, install)


def _playwright_chromium() -> Path | None:
    """Return the path of Playwright's own Chromium, installed or not."""
    result = subprocess.run(
        [venv_python(), "-c", _PLAYWRIGHT_PATH], capture_output=True, text=True, check=False
    )
    return Path(result.stdout.strip()) if result.returncode == 0 else None


def rerun_inside(arguments: list[str], *, with_browser: bool) -> int:
    """Run `serve.py` with these arguments in the environment; replaces this process if it can."""
    return rerun_with(ensure(with_browser=with_browser), arguments)


def rerun_with(python: Path, arguments: list[str]) -> int:
    """Run `serve.py` with these arguments by another Python, as `rerun_inside` does."""
    command = [str(python), str(ROOT / "serve.py"), *arguments]
    if os.name == "posix":
        sys.stdout.flush()
        os.execv(command[0], command)
    return subprocess.call(command)


def tool_environment() -> dict[str, str]:
    """Return the variables of child processes, which import from the source tree."""
    return {**os.environ, "PYTHONPATH": str(PYSRC)}

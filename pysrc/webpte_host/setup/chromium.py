"""Finds or installs a full Chromium, and holds the flags that it needs for WebGPU.

The small "headless shell" builds have no WebGPU, so the full browser is needed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from webpte_host.base.errors import HostError
from webpte_host.base.process import run_tool
from webpte_host.base.progress import Display
from webpte_host.setup import apt

ENVIRONMENT_VARIABLE = "WEBPTE_CHROMIUM"
ADAPTER_VARIABLE = "WEBPTE_ADAPTER"
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_MAC_PATHS = (
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)
_START_SECONDS = 300  # only a browser that hangs takes that long, even on a busy machine

ADAPTERS = ("swiftshader", "hardware")
NO_ADAPTER = "none"  # a browser without WebGPU, whatever the machine has


def flags(adapter: str = "swiftshader") -> list[str]:
    """Return the flags: `swiftshader` runs WebGPU on the CPU, `hardware` on the GPU."""
    chosen = [
        "--headless=new",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        # Long dispatches are normal here, above all on the CPU.
        "--disable-gpu-watchdog",
        "--disable-gpu" if adapter == NO_ADAPTER else "--enable-unsafe-webgpu",
    ]
    if adapter == "swiftshader":
        chosen.append("--use-webgpu-adapter=swiftshader")
    if adapter == "hardware":
        chosen.append("--ignore-gpu-blocklist")
        if sys.platform == "linux":
            # Works without an X server: ANGLE on Vulkan, with no surface.
            chosen += ["--use-angle=vulkan", "--enable-features=Vulkan", "--disable-vulkan-surface"]
            # Chromium does not offer f16 on NVIDIA's driver by default.
            chosen.append("--enable-dawn-features=vulkan_enable_f16_on_nvidia")
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        chosen.append("--no-sandbox")
    return chosen


def chosen_adapter(adapter: str | None = None) -> str:
    """Return the requested adapter: the argument, or else the environment variable's."""
    return adapter or os.environ.get(ADAPTER_VARIABLE) or "swiftshader"


def launch_options(adapter: str | None = None, *more: str) -> dict[str, Any]:
    """Return the options of Playwright's `launch`, with which every browser here is started.

    adapter  as for `chosen_adapter`
    more     flags besides those for the adapter
    """
    adapter = chosen_adapter(adapter)
    path = find()
    # Playwright selects its own software renderer for WebGL, which hides the real GPU.
    ignored = ["--enable-unsafe-swiftshader"] if adapter == "hardware" else []
    return {
        "executable_path": path,
        # Selects Playwright's own full browser; the default is the headless shell.
        "channel": None if path else "chromium",
        "args": [*flags(adapter), *more],
        "ignore_default_args": ignored,
    }


def find() -> str | None:
    """Return the path of an installed Chromium that starts, or None; not Playwright's own."""
    named = os.environ.get(ENVIRONMENT_VARIABLE)
    if named:
        if not _starts(named):
            raise HostError(
                f"{ENVIRONMENT_VARIABLE} is set to {named}, which does not start as a browser.\n"
                "Set it to the path of a full Chromium or Chrome, or unset it."
            )
        return named
    candidates = [path for name in _NAMES if (path := shutil.which(name))]
    if sys.platform == "darwin":
        candidates += [path for path in _MAC_PATHS if Path(path).exists()]
    return next((path for path in candidates if _starts(path)), None)


def _starts(path: str) -> bool:
    """Tell whether a browser starts: Ubuntu's `chromium-browser` may only point to a snap."""
    try:
        result = subprocess.run(
            [path, "--version"], capture_output=True, timeout=_START_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return result.returncode == 0 and b"Chrom" in result.stdout


def ensure(display: Display, python: Path, playwright_path: Path | None) -> None:
    """Install a browser if `find` finds none. `python` is a Python with Playwright."""
    if playwright_path is not None and playwright_path.exists():
        return
    if apt.install(display, "chromium", "Chromium") and find() is not None:
        return
    command = [str(python), "-m", "playwright", "install", "chromium", "--no-shell"]
    hint = (
        "The browser tests need Chromium: install it with your system's package manager, "
        f"or set {ENVIRONMENT_VARIABLE} to the path of one, then run this again."
    )
    with display.stage("Chromium from Playwright"):
        run_tool(command, "playwright install chromium", cwd=Path.cwd(), hint=hint)

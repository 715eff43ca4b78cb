"""Finds or installs a full Chromium, and holds the flags that it needs for WebGPU.

The small "headless shell" builds have no WebGPU, so the full browser is needed.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from webpte_host.base.process import run_tool
from webpte_host.base.progress import Display
from webpte_host.setup import apt
from webpte_host.setup.installed_browser import InstalledBrowser

ENVIRONMENT_VARIABLE = "WEBPTE_CHROMIUM"
ADAPTER_VARIABLE = "WEBPTE_ADAPTER"
_BROWSER = InstalledBrowser(
    variable=ENVIRONMENT_VARIABLE,
    commands=("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"),
    mac_paths=(
        "/Applications/Chromium.app/Contents/MacOS/Chromium",
        "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    ),
    banner=b"Chrom",
    wanted="a full Chromium or Chrome",
)

ADAPTERS = ("swiftshader", "hardware")
NO_ADAPTER = "none"  # without WebGPU on any machine


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
    """Return the options of Playwright's `launch`, which start every browser here.

    adapter  as for `chosen_adapter`
    more     flags besides the adapter's
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
    return _BROWSER.find()


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

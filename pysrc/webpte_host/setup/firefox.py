"""Finds or installs Firefox, and holds the preferences that it needs for WebGPU without a screen.

Firefox on Linux has WebGPU behind preferences; it runs on a GPU's Vulkan driver or on Mesa's
lavapipe (vulkan.py).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from webpte_host.base.errors import HostError
from webpte_host.base.progress import Display
from webpte_host.setup import apt

ENVIRONMENT_VARIABLE = "WEBPTE_FIREFOX"
_NAMES = ("firefox-esr", "firefox")
_MAC_PATH = "/Applications/Firefox.app/Contents/MacOS/firefox"
_PACKAGE = "firefox-esr"
_START_SECONDS = 300  # only a browser that hangs takes that long, even on a busy machine

PREFERENCES = (
    "dom.webgpu.enabled",
    "dom.webgpu.workers.enabled",
    "gfx.webgpu.ignore-blocklist",
    # Linux has no GPU process: WebGPU runs in the browser's own.
    "dom.webgpu.allow-in-parent",
)

MISSING = f"""\
no Firefox is installed, so nothing is tested in Firefox. Debian's package is called {_PACKAGE};
{ENVIRONMENT_VARIABLE} may name another one."""


def find() -> str | None:
    """Return the path of an installed Firefox that starts, or None."""
    named = os.environ.get(ENVIRONMENT_VARIABLE)
    if named:
        if not _starts(named):
            raise HostError(
                f"{ENVIRONMENT_VARIABLE} is set to {named}, which does not start as a browser.\n"
                "Set it to the path of a Firefox, or unset it."
            )
        return named
    candidates = [path for name in _NAMES if (path := shutil.which(name))]
    if sys.platform == "darwin" and Path(_MAC_PATH).exists():
        candidates.append(_MAC_PATH)
    return next((path for path in candidates if _starts(path)), None)


def _starts(path: str) -> bool:
    """Tell whether a browser starts: Ubuntu's `firefox` may only point to a snap."""
    try:
        result = subprocess.run(
            [path, "--version"], capture_output=True, timeout=_START_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return result.returncode == 0 and b"Firefox" in result.stdout


def ensure(display: Display) -> None:
    """Install Firefox if there is none; prints a note if that is not possible."""
    if find() is None and not (apt.install(display, _PACKAGE, "Firefox") and find()):
        display.line("  " + MISSING.replace("\n", "\n  "))


def write_preferences(profile: Path) -> None:
    """Write the preferences of a new profile."""
    lines = [f'user_pref("{name}", true);\n' for name in PREFERENCES]
    (profile / "user.js").write_text("".join(lines), encoding="utf-8")

"""Finds or installs Firefox, and holds the preferences that it needs for WebGPU without a screen.

Firefox on Linux has WebGPU behind preferences; it runs on a GPU's Vulkan driver or on Mesa's
lavapipe (vulkan.py).
"""

from __future__ import annotations

from pathlib import Path

from webpte_host.base.progress import Display
from webpte_host.setup import apt
from webpte_host.setup.installed_browser import InstalledBrowser

ENVIRONMENT_VARIABLE = "WEBPTE_FIREFOX"
_PACKAGE = "firefox-esr"
_BROWSER = InstalledBrowser(
    variable=ENVIRONMENT_VARIABLE,
    commands=("firefox-esr", "firefox"),
    mac_paths=("/Applications/Firefox.app/Contents/MacOS/firefox",),
    banner=b"Firefox",
    wanted="a Firefox",
)

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
    return _BROWSER.find()


def ensure(display: Display) -> None:
    """Install Firefox if it is missing; prints a note if that is not possible."""
    if find() is None and not (apt.install(display, _PACKAGE, "Firefox") and find()):
        display.line("  " + MISSING.replace("\n", "\n  "))


def write_preferences(profile: Path) -> None:
    """Write the preferences of a new profile."""
    lines = [f'user_pref("{name}", true);\n' for name in PREFERENCES]
    (profile / "user.js").write_text("".join(lines), encoding="utf-8")

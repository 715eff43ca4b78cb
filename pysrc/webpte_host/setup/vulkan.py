"""A Vulkan driver for `device="native"` in tests: the GPU's own, or Mesa's lavapipe on the CPU."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path

from webpte_host.base.progress import Display
from webpte_host.setup import apt

# The folders where drivers are registered. The variables name a driver directly.
_FOLDERS = ("/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d", "/usr/local/share/vulkan/icd.d")
_VARIABLES = ("VK_DRIVER_FILES", "VK_ICD_FILENAMES")

_PACKAGE = "mesa-vulkan-drivers"
_WITHOUT = """\
  No Vulkan driver is installed, and none could be installed: kernels are tested in the browser
  only, and f16 not at all. Debian's package is called mesa-vulkan-drivers."""


def has_driver() -> bool:
    named = any(name in os.environ for name in _VARIABLES)
    return named or any(any(Path(folder).glob("*.json")) for folder in _FOLDERS)


def ensure(display: Display) -> None:
    """Install lavapipe if a driver is missing; prints a note if that is not possible."""
    if sys.platform != "linux" or has_driver():
        return
    # On ARM64 lavapipe supports f16 from Mesa 23 on, which older releases of Debian lack.
    installers = [apt.install_backport] if platform.machine() in ("aarch64", "arm64") else []
    for install in [*installers, apt.install]:
        if install(display, _PACKAGE, "A Vulkan driver (lavapipe)"):
            return
    display.line(_WITHOUT)

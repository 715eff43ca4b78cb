"""Packages of Debian and its kin, where this process may install them."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

from webpte_host.errors import HostError
from webpte_host.process import run_tool
from webpte_host.progress import Display


def install(display: Display, package: str, title: str) -> bool:
    """Whether the package is there afterwards; False where there is no apt, or no right to it."""
    apt = shutil.which("apt-get")
    if apt is None or os.geteuid() != 0:
        return False
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    with display.stage(f"{title} from the system's packages") as stage:
        # An update fails for one bad source of many; what the lists have may still do.
        with contextlib.suppress(HostError):
            run_tool([apt, "update"], "apt-get update", cwd=Path("/"), env=quiet)
        try:
            command = [apt, "install", "-y", "--no-install-recommends", package]
            run_tool(command, f"apt-get install {package}", cwd=Path("/"), env=quiet)
        except HostError:
            stage.outcome = "not available"
            return False
    return True

"""Finds a browser that is installed on this machine and starts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from webpte_host.base.errors import HostError

_START_SECONDS = 300  # only a hanging browser takes that long, even on a busy machine


@dataclass(frozen=True)
class InstalledBrowser:
    """A kind of browser: the places to look for it, and the means to recognize it.

    variable   the environment variable that may name one
    commands   its names on the path
    mac_paths  its places on macOS
    banner     a part of its output for `--version`
    wanted     the variable's meaning, for people
    """

    variable: str
    commands: tuple[str, ...]
    mac_paths: tuple[str, ...]
    banner: bytes
    wanted: str

    def find(self) -> str | None:
        """Return the path of a working browser, or None; raises HostError if a named one fails."""
        named = os.environ.get(self.variable)
        if named:
            if not self._starts(named):
                raise HostError(
                    f"{self.variable} is set to {named}, which does not start as a browser.\n"
                    f"Set it to the path of {self.wanted}, or unset it."
                )
            return named
        candidates = [path for name in self.commands if (path := shutil.which(name))]
        if sys.platform == "darwin":
            candidates += [path for path in self.mac_paths if Path(path).exists()]
        return next((path for path in candidates if self._starts(path)), None)

    def _starts(self, path: str) -> bool:
        """Return whether a browser starts: on Ubuntu a command may only point to a snap."""
        try:
            result = subprocess.run(
                [path, "--version"], capture_output=True, timeout=_START_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return False
        return result.returncode == 0 and self.banner in result.stdout

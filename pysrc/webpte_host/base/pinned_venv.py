"""Virtual environments of pinned packages, each created once.

A stamp holds the Python version and the packages. An environment without a stamp, whose creation
was interrupted, is deleted. The running Python's pip installs into the environment, so that a
system Python without `ensurepip` works.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import venv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from webpte_host.base.errors import HostError
from webpte_host.base.layout import ROOT
from webpte_host.base.process import pip_command, run_tool
from webpte_host.base.progress import Display, megabytes

_STAMP = "webpte-stamp"


@dataclass(frozen=True)
class PinnedVenv:
    """An environment. `title` begins sentences about it; `bytes_needed` is its size on disk."""

    folder: Path
    title: str
    packages: tuple[str, ...]
    bytes_needed: int

    @property
    def python(self) -> Path:
        return self.folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")

    def is_ready(self) -> bool:
        try:
            return (self.folder / _STAMP).read_text() == self._stamp() and self.python.exists()
        except OSError:
            return False

    def make(self, display: Display, install: Callable[[], None]) -> None:
        """Create an empty environment and `install`; a failure removes it and raises HostError."""
        try:
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            with display.stage(f"Python {sys.version.split()[0]} environment"):
                venv.create(self.folder, clear=True, with_pip=False, symlinks=os.name != "nt")
            install()
            (self.folder / _STAMP).write_text(self._stamp())
        except OSError as error:
            shutil.rmtree(self.folder, ignore_errors=True)
            needed = megabytes(self.bytes_needed)
            raise HostError(
                f"{self.title} could not be written to {self.folder}: {error}.\n"
                f"The folder must be writable, with {needed} free on its disk."
            ) from error
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise

    def pip_install(self, packages: Sequence[str], choice: str, what: str, hint: str) -> None:
        """Install packages; `choice` is pip's option for the builds to use."""
        command = [*pip_command(), "--python", str(self.python), "install", "--no-input"]
        # Most modules are never imported; Python compiles the others at their first import.
        command += ["--disable-pip-version-check", "--no-compile", choice, *packages]
        run_tool(command, f"pip install of {what}", cwd=ROOT, hint=hint)

    def _stamp(self) -> str:
        # The scripts name the folder; checkouts may share it by a link.
        made_for = [sys.version, sys.base_prefix, str(self.folder.resolve()), *self.packages]
        return hashlib.sha256("\n".join(made_for).encode()).hexdigest()

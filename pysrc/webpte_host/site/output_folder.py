"""Folders that a command writes: under a temporary name, and renamed when they are complete."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from webpte_host.base.errors import HostError


@dataclass(frozen=True)
class OutputFolder:
    """A kind of folder.

    kind     its name, for errors
    mark     a file in each such folder, which may then be replaced
    command  the command that writes it
    """

    kind: str
    mark: str
    command: str

    def check(self, out: Path) -> None:
        """Check that the folder is new, empty, or an earlier output, which may be replaced."""
        if not out.exists() or (out / self.mark).is_file():
            return
        if not out.is_dir():
            raise HostError(f"{out} is a file: name a folder for the {self.kind}.")
        if any(out.iterdir()):
            raise HostError(
                f"{out} has files that are not of a {self.kind}: name a folder that is new or "
                f"empty, or an earlier one of {self.command}."
            )

    @contextmanager
    def written(self, out: Path) -> Iterator[Path]:
        """Yield a path to write to, which becomes `out` at the end. Raises HostError."""
        try:
            out.parent.mkdir(parents=True, exist_ok=True)
            # In the same parent folder, and so on the same disk, where renaming suffices.
            with tempfile.TemporaryDirectory(prefix=".webpte-", dir=out.parent) as temporary:
                made = Path(temporary) / "made"
                yield made
                if out.exists():
                    os.rename(out, Path(temporary) / "outdated")
                os.rename(made, out)
        except (OSError, shutil.Error) as error:
            raise HostError(f"the {self.kind} could not be written to {out}: {error}.") from error

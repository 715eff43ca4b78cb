"""Runs tools such as npm and pip, and turns their failures into a readable message."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from webpte_host.base.errors import HostError

_TAIL_LINES = 12
_MARKED_LINES = 6
_MARKED = re.compile(r"npm (error|ERR!) \S|ERROR:|[Ee]rror: |E: ")


def run_tool(
    command: Sequence[str],
    what: str,
    *,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    hint: str = "",
) -> None:
    """Run a tool without showing its output; an error shows `what`, the output and `hint`."""
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as log:
        try:
            code = run_logged(command, log, cwd=cwd, env=env)
        except OSError as error:
            raise HostError(f"{what} failed: {command[0]}: {error.strerror}") from error
        if code != 0:
            log.seek(0)
            said = _excerpt(log.read())
            raise HostError(f"{what} failed with exit code {code}:\n{said}\n{hint}".rstrip())


def run_logged(
    command: Sequence[str], log: IO[str], *, cwd: Path, env: Mapping[str, str] | None = None
) -> int:
    """Run a tool and return its exit code; its output goes to `log`. An interrupt ends it."""
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
    )
    try:
        return process.wait()
    except BaseException:
        process.terminate()
        process.wait()
        raise


def _excerpt(output: str) -> str:
    """Return the lines marked as errors, or else the last lines."""
    lines = [line for line in output.splitlines() if line.strip()]
    marked = [line for line in lines if _MARKED.match(line)]
    chosen = marked[:_MARKED_LINES] or lines[-_TAIL_LINES:]
    return "\n".join(f"    {line}" for line in chosen) or "    (no output)"


def npm_command() -> list[str]:
    npm = shutil.which("npm")
    if npm is None:
        raise HostError(
            "npm was not found, which is needed to fetch the browser runtime.\n"
            "Install Node.js (it brings npm; your system's package is called npm or nodejs), "
            "then run this again."
        )
    return [npm]


def pip_command() -> list[str]:
    """Return the command of this interpreter's pip, or of its virtual environment's base."""
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    if sys.prefix != sys.base_prefix:
        found = shutil.which("python3", path=str(Path(sys.base_prefix) / "bin"))
        if found is not None:
            return [found, "-m", "pip"]
    raise HostError(
        f"pip was not found for {sys.executable}.\n"
        "Install it (python3 -m ensurepip --upgrade, or your system's package python3-pip), "
        "then run this again."
    )

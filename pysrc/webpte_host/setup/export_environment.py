"""The environment for exports, in `.webpte/export`: PyTorch, ExecuTorch and their dependencies.

The environment is created once, on first use, and takes minutes and gigabytes (see pinned_venv.py).
An incomplete environment is deleted, but pip keeps its downloads. WEBPTE_EXPORT_PYTHON names the
Python of an existing environment to use instead.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from webpte_host.base.errors import HostError
from webpte_host.base.layout import PYSRC, STATE
from webpte_host.base.pinned_venv import PinnedVenv
from webpte_host.base.progress import Display

SETTING = "WEBPTE_EXPORT_PYTHON"
FOLDER = STATE / "export"

# ExecuTorch needs its torch to be installed first: the CPU build if there are several.
PINNED = (
    "torch==2.13.0",
    "executorch==1.5.1",
    "torchao==0.18.0",
    "transformers==5.22.2",
    "gguf==0.19.0",
    "safetensors==0.8.0",
    "tokenizers==0.23.3",
    "numpy==2.4.6",
    "flatbuffers==25.12.19",
    "jinja2==3.1.6",
)
_BYTES_NEEDED = 6_000_000_000
_CHECK = """
from importlib.util import find_spec
needed = ("torch", "executorch", "torchao", "flatbuffers")
missing = [name for name in needed if not find_spec(name)]
raise SystemExit(f"it has no {', '.join(missing)}" if missing else 0)
"""


def export_python(display: Display | None = None) -> Path:
    """Return the Python for exports; creates its environment if needed. Raises HostError."""
    chosen = os.environ.get(SETTING)
    if chosen:
        return _checked(Path(chosen))
    display = display or Display()
    made = PinnedVenv(FOLDER, "The environment for exports", PINNED, _BYTES_NEEDED)
    if not made.is_ready():
        display.line(
            "Setting up the environment for exports (once; it holds PyTorch and ExecuTorch)"
        )
        made.make(display, lambda: _install(made, display))
    return made.python


def export_variables(*more_paths: Path) -> dict[str, str]:
    """Return variables for the export Python, which can import the project and `more_paths`."""
    before = os.environ.get("PYTHONPATH")
    paths = [str(PYSRC), *map(str, more_paths), *([before] if before else [])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def _checked(python: Path) -> Path:
    """Check that a Python has the packages, without importing them, which would take seconds."""
    try:
        done = subprocess.run([python, "-c", _CHECK], capture_output=True, text=True, check=False)
    except OSError as error:
        raise HostError(
            f"{SETTING} is {python}, which cannot be run: {error.strerror}.\n"
            "Set it to a Python with torch and executorch, or unset it."
        ) from error
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise HostError(
            f"{SETTING} is {python}, which cannot export: {said}.\n"
            f"It needs {PINNED[0]} and {PINNED[1]}; unset the variable to have them installed."
        )
    return python


def _install(made: PinnedVenv, display: Display) -> None:
    torch, *others = PINNED
    for title, packages in (("PyTorch", [torch]), ("ExecuTorch and its like", others)):
        with display.stage(f"{title} from PyPI", measure=_installed_bytes):
            hint = "Check the network connection, pip's settings and the disk, then run this again."
            made.pip_install(packages, "--prefer-binary", title, hint)


def _installed_bytes() -> int:
    """Measure the progress of pip, which writes gigabytes at its end."""
    try:
        return sum(file.stat().st_size for file in FOLDER.rglob("*.so*"))
    except OSError:  # it is being written
        return 0

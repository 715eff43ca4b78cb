"""The environment of `serve.py devices`, in `.webpte/native`.

The environment is created once, with the packages of `device="native"`: without packages for tests,
browsers or texts.
"""

from __future__ import annotations

import sys
from pathlib import Path

from webpte_host.base.layout import STATE
from webpte_host.base.pinned_venv import PinnedVenv
from webpte_host.base.progress import Display
from webpte_host.setup import environment

FOLDER = STATE / "native"
_NEEDED = ("dawn-python", "flatbuffers", "numpy")


def _venv() -> PinnedVenv:
    packages = environment.pinned(_NEEDED)
    return PinnedVenv(FOLDER, "The environment for native devices", packages, 150_000_000)


def inside() -> bool:
    """Return whether this process runs in an environment that can use a native device."""
    return environment.inside() or Path(sys.prefix).resolve() == FOLDER.resolve()


def ensure(display: Display | None = None) -> Path:
    """Return the environment's Python; creates it if needed. Raises HostError."""
    made = _venv()
    if not made.is_ready():
        name = "the environment for native devices in .webpte/native"
        environment.install_pinned(made, display or Display(), name)
    return made.python

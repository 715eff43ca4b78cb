"""The environment for tests on a cluster, in `.webpte/cluster`: Ray, and some test packages.

The environment is created once, for `serve.py test --all`, because Ray takes more room than all
other test packages.
"""

from __future__ import annotations

from pathlib import Path

from webpte_host.base.layout import STATE
from webpte_host.base.pinned_venv import PinnedVenv
from webpte_host.base.progress import Display
from webpte_host.setup.environment import install_pinned, pinned, requirements

# The test packages that webpte, its API and pytest need; the others are for browsers.
_SHARED = (
    *("dawn-python", "flatbuffers", "jinja2", "llguidance", "numpy", "openai"),
    *("prometheus-client", "pytest", "pytest-timeout", "starlette", "tokenizers", "uvicorn"),
)


def packages() -> tuple[str, ...]:
    """Return the pinned packages."""
    return (*pinned(_SHARED), *requirements("test-ray"))


def ensure(display: Display | None = None) -> Path:
    """Return the environment's Python; creates it if needed. Raises HostError."""
    made = PinnedVenv(STATE / "cluster", "The cluster's environment", packages(), 1_000_000_000)
    if not made.is_ready():
        install_pinned(made, display or Display(), "the environment for tests on a cluster")
    return made.python

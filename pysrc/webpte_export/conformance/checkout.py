"""Imports tests from a source tree of ExecuTorch, and the exporter from the installed package."""

from __future__ import annotations

import importlib
import sys
import unittest
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

from webpte_export.errors import ExportError

# Packages of `executorch.backends` that are tests; everything else is the exporter.
TESTS = ("test", "vulkan.test", "webgpu", "xnnpack.test")


class _TestFinder:
    """A finder on `sys.meta_path` that finds the tests of a source tree, and nothing else."""

    def __init__(self, backends: Path) -> None:
        self._backends = backends

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        inner = name.removeprefix("executorch.backends.")
        if inner == name or not any(f"{inner}.".startswith(f"{test}.") for test in TESTS):
            return None
        folder = self._backends.joinpath(*inner.split(".")[:-1])
        return PathFinder.find_spec(name, [str(folder)], target)


def use_checkout(checkout: Path, folder: str) -> Path:
    """Make the tests of `checkout` importable, skipped tests too; return its backends.

    `folder` is where the tests of a part are, relative to the backends.
    """
    if not (checkout / "backends" / folder).is_dir():
        raise ExportError(
            f"{checkout} has no backends/{folder}; name a source tree of ExecuTorch, such as one "
            "of `git clone https://github.com/pytorch/executorch`."
        )
    importlib.import_module("executorch")
    for name in ("skip", "skipIf", "skipUnless"):
        setattr(unittest, name, lambda *_reasons: lambda test: test)
    sys.meta_path.insert(0, _TestFinder(checkout / "backends"))
    return checkout / "backends"


def modules_under(backends: Path, package: str, pattern: str = "test_*.py") -> list[str]:
    """List the names of all test modules in a package of `executorch.backends`, in order."""
    folder = backends.joinpath(*package.split("."))
    found = []
    for file in sorted(folder.rglob(pattern)):
        inner = file.relative_to(backends).with_suffix("").parts
        found.append(".".join(("executorch.backends", *inner)))
    return found

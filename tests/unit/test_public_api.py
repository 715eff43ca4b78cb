"""The public API is what `docs/public_api.txt` lists: a change to it is seen in review."""

from __future__ import annotations

import difflib
import importlib
import inspect

from support.docs.public_api import FILE, MODULES, public_api

_WRITE = "PYTHONPATH=pysrc:tests python -m support.docs.public_api"


def test_is_what_is_listed() -> None:
    listed, found = FILE.read_text(encoding="utf-8"), public_api()
    changes = difflib.unified_diff(
        listed.splitlines(), found.splitlines(), "listed", "found", n=1, lineterm=""
    )
    assert listed == found, "\n".join(
        [
            f"the public API changed. If that is meant, CHANGELOG.md says so; then run {_WRITE}",
            *changes,
        ]
    )


def test_every_public_class_and_function_is_described() -> None:
    bare = [
        f"{module.__name__}.{name}"
        for module in map(importlib.import_module, MODULES)
        if hasattr(module, "__all__")
        for name in module.__all__
        if not inspect.ismodule(getattr(module, name)) and not _described(getattr(module, name))
    ]
    assert bare == []


def _described(value: object) -> bool:
    """Tell whether a value has a docstring, other than the signature that a dataclass gets."""
    if not callable(value):
        return True
    text = value.__doc__ or ""
    return bool(text) and not text.startswith(f"{getattr(value, '__name__', '')}(")

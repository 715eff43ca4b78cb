"""Operator families: one module per family, each with a WGSL file of the same name.

Importing this package imports every module in it, and so fills the registry: a new family is a
new pair of files and no list to edit.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from webpte.ops.registry import OpDef, definition_of, lookup, registered_names

__all__ = ["OpDef", "definition_of", "lookup", "registered_names"]

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

"""Operators, in folders by kind: a module per family, each with a WGSL file of the same name.

Importing this package imports every module in it, and so fills the registry: a new family is a
new pair of files and no list to edit.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import walk_packages

from webpte.engine.ops.core.registry import OpDef, definition_of, lookup, registered_names

__all__ = ["OpDef", "definition_of", "lookup", "registered_names"]

for _module in walk_packages(__path__, f"{__name__}."):
    import_module(_module.name)

"""Finds all recipes in the modules of `webpte_export.recipes`."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

from webpte_export import recipes
from webpte_export.catalog.recipe import Recipe


def all_recipes() -> dict[str, Recipe]:
    """Return all recipes by name."""
    found = [module.RECIPE for module in _modules()]
    return {recipe.name: recipe for recipe in sorted(found, key=lambda recipe: recipe.name)}


def _modules() -> list[ModuleType]:
    names = [info.name for info in pkgutil.iter_modules(recipes.__path__)]
    return [importlib.import_module(f"{recipes.__name__}.{name}") for name in names]

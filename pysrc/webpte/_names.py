"""Lazy names of packages: a page that runs a classifier imports no line of language models."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


def lazy_names(package: str, places: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package, which imports a name when it is first used.

    places  the module of each name, or the module that the name stands for: "a.b:" imports `a.b`
    """

    def find(name: str) -> Any:
        place = places.get(name)
        if place is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(place.rstrip(":"))
        value = module if place.endswith(":") else getattr(module, name)
        setattr(sys.modules[package], name, value)
        return value

    return find


class ShortNames(MetaPathFinder, Loader):
    """Finder of modules by the short names that users import, such as `webpte.text`."""

    def __init__(self, modules: Mapping[str, str]) -> None:
        self._modules = modules

    def find_spec(
        self, fullname: str, path: object = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname in self._modules else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(self._modules[spec.name])
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # importlib has given the module the spec of its short name.
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state

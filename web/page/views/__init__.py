"""The views of the page, one module each. A module that is put here is found; there is no list."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from page.view import View


def find_views() -> list[View]:
    """The `VIEW` of every module here, in the order of their tabs."""
    found: dict[str, View] = {}
    for module in iter_modules(__path__):
        view = import_module(f"{__name__}.{module.name}").VIEW
        if not isinstance(view, View) or view.name != module.name:
            raise TypeError(f"VIEW of {module.name}.py must be a View named {module.name!r}")
        found[view.name] = view
    return sorted(found.values(), key=lambda view: (view.order, view.name))

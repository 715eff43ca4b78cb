"""The views of the page, one module each. A module that is put here is found; there is no list."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from pkgutil import iter_modules

from page.view import View


@dataclass
class Found:
    """`views` in the order of their tabs; `problems`: by module, what is wrong with it."""

    views: list[View] = field(default_factory=list)
    problems: dict[str, Exception] = field(default_factory=dict)


def find_views() -> Found:
    """The `VIEW` of every module here. One that cannot be had is nobody else's trouble."""
    found = Found()
    for module in iter_modules(__path__):
        try:
            found.views.append(_view_of(module.name))
        except Exception as error:
            found.problems[module.name] = error
    found.views.sort(key=lambda view: (view.order, view.name))
    for view, following in zip(found.views, found.views[1:], strict=False):
        if view.order == following.order:
            found.problems[following.name] = ValueError(
                f"order={view.order} is that of {view.name}.py already: no two views may have the "
                "same, so give it another one"
            )
    return found


def _view_of(name: str) -> View:
    module = import_module(f"{__name__}.{name}")
    view = getattr(module, "VIEW", None)
    if not isinstance(view, View) or view.name != name:
        raise TypeError(f"VIEW of {name}.py must be a View named {name!r}")
    return view

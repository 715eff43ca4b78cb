"""The views of the page, one folder each, found by their place."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from pkgutil import iter_modules

from page.views.view import View


@dataclass
class FoundViews:
    """The views in the order of their tabs; `problems`: errors by module."""

    views: list[View] = field(default_factory=list)
    problems: dict[str, Exception] = field(default_factory=dict)


def find_views() -> FoundViews:
    """Find the `VIEW` of every `panel` module; a module that fails does not hide the others."""
    found = FoundViews()
    for module in iter_modules(__path__):
        if not module.ispkg or module.name.startswith("_"):  # `_skeleton` is one to copy
            continue
        try:
            found.views.append(_view_of(module.name))
        except Exception as error:
            found.problems[module.name] = error
    found.views.sort(key=lambda view: (view.order, view.name))
    for view, following in zip(found.views, found.views[1:], strict=False):
        if view.order == following.order:
            found.problems[following.name] = ValueError(
                f"order={view.order} is that of {view.name}/ already: no two views may have the "
                "same, so give it another one"
            )
    return found


def _view_of(name: str) -> View:
    module = import_module(f"{__name__}.{name}.panel")
    view = getattr(module, "VIEW", None)
    if not isinstance(view, View) or view.name != name:
        raise TypeError(f"VIEW of {name}/panel.py must be a View named {name!r}")
    return view

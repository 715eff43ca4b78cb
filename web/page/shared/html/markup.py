"""HTML by functions, escaped by default; and fields with their labels.

Names, shapes and messages come from untrusted files. So every string is escaped unless it is an
`Html`, which only `h` and `render` make.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape

_VOID = frozenset({"br", "hr", "img", "input"})


class Html(str):
    """A string that is markup already, and is not escaped."""

    __slots__ = ()


def render(children: Iterable[object]) -> Html:
    """Join children: None and False vanish, lists are flattened, the rest is escaped.

    A string is one child, not as many as it has letters.
    """
    parts: list[str] = []
    for child in (children,) if isinstance(children, str) else children:
        if child is None or child is False:
            continue
        if isinstance(child, Html):
            parts.append(child)
        elif isinstance(child, str | int | float):
            parts.append(escape(str(child)))
        elif isinstance(child, Iterable):
            parts.append(render(child))
        else:
            raise TypeError(f"{type(child).__name__} cannot be shown")
    return Html("".join(parts))


def h(name: str, /, *children: object, **attributes: object) -> Html:
    """Return an element. `class_` is class, `data_act` is data-act, True is a bare attribute."""
    opening = [name]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        attribute = key.rstrip("_").replace("_", "-")
        opening.append(attribute if value is True else f'{attribute}="{escape(str(value))}"')
    start = f"<{' '.join(opening)}>"
    if name in _VOID:
        return Html(start)
    return Html(f"{start}{render(children)}</{name}>")


# ---- fields


def labelled(label: str, control: Html, kind: str | None = None) -> Html:
    """Return a field with its label; `kind` is a CSS class of both, such as "inline"."""
    return h("label", h("span", label, class_="label"), control, class_=kind)


def choice(
    label: str,
    options: Mapping[str, str],
    chosen: str,
    kind: str | None = None,
    /,
    **attributes: object,
) -> Html:
    """Return a labelled select: `options` maps each value to its text.

    `attributes` belong to the select.
    """
    listed = [h("option", text, value=key, selected=key == chosen) for key, text in options.items()]
    return labelled(label, h("select", listed, **attributes), kind)


def marked(problem: str, below: str) -> dict[str, str]:
    """Return `aria-invalid` attributes for a refused value, else {}.

    `below` is the id of its `problem_note`.
    """
    return {"aria_invalid": "true", "aria_describedby": below} if problem else {}


def problem_note(problem: str, below: str) -> Html:
    """Return the place, of this id, for the problem of a field; without text if nothing
    is."""
    return h("p", problem, id=below, class_="field-problem", aria_live="polite")

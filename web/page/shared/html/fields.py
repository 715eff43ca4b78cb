"""Fields with their labels, and with what is wrong with them."""

from __future__ import annotations

from collections.abc import Mapping

from page.shared.html.markup import Html, h


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

    `attributes` are those of the select.
    """
    listed = [h("option", text, value=key, selected=key == chosen) for key, text in options.items()]
    return labelled(label, h("select", listed, **attributes), kind)


def marked(problem: str, below: str) -> dict[str, str]:
    """Return the attributes of a field whose value is refused, none for one that is taken.

    `below` is the id of its `problem_note`.
    """
    return {"aria_invalid": "true", "aria_describedby": below} if problem else {}


def problem_note(problem: str, below: str) -> Html:
    """Return the place, of this id, that says what is wrong with a field; without text if nothing
    is."""
    return h("p", problem, id=below, class_="field-problem", aria_live="polite")

"""Fields with their labels."""

from __future__ import annotations

from collections.abc import Mapping

from page.html.markup import Html, h


def labelled(label: str, control: Html, kind: str | None = None) -> Html:
    """`kind` is a class of both together, such as "inline"."""
    return h("label", h("span", label, class_="label"), control, class_=kind)


def choice(
    label: str,
    options: Mapping[str, str],
    chosen: str,
    kind: str | None = None,
    /,
    **attributes: object,
) -> Html:
    """One of several: `options` has the text that is read for each value that is sent.

    `attributes` are those of the select.
    """
    listed = [h("option", text, value=key, selected=key == chosen) for key, text in options.items()]
    return labelled(label, h("select", listed, **attributes), kind)

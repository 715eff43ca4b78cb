"""The empty state of a view: a sketch of what will be there, one sentence, and one action."""

from __future__ import annotations

from page.shared.html.markup import Html, h

# Paths in a box of 160 by 72: bars are thick lines.
_BARS = {
    "bench": "M10 16H124 M10 36H150 M10 56H74",
    "profile": "M10 14H38 M54 14H118 M30 36H64 M92 36H112 M66 58H84 M118 58H150",
}
_LINES = {
    "documents": "M44 6H94L116 28V66H44Z M94 6V28H116 M58 38H102 M58 50H102",
    "compare": "M10 14H64 M10 36H64 M10 58H64 M96 14H150 M96 58H150 M114 28l16 16M130 28l-16 16",
    "chat": "M10 8H92V34H28L18 44V34H10Z M68 44H150V66H68Z",
    "speech": "M10 36h8 M26 26v20 M38 14v44 M50 22v28 M62 32v8 M84 24H150 M84 40H150 M84 56H118",
    "train": "M10 10V64H150 M18 18C36 50 70 56 146 58",
}
_RUN = "M10 20H50V52H10Z M58 36H98 M90 28l8 8-8 8 M106 20H150V52H106Z"


def sketch(view: str) -> Html:
    """Return the sketch of a view; for most views it is a run."""
    path = _BARS.get(view) or _LINES.get(view, _RUN)
    kind = "sketch sketch-bars" if view in _BARS else "sketch"
    return h("svg", h("path", d=path), viewBox="0 0 160 72", class_=kind, aria_hidden="true")


def empty_view(view: str, text: str, *actions: Html | None) -> Html:
    """Return the content of a view that has nothing to show yet."""
    return h("div", sketch(view), h("p", text, class_="soft"), *actions, class_="empty")

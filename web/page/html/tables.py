"""Tables in boxes that scroll, so that none is wider than the page."""

from __future__ import annotations

from collections.abc import Sequence

from page.html.markup import Html, h


def scrolled(label: str, *inside: object, kind: str = "") -> Html:
    """`label` is for who does not see it; with a focus of its own, keys scroll it too."""
    return h(
        "div",
        inside,
        class_=f"{kind} grid-box".lstrip(),
        tabindex="0",
        role="region",
        aria_label=label,
    )


def table(caption: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Html:
    """The first column names its row; all others are numbers."""
    head, *heads = headings
    return scrolled(
        caption,
        h(
            "table",
            h("caption", caption),
            h(
                "thead",
                h(
                    "tr",
                    h("th", head, scope="col"),
                    [h("th", text, scope="col", class_="number") for text in heads],
                ),
            ),
            h(
                "tbody",
                [
                    h(
                        "tr",
                        h("th", name, scope="row"),
                        [h("td", text, class_="number") for text in cells],
                    )
                    for name, *cells in rows
                ],
            ),
        ),
        kind="number-table",
    )

"""Tables in boxes that scroll, so that none is wider than the page."""

from __future__ import annotations

from collections.abc import Sequence

from page.shared.html.markup import Html, h


def scrolled(label: str, *inside: object, kind: str = "") -> Html:
    """Return content in a box that scrolls, by keys too; `label` is its accessible name."""
    return h(
        "div",
        inside,
        class_=f"{kind} grid-box".lstrip(),
        tabindex="0",
        role="region",
        aria_label=label,
    )


def table(caption: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Html:
    """Return a table whose first column names the row and whose other columns are numbers."""
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

"""The table of several pictures with their answers."""

from __future__ import annotations

from page.sections.batch.picture_batch import BatchRow, PictureBatch
from page.shared.html.markup import Html, h
from page.shared.html.tables import scrolled
from page.shared.html.units import count_text, ms_text

HEAD, ROWS = "batch-head", "batch-rows"


def batch_card(batch: PictureBatch, running: bool) -> Html:
    """Return the card; rows that come later are appended to `ROWS`."""
    heads = ("picture", "name", "answer")
    columns = [h("th", head, scope="col") for head in heads]
    return h(
        "section",
        h("div", batch_head(batch, running), id=HEAD, class_="batch-head"),
        scrolled(
            "Answers by picture",
            h(
                "table",
                h("thead", h("tr", columns, h("th", "time", scope="col", class_="number"))),
                h("tbody", [batch_row(row, at) for at, row in enumerate(batch.rows)], id=ROWS),
            ),
            kind="number-table batch-table",
        ),
        class_="card batch",
        aria_label="Several pictures",
    )


def batch_head(batch: PictureBatch, running: bool) -> Html:
    """Return the heading with the progress, and the buttons."""
    done, total = len(batch.rows), len(batch.files)
    failed = sum(bool(row.error) for row in batch.rows)
    told = [f"{count_text(done)} of {count_text(total)}"]
    if done > 1 and batch.seconds:
        told.append(f"{done / batch.seconds:.1f} per second")
    if failed:
        told.append(f"{count_text(failed)} failed")
    buttons = (
        [h("button", "Cancel", type="button", data_act="cancel")]
        if running
        else [
            h("button", f"Save {kind.upper()}", type="button", data_act="batch-save",
              data_kind=kind)
            for kind in ("csv", "json")
        ]
        + [h("button", "Close", type="button", class_="quiet", data_act="batch-close")]
    )  # fmt: skip
    return h(
        "div",
        h("h2", "Pictures", h("span", " · ".join(told), class_="count")),
        h("div", buttons, class_="controls"),
        # It stays when the work is done, so that nothing below moves.
        h("progress", value=done, max=total, aria_label="Pictures that are answered"),
        class_="batch-bar",
    )


def batch_row(row: BatchRow, at: int) -> Html:
    height, width = row.size
    image = (
        h("img", src=row.thumbnail, alt="", title=f"{width} × {height} pixels")
        if row.thumbnail
        else None
    )
    name = h(
        "button",
        row.name,
        type="button",
        class_="quiet",
        data_act="batch-open",
        data_row=at,
        title=f"Load {row.name} into the input",
    )
    spent = "" if row.ms is None else ms_text(row.ms)
    return h(
        "tr",
        h("td", image),
        h("th", name, scope="row"),
        h("td", _answer(row), class_="batch-answer"),
        h("td", spent, class_="number"),
    )


def _answer(row: BatchRow) -> object:
    if row.error:
        return h("span", row.error, class_="batch-error")
    if not row.scores:
        return row.answer_text()
    best, _, rest = row.answer_text().partition(", ")
    return h("strong", best), h("span", f", {rest}" if rest else "", class_="soft")

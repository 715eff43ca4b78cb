"""The list of what is kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from page.html.markup import Html, h
from page.html.units import bytes_text, plural
from webpte.library import LOCAL, Entry, Usage

_AGES = ((86400, "day"), (3600, "hour"), (60, "minute"))


@dataclass(frozen=True)
class Row:
    """A program, or a file for one, with what belongs to it."""

    entry: Entry
    size: int
    is_open: bool = False
    asked: bool = False  # whether it is really to go


def is_program(entry: Entry) -> bool:
    return entry.name.lower().endswith(".pte")


def summary_text(rows: Sequence[Row], others: Sequence[Entry]) -> str:
    if not rows and not others:
        return "empty"
    told = [plural(len(rows), "program")]
    if others:
        told.append(plural(len(others), "other file"))
    total = sum(row.size for row in rows) + sum(entry.size for entry in others)
    return f"{' and '.join(told)}, {bytes_text(total)}"


def library_view(
    rows: Sequence[Row], others: Sequence[Entry], usage: Usage, now: float
) -> list[Html | None]:
    """`others` are files for programs: tokenizers, examples, labels."""
    if not usage.quota:
        why = "This browser keeps no files for this page: that takes https or localhost."
        return [h("p", why, class_="soft")]
    return [
        h("ul", [_row(row, now) for row in rows], class_="kept") if rows else _EMPTY,
        _others(others) if others else None,
        _usage(usage),
    ]


_EMPTY = h(
    "p",
    "Programs that are opened from an address are kept here, and open again without a network.",
    class_="soft",
)


def _row(row: Row, now: float) -> Html:
    entry = row.entry
    place = "a file of yours" if entry.address.startswith(LOCAL) else urlsplit(entry.address).netloc
    facts = f"{bytes_text(row.size)} · {place} · used {age_text(now - entry.used)}"
    return h(
        "li",
        h(
            "button",
            entry.name,
            type="button",
            class_="quiet kept-name",
            data_act="library-open",
            data_address=entry.address,
            title=entry.address,
            aria_current="true" if row.is_open else None,
        ),
        h("span", facts, class_="soft"),
        _delete_question(entry) if row.asked else _delete_button(row),
        id=f"kept-{_id_of(entry)}",
    )


def _delete_button(row: Row) -> Html:
    return h(
        "button",
        "Delete",
        type="button",
        class_="quiet",
        data_act="library-delete",
        data_address=row.entry.address,
        disabled=row.is_open,
        title="Close it first: it is open" if row.is_open else None,
        aria_label=f"Delete {row.entry.name} from the library",
    )


def _delete_question(entry: Entry) -> Html:
    """No server has what was dropped: it is not to go by a slip."""
    return h(
        "span",
        h("span", "This copy is in no other place that the page knows."),
        h(
            "button",
            "Delete it",
            type="button",
            data_act="library-delete",
            data_address=entry.address,
            data_sure="yes",
        ),
        h("button", "Leave it", type="button", class_="quiet", data_act="library-refresh"),
        class_="kept-question",
    )


def _others(others: Sequence[Entry]) -> Html:
    size = bytes_text(sum(entry.size for entry in others))
    names = ", ".join(sorted({entry.name for entry in others}))
    return h(
        "p",
        h(
            "span",
            f"{plural(len(others), 'file')} for them (tokenizers, examples, labels), {size}",
            title=names,
            class_="soft",
        ),
        h("button", "Delete these", type="button", class_="quiet", data_act="library-tidy"),
        class_="kept-others",
    )


def _usage(usage: Usage) -> Html:
    told = f"This site has {bytes_text(usage.used)} of the {bytes_text(usage.quota)} that it may. "
    if usage.persistent:
        return h("p", told, "The browser deletes nothing of it by itself.", class_="note")
    return h(
        "p",
        told,
        "If the disk gets full, the browser may delete it. ",
        h("button", "Ask it not to", type="button", class_="quiet", data_act="library-persist"),
        class_="note kept-usage",
    )


def age_text(seconds: float) -> str:
    """90 -> "1 minute ago"."""
    for unit, name in _AGES:
        if seconds >= unit:
            return f"{plural(int(seconds // unit), name)} ago"
    return "just now"


def _id_of(entry: Entry) -> str:
    """Markup is patched by ids, so each has one; addresses have too many kinds of characters."""
    return f"{sum(ord(c) * (i + 1) for i, c in enumerate(entry.address)):x}-{entry.size:x}"


def keep_note(name: str, done: int | None, total: int) -> Html:
    """For a program that is a file of this machine; `done` while a copy is being written."""
    if done is not None:
        return h(
            "p",
            f"Keeping a copy of {name}",
            h("progress", value=done, max=max(total, 1), aria_label=f"Keeping {name}"),
            class_="card keep soft",
        )
    return h(
        "p",
        h("span", "A file of yours: after a reload it has to be opened again, unless you "),
        h("button", "keep a copy", type="button", class_="quiet", data_act="library-keep"),
        class_="card keep soft",
    )


def missing_note(name: str) -> Html:
    """After a reload."""
    return h(
        "p",
        f"{name} was open before the page was reloaded. It is a file of yours, which the page can "
        "not open by itself: drop or choose it again, and its inputs are as they were.",
        class_="card keep",
        role="status",
    )

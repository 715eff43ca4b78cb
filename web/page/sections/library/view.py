"""The list of files in the library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from page.shared.html.markup import Html, h
from page.shared.html.units import bytes_text, plural
from webpte.engine.open.library import LOCAL, Entry, Usage

_AGES = ((86400, "day"), (3600, "hour"), (60, "minute"))


@dataclass(frozen=True)
class Row:
    """An entry of the list, with the size of all its files."""

    entry: Entry
    size: int
    is_open: bool = False
    asked: bool = False  # whether it is really to go


def is_program(entry: Entry) -> bool:
    return entry.name.lower().endswith((".pte", ".bpte"))


def summary_text(rows: Sequence[Row], others: Sequence[Entry]) -> str:
    if not rows and not others:
        return "empty"
    told = [plural(len(rows), "program")]
    if others:
        told.append(plural(len(others), "other file"))
    total = sum(row.size for row in rows) + sum(e.size - e.missing for e in others)
    return f"{' and '.join(told)}, {bytes_text(total)}"


def library_view(
    rows: Sequence[Row], others: Sequence[Entry], usage: Usage, now: float
) -> list[Html | None]:
    """Return the list of programs; `others` are tokenizers, examples and labels."""
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
    "Programs opened from a URL are kept here, and open again without a network.",
    class_="soft",
)


def _row(row: Row, now: float) -> Html:
    entry = row.entry
    is_local = entry.address.startswith(LOCAL)
    place = "local file" if is_local else urlsplit(entry.address).netloc
    amount = bytes_text(row.size)
    if entry.missing:
        share = (entry.size - entry.missing) / max(entry.size, 1)
        rest = "drop the file and keep it again" if is_local else "open it to download the rest"
        amount = f"{amount} of {bytes_text(entry.size)} ({share:.0%}); {rest}"
    facts = f"{amount} · {place} · used {age_text(now - entry.used)}"
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
    """Return the question before a local file is deleted, which no server has."""
    return h(
        "span",
        h("span", "This is the only copy that the page knows of."),
        h(
            "button",
            "Delete",
            type="button",
            data_act="library-delete",
            data_address=entry.address,
            data_sure="yes",
        ),
        h("button", "Cancel", type="button", class_="quiet", data_act="library-refresh"),
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
    told = f"Using {bytes_text(usage.used)} of {bytes_text(usage.quota)} available. "
    if usage.persistent:
        return h("p", told, "Storage is permanent.", class_="note")
    return h(
        "p",
        told,
        "The browser may delete it when the disk is full. ",
        h(
            "button",
            "Make storage permanent",
            type="button",
            class_="quiet",
            data_act="library-persist",
        ),
        class_="note kept-usage",
    )


def age_text(seconds: float) -> str:
    """Return an age: 90 -> "1 minute ago"."""
    for unit, name in _AGES:
        if seconds >= unit:
            return f"{plural(int(seconds // unit), name)} ago"
    return "just now"


def _id_of(entry: Entry) -> str:
    """Return an id for an entry, which patching needs; addresses are not usable as ids."""
    return f"{sum(ord(c) * (i + 1) for i, c in enumerate(entry.address)):x}-{entry.size:x}"


def _keeping(name: str, done: int, total: int) -> Html:
    return h(
        "p",
        f"Keeping a copy of {name}",
        h("progress", value=done, max=max(total, 1), aria_label=f"Keeping {name}"),
        class_="card keep soft",
    )


def agree_note(name: str, size: int, origin: str, done: int | None, total: int) -> Html:
    """Return the question below a program of another site that a link named."""
    if done is not None:
        return _keeping(name, done, total)
    told = f"A link opened {name} from {origin}. It is not in the library: after a reload it is "
    return h(
        "p",
        h("span", f"{told}fetched again. "),
        h("button", f"Keep it ({bytes_text(size)})", type="button", class_="quiet",
          data_act="library-agree"),
        class_="card keep soft",
    )  # fmt: skip


def keep_note(name: str, done: int | None, total: int) -> Html:
    """Return the note below a local program; `done` is set while a copy is being written."""
    if done is not None:
        return _keeping(name, done, total)
    return h(
        "p",
        h("span", "This file is gone after a reload. "),
        h("button", "Keep a copy", type="button", class_="quiet", data_act="library-keep"),
        class_="card keep soft",
    )


def unkept_note(reason: str) -> Html:
    """Return the note that says why the open program is not in the library."""
    return h("p", f"{reason}. It works all the same.", class_="card keep", role="status")

"""The base of all reports: plain data, JSON, and a table to print."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

SHOWN_ROWS = 30  # rows of a table in a notebook or a terminal; `to_dict` has all rows
HIDDEN = {"hidden": True}  # metadata of fields that `to_dict` leaves out


def plain(value: Any) -> Any:
    """Convert dataclasses, tuples and NumPy's numbers to JSON's types without losing a number."""
    if is_dataclass(value) and not isinstance(value, type):
        shown = [each for each in fields(value) if not each.metadata.get("hidden")]
        return {each.name: plain(getattr(value, each.name)) for each in shown}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, tuple | list | set | frozenset):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has neither infinities nor NaN
    return value


@dataclass(frozen=True)
class ReportTable:
    """Rows under headings; numbers are aligned right, texts left."""

    title: str
    headings: tuple[str, ...]
    rows: Sequence[Sequence[Any]]
    notes: tuple[str, ...] = ()

    def _shown(self) -> list[list[str]]:
        return [[cell(value) for value in row] for row in self.rows[:SHOWN_ROWS]]

    def _rest(self) -> list[str]:
        left = len(self.rows) - SHOWN_ROWS
        return [f"... and {left} more", *self.notes] if left > 0 else list(self.notes)

    def text(self) -> str:
        shown = self._shown()
        widths = [max(map(len, column)) for column in zip(self.headings, *shown, strict=True)]
        right = [
            bool(self.rows) and isinstance(value, int | float | None)
            for value in (self.rows[0] if self.rows else self.headings)
        ]
        lines = [self.title]
        for row in [list(self.headings), *shown]:
            cells = (
                text.rjust(width) if is_right else text.ljust(width)
                for text, width, is_right in zip(row, widths, right, strict=True)
            )
            lines.append("  ".join(cells).rstrip())
        return "\n".join([*lines, *self._rest()])

    def html(self) -> str:
        def line(tag: str, texts: Sequence[str]) -> str:
            return "<tr>" + "".join(f"<{tag}>{html.escape(t)}</{tag}>" for t in texts) + "</tr>"

        body = "".join(line("td", row) for row in self._shown())
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self._rest())
        caption = f"<caption>{html.escape(self.title)}</caption>"
        head = f"<thead>{line('th', self.headings)}</thead>"
        return f"<table>{caption}{head}<tbody>{body}</tbody></table>{notes}"


def cell(value: Any) -> str:
    """Format a value of a table briefly."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, tuple):
        return "×".join(map(str, value)) if value else "scalar"
    return f"{value:,}" if isinstance(value, int) else str(value)


class Report:
    """A dataclass that can be printed, shown in a notebook, and stored."""

    def to_dict(self) -> dict[str, Any]:
        """Convert the report to dicts, lists, texts and numbers."""
        found: dict[str, Any] = plain(self)
        return found

    def json(self, indent: int | None = None) -> str:
        """Convert `to_dict` to JSON text. Infinities and NaN become "inf", "-inf" and "nan"."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)

    def table(self) -> ReportTable:
        """Return the report's main table."""
        raise NotImplementedError

    def __str__(self) -> str:
        return self.table().text()

    def _repr_html_(self) -> str:
        return self.table().html()

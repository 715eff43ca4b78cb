"""Writes the table of docs/reference/conformance.md from suites and results of `verify --json`.

OUT/PART is a suite, and OUT/PART.RUN.json its results in a run: on NumPy, natively, in a browser.
It needs only the standard library.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

RUNS = {"numpy": "NumPy", "native": "natively", "chromium": "Chromium", "firefox": "Firefox"}
_ON_GPU = ("native", "chromium", "firefox")  # runs that report where calls ran
_NOT_RUN = "–"

Rows = list[dict[str, Any]]


def table(out: Path, parts: Iterable[str]) -> str:
    """Return Markdown with a row per exported part and a row for all parts."""
    head = ("part", "programs", "refused", *RUNS.values(), "ran a kernel", "only moved", "host")
    lines = [_line(head), _line("---" for _ in head)]
    totals: Counter[str] = Counter()
    for part in parts:
        if (out / part / "manifest.json").exists():
            cells = _cells(out, part)
            totals.update({name: n for name, n in cells.items() if n is not None})
            lines.append(_line((f"`{part}`", *map(_shown, cells.values()))))
            order = list(cells)
    if len(lines) > 3:
        lines.append(_line(("all", *(_shown(totals.get(name)) for name in order))))
    return "\n".join(lines) + "\n"


def failures(out: Path, parts: Iterable[str]) -> list[str]:
    """Return a line for every program that failed in any run: its name, the run and the error."""
    found = []
    for part in parts:
        for run, name in RUNS.items():
            for row in _results(out, part, run) or ():
                if row["verdict"] != "passed":
                    found.append(f"{part}: {row['op']}__{row['case']}, {name}: {row['error']}")
    return found


def _cells(out: Path, part: str) -> dict[str, int | None]:
    """Return the numbers of a row; None: not run."""
    entries = _read(out / part / "manifest.json") or []
    cells: dict[str, int | None] = {
        "programs": len(entries),
        "refused": len(_read(out / part / "refused.json") or []),
    }
    for run in RUNS:
        rows = _results(out, part, run)
        cells[run] = None if rows is None else sum(row["verdict"] == "passed" for row in rows)
    where = _where(out, part)
    kernels = [row for row in where if row["ran"]["dispatches"]]
    hosts = [row for row in where if row["ran"]["host"]]
    moved = [row for row in where if not row["ran"]["dispatches"] and not row["ran"]["host"]]
    for name, rows in (("kernel", kernels), ("moved", moved), ("host", hosts)):
        cells[name] = len(rows) if where else None
    return cells


def _where(out: Path, part: str) -> Rows:
    """Return the rows of the first run on a GPU, which report where calls ran."""
    for run in _ON_GPU:
        rows = _results(out, part, run)
        if rows is not None:
            return [row for row in rows if row.get("ran")]
    return []


def _results(out: Path, part: str, run: str) -> Rows | None:
    return _read(out / f"{part}.{run}.json")


def _read(path: Path) -> Rows | None:
    if not path.exists():
        return None
    content: Rows = json.loads(path.read_text(encoding="utf-8"))
    return content


def _shown(number: int | None) -> str:
    return _NOT_RUN if number is None else f"{number:,}"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"

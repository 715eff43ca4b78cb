"""The variants that `--options` names, and the table that compares them.

Errors are percentages of a case's tolerance, for the worst element: up to 100 % passes.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

from webpte_host.setup import environment

Row = dict[str, Any]  # the result of a case with a variant
HEADINGS = ("variant", "passed", "failed", "largest error", "from chosen", "other kernels in")


def names_of(text: str) -> tuple[str, ...]:
    """Split an argument at its commas. The names are looked up in the environment, where the
    command runs again: the first Python may have no NumPy.
    """
    names = tuple(text.split(","))
    if environment.inside():
        from webpte_export.suites.variants import NAMES, unknown_names

        if unknown := unknown_names(names):
            known = ", ".join((*NAMES, "all"))
            raise argparse.ArgumentTypeError(
                f"there is no variant {unknown[0]!r}; there are {known}"
            )
    return names


def show(variants: Sequence[dict[str, Any]], results: Sequence[Row]) -> None:
    """Print a line per variant, then the cases whose result depends on the variant."""
    chosen = variants[0]["label"]
    lines = [HEADINGS, *(_cells(variant, results, chosen) for variant in variants)]
    whole = [line for line in lines if len(line) == len(HEADINGS)]
    widths = [max(map(len, column)) for column in zip(*whole, strict=True)]
    first = max(len(line[0]) for line in lines)
    for label, *rest in lines:
        if len(rest) == 1:
            print(f"{label.ljust(first)}  {rest[0]}")
        else:
            cells = (cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True))
            print("  ".join([label.ljust(first), *cells]).rstrip())
    for line in _disagreements(results):
        print(line, flush=True)


def _cells(variant: dict[str, Any], results: Sequence[Row], chosen: str) -> tuple[str, ...]:
    if variant["missing"]:
        return variant["label"], variant["missing"]
    rows = [row for row in results if row["variant"] == variant["label"]]
    failed = sum(row["verdict"] != "passed" for row in rows)
    others = sum(bool(row["other_kernels"]) for row in rows)
    compared = variant["label"] != chosen
    return (
        variant["label"],
        str(len(rows) - failed),
        str(failed),
        _largest(rows, _used),
        _largest(rows, lambda row: row["difference"]) if compared else "",
        f"{others} of {len(rows)} cases" if compared else "",
    )


def _used(row: Row) -> float | None:
    return max((output["used"] for output in row["outputs"] if output["used"]), default=0.0)


def _largest(rows: Sequence[Row], measure: Callable[[Row], float | None]) -> str:
    """Return the largest known value, with its case."""
    measured = [(share, row) for row in rows if (share := measure(row)) is not None]
    if not measured:
        return "-"
    share, row = max(measured, key=lambda pair: pair[0])
    return f"{share:.2%} {row['op']}__{row['case']}" if share else "0"


def _disagreements(results: Sequence[Row]) -> list[str]:
    """List the cases whose verdict depends on the variant."""
    by_case: dict[str, dict[str, list[str]]] = {}
    for row in results:
        verdicts = by_case.setdefault(f"{row['op']}__{row['case']}", {})
        verdicts.setdefault(row["verdict"], []).append(row["variant"])
    return [
        f"DIFFERS {case}: " + "; ".join(f"{verdict} {', '.join(p)}" for verdict, p in found.items())
        for case, found in by_case.items()
        if len(found) > 1
    ]

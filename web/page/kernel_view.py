"""Where the time goes on the GPU: one row per kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from page.markup import Html, h
from page.units import count_text, ms_text, plural

SHOWN_KERNELS = 12


@dataclass(frozen=True)
class KernelTime:
    """All dispatches of one kernel in one run."""

    label: str
    count: int
    ms: float


def kernel_times(timed: Sequence[tuple[str, float]]) -> list[KernelTime]:
    """(label, microseconds) per dispatch -> per kernel, slowest first."""
    found: dict[str, tuple[int, float]] = {}
    for label, microseconds in timed:
        count, spent = found.get(label, (0, 0.0))
        found[label] = (count + 1, spent + microseconds)
    rows = [KernelTime(label, count, us / 1000) for label, (count, us) in found.items()]
    return sorted(rows, key=lambda row: -row.ms)


def kernels_view(rows: Sequence[KernelTime]) -> Html:
    total = sum(row.ms for row in rows)
    most = max((row.ms for row in rows), default=0.0)
    shown = [_row(row, total, most) for row in rows]
    return h(
        "section",
        h(
            "h3",
            "Kernels",
            h(
                "span",
                f"{plural(sum(row.count for row in rows), 'dispatch', 'dispatches')}, "
                f"{ms_text(total)} on the GPU",
                class_="count",
            ),
        ),
        h("ul", shown[:SHOWN_KERNELS], class_="bars"),
        h(
            "details",
            h("summary", f"{count_text(len(shown) - SHOWN_KERNELS)} more"),
            h("ul", shown[SHOWN_KERNELS:], class_="bars"),
        )
        if len(shown) > SHOWN_KERNELS
        else None,
        h(
            "p",
            "One run, each dispatch timed by itself. Browsers may round these times to 0.1 ms.",
            class_="note",
        ),
        class_="kernels",
    )


def _row(row: KernelTime, total: float, most: float) -> Html:
    share = f"{100 * row.ms / total:.0f} %" if total else "-"
    width = max(0.5, 100 * row.ms / most) if most else 0.5
    return h(
        "li",
        h("span", row.label, class_="name"),
        h("span", f"× {count_text(row.count)}", class_="number soft"),
        h("span", ms_text(row.ms), class_="number"),
        h("span", share, class_="number share"),
        h(
            "svg",
            h("rect", width="100%", height="4", rx="2", class_="rail"),
            h("rect", width=f"{width:.1f}%", height="4", rx="2", class_="fill-gpu"),
            width="100%",
            height="4",
            aria_hidden="true",
        ),
    )

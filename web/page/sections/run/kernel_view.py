"""GPU time by kernel, with the operators that each kernel computes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from page.shared.html.markup import Html, h
from page.shared.html.units import count_text, ms_text, plural, short_op
from page.shared.outputs.figures import bar
from webpte.inspection.report import TimedStep

SHOWN_KERNELS = 12
SHOWN_OPS = 4  # of one kernel


@dataclass(frozen=True)
class KernelTime:
    """All dispatches of one kernel in one run; `ops` are the operators that it computes."""

    label: str
    count: int
    ms: float
    ops: tuple[str, ...] = ()


def kernel_times(steps: Sequence[TimedStep]) -> list[KernelTime]:
    """Sum up times per kernel, slowest first. What was not timed took no time."""
    by_kernel: dict[str, list[TimedStep]] = {}
    for step in steps:
        by_kernel.setdefault(step.kernel, []).append(step)
    rows = [
        KernelTime(
            label,
            len(its),
            sum(step.microseconds or 0.0 for step in its) / 1000,
            tuple(dict.fromkeys(step.op for step in its)),
        )
        for label, its in by_kernel.items()
    ]
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


def _ops_text(ops: Sequence[str]) -> str:
    named = ", ".join(short_op(op) for op in ops[:SHOWN_OPS])
    return f"for {named}" + (f" and {len(ops) - SHOWN_OPS} more" if len(ops) > SHOWN_OPS else "")


def _row(row: KernelTime, total: float, most: float) -> Html:
    share = f"{100 * row.ms / total:.0f} %" if total else "-"
    width = max(0.5, 100 * row.ms / most) if most else 0.5
    return h(
        "li",
        h(
            "span",
            h("span", row.label, class_="name"),
            h("span", _ops_text(row.ops), class_="note", title=", ".join(row.ops)),
            class_="kernel",
        ),
        h("span", f"× {count_text(row.count)}", class_="number soft"),
        h("span", ms_text(row.ms), class_="number"),
        h("span", share, class_="number share"),
        bar(width),
    )

"""Plots of traces and comparisons, with matplotlib if it is installed.

    from webpte.report import plots

    plots.plot_trace(await program.trace("forward", x))
    plots.plot_comparison(await program.compare("forward", x))

Each draws on the axes that it is given, or on new ones, and returns them.
"""

from __future__ import annotations

import importlib
from typing import Any

from webpte.errors import PackageError
from webpte.inspection.report.comparison import Comparison
from webpte.inspection.report.timeline import GPU, HOST, Trace

_LANES = {HOST: 1, GPU: 0}  # from below
_HEIGHT = 0.8
_NAMED = 24  # calls at most for which names fit below the axis
_SMALLEST = 1e-12  # a difference of zero has no place on a logarithmic axis


def plot_trace(trace: Trace, axes: Any = None) -> Any:
    """Draw a run over time: lanes for the host and the GPU, a colour for each kind of span."""
    axes = axes if axes is not None else _new_axes((9, 2.4))
    kinds = list(dict.fromkeys(span.kind for span in trace.spans))
    for number, kind in enumerate(kinds):
        for track, lane in _LANES.items():
            spans = [span for span in trace.spans if (span.kind, span.track) == (kind, track)]
            if spans:
                bars = [(span.start / 1e3, span.duration / 1e3) for span in spans]
                place = (lane - _HEIGHT / 2, _HEIGHT)
                axes.broken_barh(bars, place, color=f"C{number}", edgecolor="white", label=kind)
    axes.set_yticks(list(_LANES.values()), list(_LANES))
    axes.set_xlabel("milliseconds")
    axes.set_title(f"{trace.program}, {trace.method} on {trace.device}")
    axes.legend(ncols=max(len(kinds), 1), loc="lower center", bbox_to_anchor=(0.5, -0.75))
    return axes


def plot_comparison(comparison: Comparison, axes: Any = None) -> Any:
    """Draw the largest difference from NumPy per call: of the call alone, and accumulated."""
    axes = axes if axes is not None else _new_axes((9, 3.6))
    for name in ("own", "drift"):
        found = [(at, getattr(call, name)) for at, call in enumerate(comparison.calls)]
        points = [(at, max(off.max_abs, _SMALLEST)) for at, off in found if off is not None]
        if points:
            label = {"own": "this call adds", "drift": "so far"}[name]
            axes.semilogy(*zip(*points, strict=True), marker="o", label=label)
    axes.axhline(comparison.tolerance.atol, linestyle="--", color="gray", label="atol")
    if len(comparison.calls) <= _NAMED:
        names = [_short_name(call.op) for call in comparison.calls]
        axes.set_xticks(range(len(names)), names, rotation=30, ha="right")
    else:
        axes.set_xlabel("call")
    axes.set_ylabel("largest difference")
    axes.set_title(f"{comparison.program}, {comparison.method} against NumPy")
    axes.legend()
    return axes


def _short_name(op: str) -> str:
    """Shorten `et_vk.conv_with_clamp.default` to `conv_with_clamp`."""
    return op.split(".")[1] if op.count(".") else op


def _new_axes(size: tuple[float, float]) -> Any:
    try:
        pyplot = importlib.import_module("matplotlib.pyplot")
    except ModuleNotFoundError as error:
        raise PackageError(
            "plots need the package matplotlib: pip install matplotlib, or in the browser "
            "await micropip.install('matplotlib')"
        ) from error
    return pyplot.subplots(figsize=size, layout="constrained")[1]

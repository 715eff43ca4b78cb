"""Lines as SVG: of long ones the lowest and highest value of each step is drawn."""

from __future__ import annotations

import numpy as np

from page.shared.html.markup import Html, h
from page.shared.html.units import number_text
from page.shared.npy import Array
from page.shared.outputs.figures import plot

STEPS = 400  # across the chart: more are not visible
_WIDTH, _HEIGHT = 800, 220  # viewBox


def envelope(line: Array, steps: int = STEPS) -> tuple[Array, Array]:
    """Return the lowest and highest finite value of each step of a line, or NaN."""
    edges = np.linspace(0, line.size, min(steps, line.size) + 1).astype(np.intp)
    wide = line.astype(np.float64)
    finite = np.isfinite(wide)
    low = np.minimum.reduceat(np.where(finite, wide, np.inf), edges[:-1])
    high = np.maximum.reduceat(np.where(finite, wide, -np.inf), edges[:-1])
    empty = low > high
    return np.where(empty, np.nan, low), np.where(empty, np.nan, high)


def lines_chart(lines: Array) -> Html:
    """Return a chart of (lines, points) on one scale, with its ends."""
    finite = lines[np.isfinite(lines)] if lines.dtype.kind == "f" else lines.reshape(-1)
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    drawn = [
        h("path", d=_path(line, low, high), class_=f"line line-{at}")
        for at, line in enumerate(lines)
    ]
    zero = []
    if low < 0 < high:
        y = f"{_HEIGHT * high / (high - low):.1f}"
        zero = [h("line", x1="0", x2=_WIDTH, y1=y, y2=y, class_="zero")]
    chart = h(
        "svg",
        zero,
        drawn,
        viewBox=f"0 -3 {_WIDTH} {_HEIGHT + 6}",
        preserveAspectRatio="none",
        aria_hidden="true",
        class_="chart",
    )
    ends = h("span", h("span", number_text(high)), h("span", number_text(low)), class_="chart-ends")
    return h("span", chart, ends, class_="charted")


def _path(line: Array, low: float, high: float) -> str:
    """Return the path of a line: each point, or for long lines the extremes of each step."""
    span = (high - low) or 1.0
    if line.size <= STEPS:
        values = line.astype(np.float64)
        across = (np.arange(line.size) + 0.5) * (_WIDTH / line.size)
    else:
        bottoms, tops = envelope(line)
        values = np.stack([bottoms, tops], axis=1).reshape(-1)
        across = np.repeat((np.arange(len(bottoms)) + 0.5) * (_WIDTH / len(bottoms)), 2)
    parts, begun = [], False
    for x, value in zip(across.tolist(), values.tolist(), strict=True):
        if not np.isfinite(value):
            begun = False  # a gap, where there is nothing to draw
            continue
        y = _HEIGHT * (high - value) / span if high > low else _HEIGHT / 2
        parts.append(f"{'L' if begun else 'M'}{x:.1f} {y:.1f}")
        begun = True
    return "".join(parts)


def waveform(line: Array, label: str) -> Html:
    """Return a sound as a band around zero, scaled to its peak."""
    low, high = envelope(line, 240)
    reach = max(float(np.nanmax(np.abs([low, high]))) if line.size else 0.0, 1e-9)
    width, height = len(low), 48
    bars = []
    for at, (bottom, top) in enumerate(zip(low.tolist(), high.tolist(), strict=True)):
        if bottom != bottom:
            continue
        y = height / 2 * (1 - top / reach)
        tall = max(0.8, height / 2 * (top - bottom) / reach)
        bars.append(f"M{at + 0.5} {y:.1f}v{tall:.1f}")
    return plot(h("path", d="".join(bars)), (width, height), label, "waveform")

"""Sizes, times, counts and shapes as people read them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from webpte.engine.dtypes import INT32_MAX


def bytes_text(count: float) -> str:
    """Return a size: 1536 -> "1.50 KiB". Three digits are enough to compare two sizes."""
    if count < 1024:
        return f"{int(count)} B"
    for unit in ("KiB", "MiB", "GiB"):
        count /= 1024
        if count < 1000 or unit == "GiB":
            break
    return f"{_three_digits(count)} {unit}"


def ms_text(milliseconds: float) -> str:
    """Return a time in the unit in which it has few digits."""
    if milliseconds < 0.1:
        return f"{milliseconds * 1000:.0f} µs"
    if milliseconds < 1000:
        return f"{_three_digits(milliseconds)} ms"
    if milliseconds < 60_000:
        return f"{_three_digits(milliseconds / 1000)} s"
    minutes, seconds = divmod(round(milliseconds / 1000), 60)
    return f"{minutes} min {seconds} s"


def us_text(microseconds: float | None) -> str:
    """Return the time of a kernel, which may be a few cycles; "-" for None."""
    if microseconds is None:
        return "-"
    if microseconds < 1:
        return f"{microseconds:.3g} µs"
    return f"{microseconds:.1f} µs" if microseconds < 10 else ms_text(microseconds / 1000)


def _three_digits(value: float) -> str:
    if value < 9.995:
        return f"{value:.2f}"
    if value < 99.95:
        return f"{value:.1f}"
    return f"{value:.0f}"


def count_text(count: int) -> str:
    """Return a count with separators: 1234567 -> "1,234,567"."""
    return f"{count:,}"


def plural(count: int, one: str, many: str = "") -> str:
    return f"{count_text(count)} {one if count == 1 else many or one + 's'}"


_LONGEST = 80  # characters of a text: a program may hold the names of all its layers


def number_text(value: object) -> str:
    """Return one element of a tensor, short enough for a table."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        if math.isinf(value):
            return "∞" if value > 0 else "-∞"
        return f"{value:.5g}" if value else "0"  # also for minus zero
    text = str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def shape_text(shape: Sequence[int], bounds: Sequence[tuple[int, int]] = ()) -> str:
    """Return a shape: (3, 64) -> "3 × 64", () -> "scalar"; dynamic dims show their bounds: "≤64",
    "8…64", "any"."""
    if not shape:
        return "scalar"
    dims = []
    for dim, size in enumerate(shape):
        low, high = bounds[dim] if dim < len(bounds) else (size, size)
        up_to = "any" if high == INT32_MAX else f"≤{high}"
        dims.append(str(size) if low == high else up_to if low <= 1 else f"{low}…{high}")
    return " × ".join(dims)


def short_op(name: str) -> str:
    """Shorten an operator's name: "aten.relu.default" -> "relu"."""
    for prefix in ("aten.", "aten::"):
        name = name.removeprefix(prefix)
    return name.removesuffix(".default")

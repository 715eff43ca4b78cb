"""Masks: pixels that a model marks, or the class of each pixel, over the input picture."""

from __future__ import annotations

import colorsys

import numpy as np

from page.shared.html.markup import Html, h
from page.shared.html.units import number_text
from page.shared.npy import Array
from page.shared.outputs.pictures import data_url, png_rgb
from page.shared.outputs.renderers.base import (
    OutputContext,
    Renderer,
    Settings,
    choice_field,
    is_numeric,
    one_of,
    pointed,
    real,
    slider,
)
from page.shared.outputs.renderers.heat import shape_class
from page.shared.outputs.renderers.picture import planes_of

_SMALLEST = 4  # rows and columns of a mask
_SKEW = 0.1  # how much its proportions may differ from the picture's
_LEGEND = 12  # entries, the largest classes first
_HIDDEN = {"": "none", "0": "class 0"}


def planes_over(context: OutputContext) -> Array | None:
    """Return (classes, rows, columns) that lie over the picture; None if the output cannot."""
    planes = planes_of(context.array)
    if planes.ndim == 2:
        planes = planes[None]
    if planes.ndim != 3 or context.backdrop is None:
        return None
    height, width = context.backdrop.shape[:2]
    for one in (planes, np.moveaxis(planes, -1, 0)):
        rows, columns = one.shape[1:]
        alike = abs(rows * width / (columns * height) - 1) <= _SKEW
        if min(rows, columns) >= _SMALLEST and alike:
            return one
    return None


def colour_of(number: int) -> tuple[int, int, int]:
    """Return the colour of a class: each is a golden ratio of the colour circle after the last."""
    red, green, blue = colorsys.hsv_to_rgb((0.47 + 0.618034 * number) % 1, 0.85, 0.95)
    return round(255 * red), round(255 * green), round(255 * blue)


def classes_of(planes: Array, threshold: float) -> Array:
    """Return the class of each pixel; of a single plane, 1 above the threshold."""
    if len(planes) > 1:
        found: Array = planes.argmax(axis=0)
        return found
    if planes.dtype.kind in "iu":
        return planes[0].astype(np.int64)
    return (planes[0].astype(np.float64) > threshold).astype(np.int64)


def is_threshold(planes: Array) -> bool:
    return len(planes) == 1 and planes.dtype.kind in "fb"


def _range(planes: Array) -> tuple[float, float, float]:
    """Return the lowest, highest and default threshold: 0.5 for probabilities, 0 for logits."""
    finite = planes[np.isfinite(planes)] if planes.dtype.kind == "f" else planes
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    return low, high, 0.5 if low >= 0 and high <= 1 else 0.0


def _threshold(context: OutputContext, settings: Settings, planes: Array) -> float:
    low, high, usual = _range(planes)
    return real(settings, "threshold", context.card.threshold or usual, min(low, usual), high)


def _hidden(context: OutputContext, settings: Settings, planes: Array) -> str:
    """Return the class that is hidden: class 0, unless it is not the background."""
    named = context.labels[0].lower() if context.labels else "background"
    usual = "0" if "background" in named or is_threshold(planes) else ""
    return one_of(settings, "hidden", list(_HIDDEN), usual)


def overlaid(backdrop: Array, classes: Array, opacity: float, hidden: bool) -> Array:
    """Return the picture (height, width, 3) uint8 with each class in its colour."""
    height, width = backdrop.shape[:2]
    rows = np.arange(height) * classes.shape[0] // height
    columns = np.arange(width) * classes.shape[1] // width
    spread = classes[rows][:, columns]
    numbers, at = np.unique(spread, return_inverse=True)
    colours = np.array([colour_of(int(number)) for number in numbers], np.float32)
    weight = np.full(spread.shape, opacity, np.float32)
    if hidden:
        weight[spread == 0] = 0
    painted = colours[at.reshape(spread.shape)]
    mixed = backdrop * (1 - weight[..., None]) + painted * weight[..., None]
    return np.rint(mixed).astype(np.uint8)


def _draw(context: OutputContext, settings: Settings) -> Html:
    planes = planes_over(context)
    assert planes is not None  # as `fits` says
    assert context.backdrop is not None
    threshold = _threshold(context, settings, planes)
    opacity = real(settings, "opacity", 60, 0, 100)
    hidden = _hidden(context, settings, planes)
    classes = classes_of(planes, threshold)
    shown = overlaid(context.backdrop, classes, opacity / 100, hidden == "0")
    height, width = shown.shape[:2]
    controls = [slider(context, "opacity", f"opacity {opacity:.0f} %", opacity, (0, 100))]
    if is_threshold(planes):
        low, high, usual = _range(planes)
        ends = (min(low, usual), max(high, usual))
        label = f"threshold {number_text(threshold)}"
        step = (ends[1] - ends[0]) / 100 or 1
        controls.append(slider(context, "threshold", label, threshold, ends, step))
    else:
        controls.append(choice_field(context, "hidden", "hide", _HIDDEN, hidden))
    image = h("img", src=data_url(png_rgb(shown)), alt="", width=width, height=height)
    return h(
        "figure",
        h("div", controls, class_="controls"),
        pointed(
            context,
            image,
            f"{context.output.name} over the input picture",
            planes.shape[1:],
            shape_class(width, height),
            f"output-{context.output.index}-mask",
        ),
        _legend(context, classes, is_threshold(planes)),
    )


def _legend(context: OutputContext, classes: Array, single: bool) -> Html:
    numbers, counts = np.unique(classes, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:_LEGEND]

    def entry(number: int, share: float) -> Html:
        patch = h("rect", width="12", height="12", rx="3", fill="#{:02x}{:02x}{:02x}".format(
            *colour_of(number)))  # fmt: skip
        name = (
            ("above threshold" if number else "below threshold")
            if single
            else _name(context, number)
        )
        return h(
            "li",
            h("svg", patch, width="12", height="12", aria_hidden="true"),
            f"{name}: {100 * share:.1f} %",
        )

    entries = [entry(int(numbers[at]), counts[at] / classes.size) for at in order]
    return h("ul", entries, class_="legend")


def _name(context: OutputContext, number: int) -> str:
    known = 0 <= number < len(context.labels)
    return context.labels[number] if known else f"class {number}"


def _point(context: OutputContext, settings: Settings, x: float, y: float) -> str:
    planes = planes_over(context)
    assert planes is not None
    row = min(int(y * planes.shape[1]), planes.shape[1] - 1)
    column = min(int(x * planes.shape[2]), planes.shape[2] - 1)
    where = f"row {row}, column {column}"
    if len(planes) == 1:
        value = planes[0, row, column].item()
        named = "" if is_threshold(planes) else f" ({_name(context, int(value))})"
        return f"{where}: {number_text(value)}{named}"
    number = int(planes[:, row, column].argmax())
    return f"{where}: {_name(context, number)}, {number_text(planes[number, row, column].item())}"


def _fits(context: OutputContext) -> bool:
    """Tell whether the output can be a mask: not if a card calls it a picture, and no mask."""
    may_be = context.card.mask or "H" not in context.card.layout
    return may_be and is_numeric(context.array) and planes_over(context) is not None


RENDERER = Renderer(
    "mask", "Mask", _fits, _draw, best=lambda context: context.card.mask, point=_point
)

"""Results that are pictures: an enlarged one, one without its background, depths."""

from __future__ import annotations

from typing import Any

import numpy as np

from page.shared.html.markup import Html, h
from page.shared.html.units import number_text
from page.shared.outputs.pictures import data_url, heat_map
from page.views.task.results.answer import TaskAnswer
from page.views.task.results.base import (
    ResultView,
    Settings,
    is_pixels,
    png_of,
    setting,
    slider,
    stage,
)

_LARGEST = 1 << 14  # pixels of a side: all of them


def _draw_picture(answer: TaskAnswer, settings: Settings) -> Html:
    pixels = answer.result
    height, width = pixels.shape[:2]
    clear = pixels.ndim == 3 and pixels.shape[2] == 4
    told = f"{width} × {height} pixels" + (", the background is clear" if clear else "")
    image = h("img", src=data_url(png_of(pixels)), width=width, height=height, alt="The result")
    kind = "task-stage task-clear" if clear else "task-stage"
    frame = h("div", image, class_=kind, data_shape=f"{width / height:.4f}")
    return h("figure", frame, h("figcaption", told))


def _is_depth(result: Any) -> bool:
    return isinstance(result, dict) and {"depth", "predicted_depth"} <= result.keys()


def _draw_depth(answer: TaskAnswer, settings: Settings) -> Html:
    """Return the depths in colours over the picture, with a slider between the two."""
    depths = answer.result["predicted_depth"]
    share = setting(settings, "depth", 100)
    assert answer.picture is not None
    height, width = answer.picture.pixels.shape[:2]
    tint = h(
        "image",
        href=heat_map(np.asarray(answer.result["depth"]), _LARGEST).url,
        width=width,
        height=height,
        opacity=f"{share / 100:.2f}",
        preserveAspectRatio="none",
    )
    low, high = (number_text(round(float(one), 3)) for one in (depths.min(), depths.max()))
    field = slider("depth", f"depth {share:.0f} %, picture {100 - share:.0f} %", share)
    told = f"From {low} (dark) to {high} (bright), in the model's unit"
    return h(
        "figure",
        h("div", field, class_="controls"),
        stage(answer, tint, "Depths over the picture"),
        h("figcaption", told),
    )


def _depth_png(answer: TaskAnswer) -> bytes:
    return png_of(answer.result["depth"])


PICTURE = ResultView(is_pixels, _draw_picture, png=lambda answer: png_of(answer.result))
DEPTH = ResultView(_is_depth, _draw_depth, png=_depth_png)

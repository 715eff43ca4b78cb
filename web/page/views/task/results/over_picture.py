"""Results that lie over the picture: boxes with names, lines of text, masks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from page.shared.html.markup import Html, h
from page.shared.html.units import plural
from page.views.task.results.answer import TaskAnswer
from page.views.task.results.base import (
    MOST_SHOWN,
    ResultView,
    Settings,
    colour,
    colours_of,
    has_items,
    mask_url,
    percent,
    setting,
    slider,
    stage,
)

_OPACITY = 55
_SIDES = ("xmin", "ymin", "xmax", "ymax")


def _thickness(answer: TaskAnswer) -> float:
    """Return how thick lines are, in pixels of the picture."""
    assert answer.picture is not None
    return max(answer.picture.pixels.shape[:2]) / 250


# ---- boxes with names


def _draw_boxes(answer: TaskAnswer, settings: Settings) -> Html:
    found = answer.result[:MOST_SHOWN]
    numbers = colours_of([str(one["label"]) for one in found])
    thick = _thickness(answer)
    drawn = [_box(one, numbers[str(one["label"])], thick, at) for at, one in enumerate(found)]
    told = f"{plural(len(answer.result), 'thing')} found"
    rows = [
        h(
            "li",
            _patch(numbers[str(one["label"])]),
            h("span", str(one["label"]), class_="name"),
            h("span", percent(one["score"]), class_="share number"),
            data_item=at,
        )
        for at, one in enumerate(found)
    ]
    return _beside(stage(answer, drawn[::-1], told), h("h3", told), h("ol", rows, class_="bars"))


def _box(one: Any, number: int, thick: float, at: int) -> Html:
    left, top, right, bottom = (float(one["box"][side]) for side in _SIDES)
    told = f"{one['label']} {percent(one['score'])}"
    size = 7 * thick
    line = top - thick if top > 1.4 * size else top + size  # of the text, within the picture
    place = {"x": f"{left:.1f}", "y": f"{top:.1f}", "fill": colour(number), "fill_opacity": "0.12"}
    frame = h(
        "rect",
        width=f"{max(0.0, right - left):.1f}",
        height=f"{max(0.0, bottom - top):.1f}",
        stroke=colour(number),
        stroke_width=f"{thick:.2f}",
        **place,
    )
    return h("g", h("title", told), frame, _written(told, left + thick, line, size), data_item=at)


def _written(text: str, x: float, y: float, size: float) -> Html:
    """Return a text with an edge, which can be read over any picture."""
    return h(
        "text",
        text,
        x=f"{x:.1f}",
        y=f"{y:.1f}",
        font_size=f"{size:.1f}",
        font_family="system-ui, sans-serif",
        fill="white",
        stroke="black",
        stroke_width=f"{size / 6:.2f}",
        paint_order="stroke",
    )


def _patch(number: int) -> Html:
    square = h("rect", width="12", height="12", rx="3", fill=colour(number))
    return h("svg", square, width="12", height="12", class_="task-patch", aria_hidden="true")


def _beside(picture: Html, *told: object) -> Html:
    return h("div", picture, h("div", told, class_="task-told"), class_="task-found")


# ---- lines of text


def _draw_lines(answer: TaskAnswer, settings: Settings) -> Html:
    found = answer.result
    thick = _thickness(answer) / 2
    drawn = [_outline(one, thick, at) for at, one in enumerate(found)]
    told = f"{plural(len(found), 'line')} of text"
    rows = [
        h("li", str(one["text"]), title=f"{percent(one['score'])} sure", data_item=at)
        for at, one in enumerate(found)
    ]
    picture = stage(answer, drawn, told)
    return _beside(picture, h("h3", told), h("ol", rows, class_="task-lines"))


def _outline(one: Any, thick: float, at: int) -> Html:
    points = " ".join(f"{float(x):.1f},{float(y):.1f}" for x, y in one["box"])
    frame = h(
        "polygon",
        points=points,
        fill=colour(0),
        fill_opacity="0.12",
        stroke=colour(0),
        stroke_width=f"{thick:.2f}",
    )
    told = f"{one['text']} ({percent(one['score'])} sure)"
    return h("g", h("title", told), frame, data_item=at)


def _lines_text(answer: TaskAnswer) -> str:
    return "\n".join(str(one["text"]) for one in answer.result)


# ---- masks


def _draw_masks(answer: TaskAnswer, settings: Settings) -> Html:
    found = answer.result[:MOST_SHOWN]
    numbers = colours_of([str(one["label"]) for one in found])
    masks = [one["mask"] for one in found]
    kinds = [numbers[str(one["label"])] for one in found]
    rows = [
        h(
            "li",
            _patch(number),
            h("span", str(one["label"]), class_="name"),
            h("span", percent(float((one["mask"] > 0).mean())), class_="share number"),
        )
        for one, number in zip(found, kinds, strict=True)
    ]
    return _masked(answer, settings, masks, kinds, "Parts of the picture", rows)


def _masked(
    answer: TaskAnswer,
    settings: Settings,
    masks: Sequence[Any],
    kinds: Sequence[int],
    told: str,
    rows: Sequence[Html],
    more: object = None,
) -> Html:
    opacity = setting(settings, "opacity", _OPACITY)
    height, width = masks[0].shape
    assert answer.picture is not None
    rows_, columns = answer.picture.pixels.shape[:2]
    tint = h(
        "image",
        href=mask_url(masks, kinds),
        width=columns,
        height=rows_,
        opacity=f"{opacity / 100:.2f}",
        preserveAspectRatio="none",
    )
    field = slider("opacity", f"opacity {opacity:.0f} %", opacity)
    picture = stage(answer, [tint, more], f"{told}: masks of {width} by {height} pixels")
    controls = h("div", field, class_="controls")
    return _beside(picture, h("h3", told), controls, h("ol", rows, class_="bars"))


# ---- masks of a thing that was clicked


def _is_prompted(result: Any) -> bool:
    return isinstance(result, dict) and {"masks", "scores"} <= result.keys()


def _draw_prompted(answer: TaskAnswer, settings: Settings) -> Html:
    masks, scores = answer.result["masks"], answer.result["scores"]
    chosen = int(setting(settings, "mask", 0, 0, len(masks) - 1))
    rows = [
        h(
            "li",
            h(
                "button",
                f"Mask {at + 1}",
                type="button",
                aria_pressed="true" if at == chosen else "false",
                data_act="task:setting",
                data_name="mask",
                data_value=at,
            ),
            h("span", f"rated {score:.2f}", class_="share number"),
        )
        for at, score in enumerate(scores)
    ]
    assert answer.picture is not None
    height, width = answer.picture.pixels.shape[:2]
    size = 2 * _thickness(answer)
    dots = [
        h("circle", cx=f"{x * width:.1f}", cy=f"{y * height:.1f}", r=f"{size:.1f}", fill="white",
          stroke="black", stroke_width=f"{size / 3:.2f}")
        for x, y in answer.points
    ]  # fmt: skip
    return _masked(answer, settings, [masks[chosen]], [0], "Masks, the best first", rows, dots)


BOXES = ResultView(lambda found: has_items(found, "label", "score", "box"), _draw_boxes, over=True)
LINES = ResultView(
    lambda found: has_items(found, "text", "score", "box"), _draw_lines, _lines_text, over=True
)
MASKS = ResultView(lambda found: has_items(found, "label", "mask"), _draw_masks, over=True)
PROMPTED = ResultView(_is_prompted, _draw_prompted, over=True)

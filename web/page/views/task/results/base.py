"""The interface of ways to show results, and what several of them need."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from page.shared.html.markup import Html, h, labelled
from page.shared.npy import Array
from page.shared.outputs.pictures import data_url, png_grey, png_rgb, png_rgba
from page.shared.outputs.renderers.mask import colour_of
from page.views.task.results.answer import TaskAnswer

Settings = Mapping[str, str]
MOST_SHOWN = 200  # items of a list
STAGE = "task-stage"  # the id of a picture with the drawing over it


@dataclass(frozen=True)
class SavedFile:
    """A file that a result can be saved as: its kind, which is on the button, the ending of its
    name, and the function that makes it."""

    kind: str
    ending: str
    data: Callable[[TaskAnswer], bytes]


@dataclass(frozen=True)
class ResultView:
    """The functions that show results of a kind.

    fits     returns whether it can show a result
    draw     returns the markup of an answer
    text     returns what “Copy text” copies
    png      returns the result as a picture
    over     it draws over the picture, and both can be saved as one
    file     a further format that the result can be saved in
    """

    fits: Callable[[Any], bool]
    draw: Callable[[TaskAnswer, Settings], Html]
    text: Callable[[TaskAnswer], str] | None = None
    png: Callable[[TaskAnswer], bytes] | None = None
    over: bool = False
    file: SavedFile | None = None


def has_items(result: Any, *keys: str) -> bool:
    """Tell whether a result is a list of tables with these fields; an empty list is not."""
    return (
        isinstance(result, list)
        and bool(result)
        and all(isinstance(one, dict) and all(key in one for key in keys) for one in result)
    )


def colour(number: int) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour_of(number))


def colours_of(names: Sequence[str]) -> dict[str, int]:
    """Return a number for the colour of each name, in the order in which they come."""
    return {name: at for at, name in enumerate(dict.fromkeys(names))}


def percent(score: float) -> str:
    return f"{100 * score:.1f} %"


def stage(answer: TaskAnswer, drawn: object, label: str) -> Html:
    """Return the picture with an SVG over it, in the picture's pixels."""
    assert answer.picture is not None
    height, width = answer.picture.pixels.shape[:2]
    image = h("img", src=answer.picture.url, width=width, height=height, alt=label)
    over = h(
        "svg",
        drawn,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width} {height}",
        preserveAspectRatio="none",
        role="presentation",
    )
    return h("div", image, over, id=STAGE, class_="task-stage", data_shape=f"{width / height:.4f}")


def slider(name: str, label: str, value: float, low: float = 0, high: float = 100) -> Html:
    """Return a slider for a setting of how a result is shown."""
    known = {"min": low, "max": high, "step": "1", "value": f"{value:g}"}
    act = {"data_act": "task:setting", "data_name": name}
    return labelled(label, h("input", type="range", **known, **act))


def setting(
    settings: Settings, name: str, usual: float, low: float = 0, high: float = 100
) -> float:
    """Return a number of the settings, within its bounds."""
    try:
        return min(max(float(settings.get(name, usual)), low), high)
    except ValueError:
        return usual


def mask_url(masks: Sequence[Array], numbers: Sequence[int]) -> str:
    """Return masks (height, width) as a picture, each in the colour of its number; the rest is
    clear."""
    height, width = masks[0].shape
    painted = np.zeros((height, width, 4), np.uint8)
    for mask, number in zip(masks, numbers, strict=True):
        painted[mask > 0] = (*colour_of(number), 255)
    return data_url(png_rgba(painted))


def as_json(value: Any) -> Any:
    """Return a result for JSON: pictures and masks as PNGs in data URLs, other arrays as lists."""
    if isinstance(value, dict):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    if isinstance(value, np.ndarray):
        return {"png": data_url(png_of(value))} if is_pixels(value) else value.tolist()
    return value.item() if isinstance(value, np.generic) else value


def is_pixels(value: Any) -> bool:
    """Tell whether a value is a picture of bytes, or a mask."""
    if not isinstance(value, np.ndarray) or value.dtype not in (np.uint8, np.bool_):
        return False
    return value.ndim == 2 or (value.ndim == 3 and value.shape[2] in (3, 4))


def png_of(pixels: Array) -> bytes:
    """Encode a picture or a mask as PNG."""
    if pixels.dtype == np.bool_:
        pixels = pixels.astype(np.uint8) * np.uint8(255)
    if pixels.ndim == 2:
        return png_grey(pixels)
    return png_rgba(pixels) if pixels.shape[2] == 4 else png_rgb(pixels)

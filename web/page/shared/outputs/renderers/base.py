"""The interface of renderers, and their shared functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, NamedTuple

import numpy as np

from page.shared.cards.cards import CardValue
from page.shared.html.markup import Html, choice, h, labelled
from page.shared.html.units import count_text
from page.shared.npy import Array
from page.shared.outputs.figures import zoomed
from page.shared.outputs.pictures import data_url, png_rgb

Settings = Mapping[str, str]


@dataclass(frozen=True, eq=False)
class Output:
    """One result: an array, or a plain number."""

    index: int
    name: str
    value: Any

    @property
    def array(self) -> Array:
        return np.asarray(self.value)

    @property
    def is_tensor(self) -> bool:
        return isinstance(self.value, np.ndarray)


@dataclass
class Choice:
    """The renderer that someone chose for an output ("": the best one), and its settings."""

    renderer: str = ""
    settings: dict[str, str] = field(default_factory=dict)
    # A form of the output, and the renderers that fit it, each with whether it is the best.
    fitting: tuple[object, list[tuple[Renderer, bool]]] | None = field(
        default=None, compare=False, repr=False
    )


class Backdrop(NamedTuple):
    """The input picture of a run.

    pixels  as the model saw them, (height, width, 3) uint8; None without a picture
    size    (height, width) of the input; `pixels` may be fewer
    photo   (height, width) of the picture before it was scaled to the input; (0, 0): unknown
    """

    pixels: Array | None = None
    size: tuple[int, int] = (0, 0)
    photo: tuple[int, int] = (0, 0)


@dataclass(frozen=True, eq=False)
class OutputContext:
    """One output with all that helps to show it.

    labels    names of its last dim, or of the classes that it contains
    card      the program's card, as far as it describes the output
    picture   returns the input picture, for renderers that draw over it
    given     dims of the inputs of the run, on which the picture's dims depend
    others    the other outputs of the same run
    row_seconds  from row to row, if its rows are frames of a sound; else 0
    picture_url  returns an address for pixels (height, width, 3) uint8
    """

    output: Output
    labels: Sequence[str] = ()
    card: CardValue = field(default_factory=CardValue)
    picture: Callable[[], Backdrop] = Backdrop
    given: tuple[tuple[int, ...], ...] = ()
    others: Sequence[Output] = ()
    picture_url: Callable[[Array], str] = lambda pixels: data_url(png_rgb(pixels))
    row_seconds: float = 0.0

    @property
    def form(self) -> tuple[object, ...]:
        """Everything but values on which it depends how the output can be shown."""
        array = self.array
        return array.dtype, array.shape, tuple(self.labels), self.card, self.given

    @property
    def backdrop(self) -> Array | None:
        """The pixels of the input picture, or None."""
        return self.picture().pixels

    @property
    def array(self) -> Array:
        return self.output.array


@dataclass(frozen=True)
class Renderer:
    """A way to show an output.

    fits   whether it can show an output
    best   whether it is the best one for it
    by_value  whether `fits` depends on values, too; `best` never does
    draw   returns the markup
    point  returns the value at a place, from 0 to 1 across and down; None where there is no value
    """

    name: str
    title: str
    fits: Callable[[OutputContext], bool]
    draw: Callable[[OutputContext, Settings], Html]
    best: Callable[[OutputContext], bool] = lambda context: False
    by_value: bool = False
    point: Callable[[OutputContext, Settings, float, float], str] | None = None


def is_numeric(array: Array) -> bool:
    return array.dtype.kind in "fiub" and array.size > 0


# ---- settings


def whole(settings: Settings, name: str, default: int, low: int, high: int) -> int:
    """Return a setting as an integer within bounds."""
    try:
        value = int(float(settings.get(name, default)))
    except (ValueError, OverflowError):
        value = default
    return min(max(value, low), max(low, high))


def real(settings: Settings, name: str, default: float, low: float, high: float) -> float:
    try:
        value = float(settings.get(name, default))
    except ValueError:
        value = default
    return min(max(value, low), high) if value == value else default  # NaN differs from itself


def one_of(settings: Settings, name: str, options: Sequence[str], default: str) -> str:
    value = settings.get(name, default)
    return value if value in options else default


# ---- controls


def choice_field(
    context: OutputContext, name: str, label: str, options: Mapping[str, str], chosen: str
) -> Html:
    return choice(label, options, chosen, **_acting(context, name))


def slider(
    context: OutputContext,
    name: str,
    label: str,
    value: float,
    ends: tuple[float, float],
    step: float = 1,
) -> Html:
    low, high = ends
    field = h("input", type="range", min=f"{low:g}", max=f"{high:g}", step=f"{step:g}",
              value=f"{value:g}", **_acting(context, name))  # fmt: skip
    return labelled(label, field)


def step_button(
    context: OutputContext, name: str, text: str, value: int, title: str, usable: bool
) -> Html:
    """Return a button that sets a number, such as the first row of the next page."""
    return h(
        "button",
        text,
        type="button",
        title=title,
        aria_label=title,
        disabled=not usable,
        data_value=value,
        **_acting(context, name),
    )


def number_field(context: OutputContext, name: str, label: str, value: int, highest: int) -> Html:
    field = h("input", type="number", min="0", max=highest, step="1", value=value, class_="small",
              **_acting(context, name))  # fmt: skip
    return labelled(label, field)


def _acting(context: OutputContext, name: str) -> dict[str, object]:
    return {
        "data_act": "renderer-setting",
        "data_output": context.output.index,
        "data_name": name,
    }


def pointed(
    context: OutputContext,
    inside: object,
    label: str,
    cells: tuple[int, int],
    kind: str = "",
    zoom: str = "",
) -> Html:
    """Return content whose values are shown where someone points; `point.js` sends the place.

    `cells`: (rows, columns) that the arrow keys step through. `zoom`: the id of a picture that can
    be enlarged.
    """
    told = f"output-{context.output.index}-point"
    shown = h(
        "div",
        inside,
        h("span", class_="mark", hidden=True),
        class_=f"pointed {kind}".strip(),
        role="img",
        aria_label=label,
        aria_describedby=told,
        tabindex="0",
        data_point="point-at",
        data_output=context.output.index,
        data_rows=cells[0],
        data_columns=cells[1],
    )
    return h(
        "div",
        zoomed(shown, zoom, kind=f"zoom-pointed {kind}") if zoom else shown,
        h(
            "p",
            "Point at it or use the arrow keys to see values.",
            id=told,
            class_="note point-told",
            aria_live="polite",
        ),
        class_="pointed-box",
    )


# ---- planes


def plane_count(array: Array) -> int:
    return prod(array.shape[:-2]) if array.ndim > 2 else 1


def plane_at(array: Array, number: int) -> tuple[Array, tuple[int, ...]]:
    """Return the plane (rows, columns) at a leading index, and that index. A vector is one row."""
    if array.ndim < 2:
        return array.reshape(1, -1), ()
    lead = tuple(int(one) for one in np.unravel_index(number, array.shape[:-2] or (1,)))
    return (array[lead] if array.ndim > 2 else array), (lead if array.ndim > 2 else ())


def chosen_plane(context: OutputContext, settings: Settings) -> int:
    return whole(settings, "plane", 0, 0, plane_count(context.array) - 1)


def plane_control(context: OutputContext, settings: Settings) -> Html | None:
    count = plane_count(context.array)
    if count < 2:
        return None
    number = chosen_plane(context, settings)
    lead = plane_at(context.array, number)[1]
    label = f"plane {list(lead)}, {count_text(number + 1)} of {count_text(count)}"
    return slider(context, "plane", label, number, (0, count - 1))

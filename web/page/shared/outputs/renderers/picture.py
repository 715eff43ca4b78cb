"""An output as the pixels of a picture."""

from __future__ import annotations

import numpy as np

from page.shared.html.markup import Html, h
from page.shared.html.units import count_text, plural
from page.shared.npy import Array
from page.shared.outputs.figures import zoomed
from page.shared.outputs.pictures import levels, shrunk
from page.shared.outputs.renderers.base import (
    OutputContext,
    Renderer,
    Settings,
    choice_field,
    is_numeric,
    one_of,
)
from page.shared.outputs.renderers.heat import shape_class

SIDE = 2048  # pixels of a shown picture; of a larger picture, every nth pixel is shown
_SMALLEST = 8
_SMALL = 128  # of a picture no larger than this, people want to see the pixels
_LAYOUTS = {"CHW": "channels first", "HWC": "channels last"}
_SCALES = {
    "auto": "automatic",
    "stretch": "lowest to highest",
    "unit": "0 to 1",
    "signed": "-1 to 1",
    "bytes": "0 to 255",
}
_ENDS = {"unit": (0.0, 1.0), "signed": (-1.0, 1.0), "bytes": (0.0, 255.0)}
_CHANNELS = (1, 3, 4)


def planes_of(array: Array) -> Array:
    """Drop leading dims of size 1, but leave two dims."""
    while array.ndim > 2 and array.shape[0] == 1:
        array = array[0]
    return array


def layouts_of(array: Array) -> list[str]:
    """Return the layouts in which an array can be a picture: "HW", "CHW", "HWC"."""
    shape = planes_of(array).shape
    if len(shape) == 2:
        return ["HW"] if min(shape) >= _SMALLEST else []
    if len(shape) != 3:
        return []
    found = []
    if shape[0] in _CHANNELS and min(shape[1:]) >= _SMALLEST:
        found.append("CHW")
    if shape[2] in _CHANNELS and min(shape[:2]) >= _SMALLEST:
        found.append("HWC")
    return found


def _layout(context: OutputContext, settings: Settings) -> str:
    options = layouts_of(context.array)
    told = context.card.layout.replace("N", "")
    return one_of(settings, "layout", options, told if told in options else options[0])


def pixels_of(context: OutputContext, settings: Settings) -> Array:
    """Return the picture as (height, width, 3) uint8, in full."""
    return _pixels(context, settings, 0)


def _pixels(context: OutputContext, settings: Settings, side: int) -> Array:
    """Return the picture with no side over `side`; 0: in full."""
    planes, layout = planes_of(context.array), _layout(context, settings)
    pixels = planes[:, :, None] if layout == "HW" else planes
    if layout == "CHW":
        pixels = np.moveaxis(planes, 0, -1)
    if context.card.order == "BGR" and pixels.shape[2] == 3:
        pixels = pixels[:, :, ::-1]
    ends = _ENDS.get(one_of(settings, "scale", list(_SCALES), "auto"))
    stretch = settings.get("scale") == "stretch"
    pixels = pixels[:, :, :3]
    return levels(shrunk(pixels, side) if side else pixels, ends, stretch)


def size_of(context: OutputContext, settings: Settings) -> tuple[int, int]:
    """Return the (height, width) of the picture."""
    shape, layout = planes_of(context.array).shape, _layout(context, settings)
    return shape[layout.index("H")], shape[layout.index("W")]


def _shown(pixels: Array, width: int) -> str | None:
    """Say that only some of the pixels are shown."""
    step = -(-width // pixels.shape[1])
    if step == 1:
        return None
    return f", shown {plural(pixels.shape[1], 'pixel')} wide; the download has all of them"


def _draw(context: OutputContext, settings: Settings) -> Html:
    layouts = {key: _LAYOUTS[key] for key in layouts_of(context.array) if key in _LAYOUTS}
    pixels = _pixels(context, settings, SIDE)
    height, width = size_of(context, settings)
    pixelated = " pixelated" if max(height, width) < _SMALL else ""
    scale = one_of(settings, "scale", list(_SCALES), "auto")
    index = context.output.index
    options = h(
        "div",
        choice_field(context, "layout", "dims", layouts, _layout(context, settings))
        if len(layouts) > 1
        else None,
        choice_field(context, "scale", "pixel range", _SCALES, scale),
        class_="controls",
    )
    controls = h(
        "div",
        h("button", "Download .png", type="button", data_act="download-picture",
          data_output=index),
        h("details", h("summary", "Options"), options, class_="more-controls"),
        class_="controls",
    )  # fmt: skip
    image = h(
        "img",
        src=context.picture_url(pixels),
        width=width,
        height=height,
        alt=f"{context.output.name} as a picture, {width} by {height} pixels",
        class_=f"rendered-picture {shape_class(width, height)}{pixelated}",
    )
    is_whole = pixels.shape[:2] == (height, width)
    shown = _beside_input(context, image, width, height, is_whole) or _zoomed(
        context, image, shape_class(width, height), is_whole
    )
    size = f"{count_text(width)} × {count_text(height)} pixels"
    caption = h("figcaption", size, _shown(pixels, width))
    return h("figure", _smaller_note(context, width, height), shown, caption, controls)


def _smaller_note(context: OutputContext, width: int, height: int) -> Html | None:
    """Say that an enlarged picture is smaller than the loaded picture, which was scaled
    down for the program."""
    (rows, columns), (loaded_rows, loaded_columns) = context.picture()[1:]
    if not (rows < height < loaded_rows and columns < width):
        return None
    loaded, taken = (
        f"{count_text(across)} × {count_text(down)}"
        for across, down in ((loaded_columns, loaded_rows), (columns, rows))
    )
    told = (
        f"Smaller than your picture: it has {loaded} pixels, more than this program takes. "
        f"It was scaled down to {taken} first."
    )
    return h("p", told, class_="notice notice-warn")


def zoom_id(context: OutputContext) -> str:
    return f"output-{context.output.index}-zoom"


def _zoomed(context: OutputContext, inside: Html, kind: str, is_whole: bool) -> Html:
    """Return pictures that can be enlarged; unless they are shown with all their pixels, the rest
    is asked for then."""
    return zoomed(
        inside,
        zoom_id(context),
        f"{context.output.name} as a picture",
        kind,
        data_full=None if is_whole else "full-output",
        data_output=context.output.index,
    )


def _beside_input(
    context: OutputContext, image: Html, width: int, height: int, is_whole: bool
) -> Html | None:
    """Return the picture over the input picture, with a slider that uncovers either; None if
    their proportions differ. `compare.js` moves the edge."""
    seen = context.picture()
    if seen.pixels is None or context.card.mask:
        return None
    rows, columns = seen.size
    if abs(rows * width - columns * height) > 0.02 * rows * width:
        return None
    before = h("img", src=context.picture_url(seen.pixels), alt="Before: the input picture",
               width=width, height=height, class_="compare-before")  # fmt: skip
    edge = h("input", type="range", min="0", max="100", value="50", autocomplete="off",
             aria_label="Share of the picture that shows the input",
             class_="compare-edge")  # fmt: skip
    pictures = h("div", before, image, class_="compare-pictures")
    return h(
        "div",
        _zoomed(context, pictures, "", is_whole and seen.pixels.shape[:2] == seen.size),
        edge,
        h("p", h("span", "Before"), h("span", "After"), class_="ends note"),
        class_="compare-box",
        data_shape=f"{width / height:.4f}",
    )


def _fits(context: OutputContext) -> bool:
    return is_numeric(context.array) and bool(layouts_of(context.array))


def _best(context: OutputContext) -> bool:
    """Tell whether a card says that the output is a picture."""
    return "H" in context.card.layout and not context.card.mask


RENDERER = Renderer("picture", "Picture", _fits, _draw, best=_best)

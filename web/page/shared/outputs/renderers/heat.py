"""A plane of an output in colours, with their scale and the values under the pointer."""

from __future__ import annotations

from page.shared.html.markup import Html, h
from page.shared.html.units import count_text, number_text
from page.shared.outputs.pictures import Picture, heat_map, scale_url, thinning
from page.shared.outputs.renderers.base import (
    OutputContext,
    Renderer,
    Settings,
    chosen_plane,
    is_numeric,
    plane_at,
    plane_control,
    pointed,
)

SIDE = 512  # pixels of the picture; larger planes are thinned out by whole steps
_STRETCHED = 4  # a plane so much longer than wide is drawn as if it were not


def _fits(context: OutputContext) -> bool:
    shape = context.array.shape
    return is_numeric(context.array) and len(shape) > 1 and min(shape[-2:]) > 1


def _draw(context: OutputContext, settings: Settings) -> Html:
    plane, lead = plane_at(context.array, chosen_plane(context, settings))
    made = heat_map(plane, SIDE)
    rows, columns = plane.shape
    down, across = thinning(plane.shape, SIDE)
    where = f" at {list(lead)}" if lead else ""
    thinned = f"; one of every {down} by {across} values is shown" if max(down, across) > 1 else ""
    size = f"{count_text(rows)} rows down, {count_text(columns)} columns across"
    image = h("img", src=made.url, alt="", width=made.width, height=made.height)
    return h(
        "figure",
        h("div", plane_control(context, settings), class_="controls"),
        pointed(
            context,
            image,
            f"Heat map of {context.output.name}{where}, {size}",
            (made.height, made.width),
            shape_class(made.width, made.height),
            f"output-{context.output.index}-heat",
        ),
        scale_bar(made),
        h("figcaption", f"{size}{where}{thinned}"),
        class_="rendered-heat",
    )


def shape_class(width: int, height: int) -> str:
    if max(width, height) > _STRETCHED * min(width, height):
        return "stretched"
    return "wide" if width >= height else "tall"


def scale_bar(made: Picture) -> Html:
    middle = (made.bottom + made.top) / 2
    return h(
        "div",
        h("img", src=scale_url(made.diverging), alt="", class_="scale"),
        h("div", [h("span", number_text(one)) for one in (made.bottom, middle, made.top)],
          class_="ends"),
        class_="scale-box",
        role="img",
        aria_label=f"Colours from {number_text(made.bottom)} to {number_text(made.top)}",
    )  # fmt: skip


def _point(context: OutputContext, settings: Settings, x: float, y: float) -> str:
    plane, lead = plane_at(context.array, chosen_plane(context, settings))
    down, across = thinning(plane.shape, SIDE)
    shown_rows, shown_columns = -(-plane.shape[0] // down), -(-plane.shape[1] // across)
    row = min(int(y * shown_rows), shown_rows - 1) * down
    column = min(int(x * shown_columns), shown_columns - 1) * across
    return f"{[*lead, row, column]}: {number_text(plane[row, column].item())}"


RENDERER = Renderer("heat", "Heat map", _fits, _draw, point=_point)

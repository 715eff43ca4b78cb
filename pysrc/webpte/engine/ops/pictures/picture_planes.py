"""A part of a picture as planes of floats, by a table of the colours.

    webpte.picture_planes.default(self, table, top, left, height, width) -> out

  self           uint8 [rows, columns, 4]: a pixel is a word, whose last byte is not read
  table          float [3, 257]: the float for each byte of each channel, and last the float for
                 pixels outside of the picture
  top, left      start of the part, which may begin before the picture, or end after it
  height, width  of the part
  out            float [3, height, width]

An operator of webpte's own. Every GPU gives the same floats, because it only reads the table.
"""

from __future__ import annotations

import numpy as np

from webpte.engine.ops.core.args import Args
from webpte.engine.ops.core.quads import WORKGROUP_SIZE, float_type
from webpte.engine.ops.core.records import Dispatch, ceil_div, fold_grid, pack
from webpte.engine.ops.core.registry import register
from webpte.engine.ops.core.row_reduction import check_floats
from webpte.engine.ops.pictures.scale_pixels import CHANNELS, is_picture
from webpte.engine.shapes import Dims
from webpte.errors import GraphError

Array = np.ndarray

PLANES = 3
OUTSIDE = 256  # column of the table for pixels outside of the picture


def picture_planes_shape(args: Args) -> tuple[Dims]:
    source, table = args.tensor("self"), args.tensor("table")
    height, width = args.integer("height"), args.integer("width")
    if not is_picture(source):
        raise GraphError(
            f"{args.call}: takes a picture uint8 [height, width, {CHANNELS}], not "
            f"{source.dtype.name} {list(source.dims)}"
        )
    check_floats(args, table, args.out)
    if table.dims != (PLANES, OUTSIDE + 1) or min(height, width) < 0:
        raise GraphError(
            f"{args.call}: takes a table [{PLANES}, {OUTSIDE + 1}] and a part of a size, not "
            f"{list(table.dims)} and {height} by {width} pixels"
        )
    return ((PLANES, height, width),)


def lower_picture_planes(args: Args) -> list[Dispatch]:
    source, table, out = args.tensor("self"), args.tensor("table"), args.out
    pixels = out.dims[1] * out.dims[2]
    if not pixels:
        return []
    places = args.integer("top"), args.integer("left"), *source.dims[:2]
    return [
        Dispatch(
            kernel="picture_planes",
            bindings=(source.id, table.id, out.id),
            params=pack("2I4i", pixels, out.dims[2], *places),
            grid=fold_grid(ceil_div(pixels, WORKGROUP_SIZE)),
            types=(("FLOAT", float_type(args, table, out)),),
        )
    ]


def run_picture_planes(args: Args) -> Array:
    source, table = args.array("self"), args.array("table")
    rows = args.integer("top") + np.arange(args.integer("height"))
    columns = args.integer("left") + np.arange(args.integer("width"))
    inside = ((rows >= 0) & (rows < source.shape[0]))[:, None] & (
        (columns >= 0) & (columns < source.shape[1])
    )
    found = np.full((*inside.shape, PLANES), OUTSIDE)
    kept = np.nonzero(inside)
    found[kept] = source[rows[kept[0]], columns[kept[1]], :PLANES]
    return np.stack([table[plane, found[:, :, plane]] for plane in range(PLANES)])


register(
    "webpte.picture_planes.default",
    "self: tensor, table: tensor, top: int, left: int, height: int, width: int -> tensor",
    shape=picture_planes_shape,
    lower=lower_picture_planes,
    reference=run_picture_planes,
)

"""A dim of a picture scaled by a filter with integer weights, as in Pillow.

    webpte.scale_pixels.default(self, starts, weights, dim) -> out

  self     uint8 [height, width, 4]: a pixel is a word
  starts   int32 [size]: the first pixel under the filter, for each new pixel
  weights  int32 [size, taps]: its weights, with 22 bits after the point; 0 beyond its end
  dim      0 scales the height, 1 the width
  out      uint8, with `size` pixels along that dim: sums rounded to bytes

An operator of webpte's own. Sums are int32, and therefore equal on every GPU and in NumPy. Beyond
the picture, its nearest pixel counts.
"""

from __future__ import annotations

import numpy as np

from webpte.engine.ops.core.args import Args, TensorArg
from webpte.engine.ops.core.quads import WORKGROUP_SIZE
from webpte.engine.ops.core.records import Dispatch, ceil_div, fold_grid, pack
from webpte.engine.ops.core.registry import register
from webpte.engine.shapes import Dims
from webpte.errors import GraphError

Array = np.ndarray

BITS = 22  # binary digits of a weight after the point
CHANNELS = 4


def is_picture(tensor: TensorArg) -> bool:
    """Return whether a tensor has pixels of four bytes."""
    return tensor.dtype.name == "uint8" and tensor.rank == 3 and tensor.dims[2] == CHANNELS


def scale_pixels_shape(args: Args) -> tuple[Dims]:
    source, starts, weights = (args.tensor(name) for name in ("self", "starts", "weights"))
    dim = args.integer("dim")
    if not is_picture(source) or args.out.dtype.name != "uint8" or dim not in (0, 1):
        raise GraphError(
            f"{args.call}: scales dim 0 or 1 of a picture uint8 [height, width, {CHANNELS}], not "
            f"dim {dim} of {source.dtype.name} {list(source.dims)}"
        )
    words = all(tensor.dtype.stored == "int32" for tensor in (starts, weights))
    if not words or weights.rank != 2 or starts.dims != weights.dims[:1]:
        raise GraphError(
            f"{args.call}: takes int32 starts [size] and weights [size, taps], not "
            f"{list(starts.dims)} and {list(weights.dims)}"
        )
    size, (height, width, _) = starts.dims[0], source.dims
    if size and not source.dims[dim]:
        raise GraphError(f"{args.call}: a picture without pixels cannot be scaled to {size}")
    return ((size, width, CHANNELS) if dim == 0 else (height, size, CHANNELS),)


def lower_scale_pixels(args: Args) -> list[Dispatch]:
    source, starts, weights = (args.tensor(name) for name in ("self", "starts", "weights"))
    out, dim = args.out, args.integer("dim")
    pixels = out.dims[0] * out.dims[1]
    if not pixels:
        return []
    return [
        Dispatch(
            kernel="scale_pixels",
            bindings=(source.id, starts.id, weights.id, out.id),
            params=pack(
                "6I", pixels, out.dims[1], source.dims[1], source.dims[dim], weights.dims[1], dim
            ),
            grid=fold_grid(ceil_div(pixels, WORKGROUP_SIZE)),
        )
    ]


def run_scale_pixels(args: Args) -> Array:
    source, starts, weights = (args.array(name) for name in ("self", "starts", "weights"))
    along = source if args.integer("dim") == 0 else source.swapaxes(0, 1)
    total = np.full((len(starts), *along.shape[1:]), 1 << (BITS - 1), np.int32)
    for tap in range(weights.shape[1]):
        places = (starts.astype(np.int64) + tap).clip(0, max(len(along) - 1, 0))
        total += along[places].astype(np.int32) * weights[:, tap, None, None].astype(np.int32)
    made = (total >> BITS).clip(0, 255).astype(np.uint8)
    return made if args.integer("dim") == 0 else made.swapaxes(0, 1)


register(
    "webpte.scale_pixels.default",
    "self: tensor, starts: tensor, weights: tensor, dim: int -> tensor",
    shape=scale_pixels_shape,
    lower=lower_scale_pixels,
    reference=run_scale_pixels,
)

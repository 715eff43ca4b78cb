"""Resizing of images (upsample), and sampling of images at given places (grid_sampler).

    upsample: self (B, C, H, W) -> (B, C, *output_size), or H and W times the scale factors
    grid_sampler_2d: input (B, C, H, W), grid (B, Y, X, 2) of (x, y) in -1 to 1 -> (B, C, Y, X)

Scale factors, if given, map outputs to inputs by their reciprocals, not by the ratio of the rounded
sizes, as in torch. Places are computed in float32, as in torch, so that rounding near a pixel's
edge agrees with torch.
"""

from __future__ import annotations

import numpy as np

from webpte.engine.ops.core.args import Args, TensorArg
from webpte.engine.ops.core.move_units import move, widest_unit
from webpte.engine.ops.core.quads import float_type, quad_count, quad_grid
from webpte.engine.ops.core.records import Dispatch, ceil_div, pack
from webpte.engine.ops.core.registry import register
from webpte.engine.shapes import Dims
from webpte.errors import GraphError, UnsupportedError

Array = np.ndarray

# Interpolation modes and paddings by torch's numbers, which the kernels share.
BILINEAR, NEAREST, BICUBIC = range(3)
ZEROS, BORDER, REFLECTION = range(3)
GRID_BLOCK = 8  # channels per invocation: BLOCK in wgsl/conv/resample_grid.wgsl


# Sizes


def resized_shape(args: Args) -> tuple[Dims]:
    x = args.tensor("self")
    if x.rank != 4:
        raise GraphError(f"{args.call}: takes (B, C, H, W), not {list(x.dims)}")
    sizes, factors = args.optional_integers("output_size"), args.optional_floats("scale_factors")
    if sizes is None:
        if factors is None or len(factors) != 2:
            raise GraphError(f"{args.call}: needs output_size or scale_factors, two numbers each")
        sizes = [int(size * factor) for size, factor in zip(x.dims[2:], factors, strict=True)]
    if len(sizes) != 2 or min(sizes) < 1 or min(x.dims[2:]) < 1:
        raise GraphError(f"{args.call}: {list(x.dims)} cannot be resized to {sizes}")
    return ((*x.dims[:2], *sizes),)


def same_type(args: Args, x: TensorArg, out: TensorArg) -> None:
    if x.dtype.stored != out.dtype.stored:
        raise GraphError(f"{args.call}: {x.dtype.name} cannot be resized to {out.dtype.name}")


def only_floats(args: Args, *tensors: TensorArg) -> None:
    for tensor in tensors:
        if not tensor.dtype.is_float:
            raise UnsupportedError(
                f"{args.call}: interpolates floats only, not {tensor.dtype.name}"
            )


def linear_shape(args: Args) -> tuple[Dims]:
    only_floats(args, args.tensor("self"), args.out)
    return resized_shape(args)


def scales(args: Args, align_corners: bool = False) -> tuple[float, float]:
    """Return the factors from outputs to inputs, for height and width."""
    x, out = args.tensor("self"), args.out
    factors = args.optional_floats("scale_factors") or [0.0, 0.0]
    found = []
    for in_size, out_size, factor in zip(x.dims[2:], out.dims[2:], factors, strict=True):
        scale = in_size / out_size
        if in_size == out_size:
            pass  # torch copies, for any factor
        elif align_corners:
            scale = (in_size - 1) / (out_size - 1) if out_size > 1 else 0.0
        elif factor > 0:
            scale = 1 / factor
        found.append(float(np.float32(scale)))
    return (found[0], found[1])


def nearest_scales(args: Args) -> tuple[float, float]:
    """Return the factors for nearest: exactly 0.5 if the size doubles, for any factor."""
    sizes = zip(scales(args), args.tensor("self").dims[2:], args.out.dims[2:], strict=True)
    h, w = (0.5 if out_size == 2 * in_size else scale for scale, in_size, out_size in sizes)
    return (h, w)


def lower_nearest(args: Args) -> list[Dispatch]:
    x, out = args.tensor("self"), args.out
    if out.numel == 0:
        return []
    same_type(args, x, out)
    unit = widest_unit(out.dtype, lambda elements: False)  # several outputs may read the same input
    params = pack("4I2f", *x.dims[2:], *out.dims[2:], *nearest_scales(args))
    return [move("resample", (x.id, out.id), unit, out.numel, params)]


def lower_linear(args: Args) -> list[Dispatch]:
    x, out, align = args.tensor("self"), args.out, args.flag("align_corners")
    if out.numel == 0:
        return []
    quads, sizes = quad_count(out.numel), (*x.dims[2:], *out.dims[2:])
    return [
        Dispatch(
            kernel="resample_linear",
            bindings=(x.id, out.id),
            params=pack("I4x4I2f", quads, *sizes, *scales(args, align)),
            grid=quad_grid(quads),
            types=(("FLOAT", float_type(args, x, out)),),
            overrides=(("ALIGN_CORNERS", align),),
        )
    ]


def run_nearest(args: Args) -> Array:
    x = args.array("self")
    for axis, scale in zip((2, 3), nearest_scales(args), strict=True):
        places = np.arange(args.out.dims[axis], dtype=np.float32) * np.float32(scale)
        x = x.take(np.minimum(places.astype(np.int64), x.shape[axis] - 1), axis)
    return x


def run_linear(args: Args) -> Array:
    align, half = args.flag("align_corners"), np.float32(0.5)
    x = args.array("self").astype(np.float64)
    for axis, scale in zip((2, 3), map(np.float32, scales(args, align)), strict=True):
        places, last = np.arange(args.out.dims[axis], dtype=np.float32), x.shape[axis] - 1
        at = places * scale if align else np.maximum((places + half) * scale - half, 0)
        before = np.minimum(at.astype(np.int64), last)
        share = np.clip(at - before, 0, 1).astype(np.float64)
        share = share.reshape([-1 if i == axis else 1 for i in range(4)])
        x = x.take(before, axis) * (1 - share) + x.take(np.minimum(before + 1, last), axis) * share
    return x


# Grids


def grid_shape(args: Args) -> tuple[Dims]:
    x, grid = args.tensor("input"), args.tensor("grid")
    only_floats(args, x, grid, args.out)
    grid_options(args)
    fits = x.rank == grid.rank == 4 and x.dims[0] == grid.dims[0] and grid.dims[3] == 2
    if not fits or min(x.dims[2:]) < 1:
        raise GraphError(
            f"{args.call}: takes (B, C, H, W) and (B, Y, X, 2), "
            f"not {list(x.dims)} and {list(grid.dims)}"
        )
    return ((*x.dims[:2], *grid.dims[1:3]),)


def grid_options(args: Args) -> tuple[int, int, bool]:
    mode, padding = args.integer("interpolation_mode"), args.integer("padding_mode")
    if mode not in (BILINEAR, NEAREST, BICUBIC):
        raise UnsupportedError(
            f"{args.call}: interpolation_mode {mode}; "
            "known are 0 (bilinear), 1 (nearest) and 2 (bicubic)"
        )
    if padding not in (ZEROS, BORDER, REFLECTION):
        raise UnsupportedError(
            f"{args.call}: padding_mode {padding}; "
            "known are 0 (zeros), 1 (border) and 2 (reflection)"
        )
    return mode, padding, args.flag("align_corners")


def lower_grid(args: Args) -> list[Dispatch]:
    x, grid, out = args.tensor("input"), args.tensor("grid"), args.out
    mode, padding, align = grid_options(args)
    if out.numel == 0:
        return []
    places, blocks = out.dims[2] * out.dims[3], ceil_div(x.dims[1], GRID_BLOCK)
    return [
        Dispatch(
            kernel="resample_grid",
            bindings=(x.id, grid.id, out.id),
            params=pack("6I", places, x.dims[0], x.dims[1], blocks, *x.dims[2:]),
            grid=quad_grid(x.dims[0] * blocks * places),
            types=(("FLOAT", float_type(args, x, grid, out)),),
            overrides=(("ALIGN_CORNERS", align), ("MODE", mode), ("PADDING", padding)),
        )
    ]


def reflected(x: Array, size: int, align: bool) -> Array:
    low, span = (0, size - 1) if align else (-0.5, size)
    if span == 0:
        return np.zeros_like(x)
    flips, rest = np.divmod(np.abs(x - low), span)
    return low + np.where(flips % 2 == 1, span - rest, rest)


def settled(x: Array, size: int, padding: int, align: bool) -> Array:
    """Move places outside of the image inside, for border and reflection padding."""
    if padding == ZEROS:
        return x
    return np.clip(reflected(x, size, align) if padding == REFLECTION else x, 0, size - 1)


def cubic_weights(t: Array) -> list[Array]:
    def weight(distance: Array) -> Array:
        a, d = -0.75, np.abs(distance)
        near = ((a + 2) * d - (a + 3)) * d * d + 1
        return np.where(d <= 1, near, ((a * d - 5 * a) * d + 8 * a) * d - 4 * a)

    return [weight(t - step) for step in (-1, 0, 1, 2)]


def grid_taps(
    coordinate: Array, size: int, mode: int, padding: int, align: bool
) -> list[tuple[Array, Array]]:
    """Return places along one axis and their weights; the weight outside of the image is 0."""
    wide = coordinate.astype(np.float32).astype(np.float64)
    x = (wide + 1) / 2 * (size - 1) if align else ((wide + 1) * size - 1) / 2
    x = np.where(np.isfinite(x) & (np.abs(x) <= 1e9), x, -100.0)
    if mode == BICUBIC:
        first, weights = np.floor(x) - 1, cubic_weights(x - np.floor(x))
        places = [np.trunc(settled(first + i, size, padding, align)) for i in range(4)]
    elif mode == NEAREST:
        places, weights = [np.round(settled(x, size, padding, align))], [np.ones_like(x)]
    else:
        at = settled(x, size, padding, align)
        places = [np.floor(at), np.floor(at) + 1]
        weights = [places[1] - at, at - places[0]]
    found = []
    for place, weight in zip(places, weights, strict=True):
        inside = (place >= 0) & (place < size)
        found.append((np.where(inside, place, 0).astype(np.int64), np.where(inside, weight, 0)))
    return found


def run_grid(args: Args) -> Array:
    x, grid, options = args.array("input"), args.array("grid"), grid_options(args)
    total = np.zeros(args.out.dims)
    images = np.arange(x.shape[0]).reshape(-1, 1, 1)
    for h, weight_h in grid_taps(grid[..., 1], x.shape[2], *options):
        for w, weight_w in grid_taps(grid[..., 0], x.shape[3], *options):
            picked = x[images, :, h, w].astype(np.float64)  # (B, Y, X, C)
            total += np.moveaxis(picked * (weight_h * weight_w)[..., None], -1, 1)
    return total


register(
    "aten.upsample_nearest2d.vec",
    "self: tensor, output_size: ints?, scale_factors: floats? -> tensor",
    shape=resized_shape,
    lower=lower_nearest,
    reference=run_nearest,
)
register(
    "aten.upsample_bilinear2d.vec",
    "self: tensor, output_size: ints?, align_corners: bool, scale_factors: floats? -> tensor",
    shape=linear_shape,
    lower=lower_linear,
    reference=run_linear,
)
register(
    "aten.grid_sampler_2d.default",
    "input: tensor, grid: tensor, interpolation_mode: int, padding_mode: int, "
    "align_corners: bool -> tensor",
    shape=grid_shape,
    lower=lower_grid,
    reference=run_grid,
)

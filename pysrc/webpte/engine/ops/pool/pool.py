"""2D pooling: averages, or maxima and their indices, over windows of height and width.

    self (C, H, W) or (B, C, H, W); out has the same rank, with sizes as in `out_size`
    indices: h * W + w of the maximum in its channel; of argmax_pool2d, w * KH + h in its window

Two are XNNPACK's: argmax_pool2d has windows side by side, webpte.avg_pool2d has padding [top, left,
bottom, right], which does not count.

A window starts at o * stride - padding and has kernel elements, dilation apart (averages have no
dilation). An average divides by divisor_override, by the number of elements inside of the input, or
inside of the padded input; padding never counts for a maximum.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from webpte.engine.ops.core.args import Args, TensorArg
from webpte.engine.ops.core.quads import INT32_MIN, quad_count, quad_grid
from webpte.engine.ops.core.records import Dispatch, Scratch, pack
from webpte.engine.ops.core.registry import register
from webpte.engine.shapes import Dims, numel, window_count
from webpte.errors import GraphError

Array = np.ndarray
Pair = tuple[int, int]

AVERAGE = (
    "self: tensor, kernel_size: ints, stride: ints? = None, padding: ints? = None, "
    "ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int? = None "
    "-> tensor"
)
MAXIMUM = (
    "self: tensor, kernel_size: ints, stride: ints? = None, padding: ints? = None, "
    "dilation: ints? = None, ceil_mode: bool = False"
)

# (taps, lanes): a window of fewer taps than this is shared by so many threads.
LANES = ((32, 1), (512, 16), (math.inf, 64))


@dataclass(frozen=True)
class Pool:
    """A checked call; pairs are (height, width)."""

    outer: Dims  # the dims before height and width
    in_size: Pair
    out_size: Pair
    kernel: Pair
    stride: Pair
    padding: Pair
    dilation: Pair


def pair(args: Args, name: str, default: Pair | None) -> Pair:
    """Return (height, width) from a single number or two; an empty list means the default."""
    items = args.optional_integers(name) or default
    if items is None or len(items) not in (1, 2):
        raise GraphError(f"{args.call}: {name} must have 1 or 2 numbers, not {items}")
    if min(items) < (0 if name == "padding" else 1):
        raise GraphError(f"{args.call}: {name} {list(items)} is too small")
    return (items[0], items[-1])


def out_size(args: Args, size: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    reach = dilation * (kernel - 1) + 1
    if padding > reach // 2:
        raise GraphError(f"{args.call}: padding {padding} is more than half of a window of {reach}")
    count = window_count(size, kernel, stride, padding, dilation, args.flag("ceil_mode"))
    if count < 1:
        raise GraphError(f"{args.call}: a window of {reach} does not fit a size of {size}")
    return count


def image_of(args: Args) -> TensorArg:
    """Return the input, after checking its rank and dtype."""
    x, out = args.tensor("self"), args.outs[0]
    if x.rank not in (3, 4):
        raise GraphError(f"{args.call}: takes (C, H, W) or (B, C, H, W), not {list(x.dims)}")
    if x.dtype.stored != out.dtype.stored or x.dtype.name == "bool":
        raise GraphError(f"{args.call}: {x.dtype.name} cannot be pooled to {out.dtype.name}")
    return x


def read_call(args: Args, dilated: bool) -> Pool:
    x = image_of(args)
    kernel = pair(args, "kernel_size", None)
    stride = pair(args, "stride", kernel)
    padding = pair(args, "padding", (0, 0))
    dilation = pair(args, "dilation", (1, 1)) if dilated else (1, 1)
    sizes = [
        out_size(args, *numbers)
        for numbers in zip(x.dims[-2:], kernel, stride, padding, dilation, strict=True)
    ]
    in_size = (x.dims[-2], x.dims[-1])
    return Pool(x.dims[:-2], in_size, (sizes[0], sizes[1]), kernel, stride, padding, dilation)


def uneven_call(args: Args) -> Pool:
    """Read an average with a padding for each side; every window has an element of the image."""
    x, items = image_of(args), args.integers("padding")
    kernel, stride = pair(args, "kernel_size", None), pair(args, "stride", None)
    if len(items) != 4 or min(items) < 0:
        raise GraphError(f"{args.call}: padding {items} is not [top, left, bottom, right]")
    if any(item >= size for item, size in zip(items, kernel * 2, strict=True)):
        raise GraphError(f"{args.call}: windows of {list(kernel)} in the padding {list(items)}")
    counts = [
        window_count(size + end - start, window, step, start, 1, ceil_mode=False)
        for size, start, end, window, step in zip(
            *(x.dims[-2:], items[:2], items[2:], kernel, stride), strict=True
        )
    ]
    if min(counts) < 1:
        raise GraphError(f"{args.call}: a window of {list(kernel)} does not fit {list(x.dims)}")
    in_size, padding = (x.dims[-2], x.dims[-1]), (items[0], items[1])
    return Pool(x.dims[:-2], in_size, (counts[0], counts[1]), kernel, stride, padding, (1, 1))


def average_shape(args: Args, uneven: bool) -> tuple[Dims]:
    pool = uneven_call(args) if uneven else read_call(args, dilated=False)
    return ((*pool.outer, *pool.out_size),)


def maximum_shape(args: Args) -> tuple[Dims]:
    pool = read_call(args, dilated=True)
    for indices in args.outs[1:]:
        if indices.dtype.stored != "int32":
            raise GraphError(f"{args.call}: indices are int32 or int64, not {indices.dtype.name}")
    return ((*pool.outer, *pool.out_size),)


def divisor_override(args: Args) -> int:
    """Return the divisor; 0 means absent, as a divisor of 0 is an error."""
    divisor = args.optional_integer("divisor_override")
    if divisor == 0:
        raise GraphError(f"{args.call}: divisor_override must not be 0")
    return divisor or 0


def lower_pool(
    args: Args,
    pool: Pool,
    kernel: str,
    extra: tuple[int | Scratch, ...] = (),
    divisor: int = 0,
    overrides: tuple[tuple[str, float], ...] = (),
) -> list[Dispatch]:
    x, out = args.tensor("self"), args.outs[0]
    if out.numel == 0:
        return []
    floats = x.dtype.is_float
    lanes = next(lanes for taps, lanes in LANES if math.prod(pool.kernel) < taps)
    if args.target.software:
        lanes = 1
    quads = quad_count(out.numel)
    return [
        Dispatch(
            kernel=kernel,
            bindings=(x.id, out.id, *extra),
            params=pack(
                "I4x2i2I8ii" + ("f" if floats else "i"),
                quads,
                *(*pool.in_size, *pool.out_size, *pool.kernel),
                *(*pool.stride, *pool.padding, *pool.dilation),
                divisor,
                -math.inf if floats else INT32_MIN,
            ),
            grid=quad_grid(quads * lanes),
            types=(("STORED", x.dtype.wgsl), ("VALUE", "f32" if floats else "i32")),
            overrides=(("KERNEL_W", pool.kernel[1]), ("LANES", lanes), *overrides),
        )
    ]


def lower_uneven(args: Args) -> list[Dispatch]:
    return lower_pool(args, uneven_call(args), "pool", overrides=(("COUNT_PADDING", False),))


def lower_average(args: Args) -> list[Dispatch]:
    pool, counted = read_call(args, dilated=False), args.flag("count_include_pad")
    return lower_pool(
        args,
        pool,
        kernel="pool",
        divisor=divisor_override(args),
        overrides=(("COUNT_PADDING", counted),),
    )


def argmax_call(args: Args) -> Pool:
    """Read windows that lie side by side; elements that do not fill a window are left out."""
    x, kernel = args.tensor("self"), pair(args, "kernel_size", None)
    values, indices = args.outs
    if x.rank not in (3, 4) or not x.dtype.is_float or values.dtype.stored != x.dtype.stored:
        raise GraphError(f"{args.call}: takes floats of rank 3 or 4, not {x.dtype.name} {x.dims}")
    if indices.dtype.stored != "int32":
        raise GraphError(f"{args.call}: indices are int32 or int64, not {indices.dtype.name}")
    height, width = x.dims[-2] // kernel[0], x.dims[-1] // kernel[1]
    if height == 0 or width == 0:
        raise GraphError(f"{args.call}: a window of {list(kernel)} does not fit {list(x.dims)}")
    in_size = (x.dims[-2], x.dims[-1])
    return Pool(x.dims[:-2], in_size, (height, width), kernel, kernel, (0, 0), (1, 1))


def argmax_shape(args: Args) -> tuple[Dims, Dims]:
    pool = argmax_call(args)
    return ((*pool.outer, *pool.out_size),) * 2


def lower_argmax(args: Args) -> list[Dispatch]:
    overrides = (("FLOATS", True), ("IN_WINDOW", True), ("WITH_INDICES", True))
    return lower_pool(
        args, argmax_call(args), "pool_max", extra=(args.outs[1].id,), overrides=overrides
    )


def lower_maximum(args: Args) -> list[Dispatch]:
    pool, outs = read_call(args, dilated=True), args.outs
    with_indices = len(outs) == 2
    # The shader declares a binding for indices even where it writes none.
    extra = outs[1].id if with_indices else Scratch("pool_indices", 16)
    return lower_pool(
        args,
        pool,
        kernel="pool_max",
        extra=(extra,),
        overrides=(("FLOATS", outs[0].dtype.is_float), ("WITH_INDICES", with_indices)),
    )


# NumPy


def padded(pool: Pool, x: Array, fill: float) -> Array:
    """Pad the array in front, and at the end up to the reach of the last window."""
    widths = [(0, 0)] * len(pool.outer)
    for n, o, k, s, p, d in zip(
        *(pool.in_size, pool.out_size, pool.kernel, pool.stride, pool.padding, pool.dilation),
        strict=True,
    ):
        widths.append((p, max((o - 1) * s + (k - 1) * d + 1 - n - p, 0)))
    return np.pad(x, widths, constant_values=fill)


def taps(pool: Pool, x: Array) -> Iterator[Array]:
    """Yield a view of the padded array per tap of the window, [..., *out_size]."""
    for tap in np.ndindex(*pool.kernel):
        h, w = (
            slice(t * d, t * d + (o - 1) * s + 1, s)
            for t, d, o, s in zip(tap, pool.dilation, pool.out_size, pool.stride, strict=True)
        )
        yield x[..., h, w]


def run_average(args: Args) -> Array:
    pool, counted = read_call(args, dilated=False), args.flag("count_include_pad")
    return average(pool, args.array("self"), divisor_override(args), counted)


def run_uneven(args: Args) -> Array:
    return average(uneven_call(args), args.array("self"), 0, counted=False)


def average(pool: Pool, x: Array, override: int, counted: bool) -> Array:
    """Return averages; `counted` is whether the padding counts."""
    floats = x.dtype.kind == "f"
    wide = x.astype(np.float64 if floats else np.int64)
    total = sum(taps(pool, padded(pool, wide, 0)), np.zeros((), wide.dtype))
    divisor: int | Array = override
    if not override:
        inside = np.ones(pool.in_size, np.int64)
        if counted:
            inside = np.pad(inside, [(p, p) for p in pool.padding], constant_values=1)
            within = Pool((), inside.shape, pool.out_size, *window_of(pool, (0, 0)))
        else:
            within = Pool((), pool.in_size, pool.out_size, *window_of(pool, pool.padding))
        divisor = np.maximum(sum(taps(within, padded(within, inside, 0))), 1)
    return total / divisor if floats else np.trunc(total / divisor).astype(np.int64)


def window_of(pool: Pool, padding: Pair) -> tuple[Pair, Pair, Pair, Pair]:
    return pool.kernel, pool.stride, padding, pool.dilation


def run_argmax(args: Args) -> list[Array]:
    pool = argmax_call(args)
    best, found = maximum(pool, args.array("self"))
    w = found % pool.in_size[1] % pool.kernel[1]
    h = found // pool.in_size[1] % pool.kernel[0]
    return [best, (w * pool.kernel[0] + h).astype(np.int32)]


def run_maximum(args: Args) -> list[Array]:
    best, found = maximum(read_call(args, dilated=True), args.array("self"))
    return [best, found.astype(np.int32)][: len(args.outs)]


def maximum(pool: Pool, x: Array) -> tuple[Array, Array]:
    """Return maxima and their places."""
    lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    places = np.arange(numel(pool.in_size)).reshape(pool.in_size)
    flat = Pool((), pool.in_size, pool.out_size, *window_of(pool, pool.padding))
    best = np.full((*pool.outer, *pool.out_size), lowest, x.dtype)
    found = np.full(best.shape, -1)
    for values, place in zip(
        taps(pool, padded(pool, x, lowest)), taps(flat, padded(flat, places, -1)), strict=True
    ):
        wins = (place >= 0) & ((values > best) | (values != values) | (found < 0))
        best, found = np.where(wins, values, best), np.where(wins, place, found)
    found = np.where(found < 0, first_places(pool), found)
    return best, found


def first_places(pool: Pool) -> Array:
    """Return the first tap inside the input, because taps can step over a small input."""
    h, w = (
        (first := np.arange(o) * s - p) + np.maximum(-(first // d), 0) * d
        for o, s, p, d in zip(pool.out_size, pool.stride, pool.padding, pool.dilation, strict=True)
    )
    return h[:, None] * pool.in_size[1] + w


register(
    "aten.avg_pool2d.default",
    AVERAGE,
    shape=lambda args: average_shape(args, uneven=False),
    lower=lower_average,
    reference=run_average,
)
register(
    "webpte.avg_pool2d.default",
    "self: tensor, kernel_size: ints, stride: ints, padding: ints -> tensor",
    shape=lambda args: average_shape(args, uneven=True),
    lower=lower_uneven,
    reference=run_uneven,
)
register(
    "webpte.argmax_pool2d.default",
    "self: tensor, kernel_size: ints -> tensors",
    shape=argmax_shape,
    lower=lower_argmax,
    reference=run_argmax,
)
register(
    "aten.max_pool2d_with_indices.default",
    f"{MAXIMUM} -> tensors",
    shape=lambda args: maximum_shape(args) * 2,
    lower=lower_maximum,
    reference=run_maximum,
)
register(
    "aten.max_pool2d.default",
    f"{MAXIMUM} -> tensor",
    shape=maximum_shape,
    lower=lower_maximum,
    reference=run_maximum,
)

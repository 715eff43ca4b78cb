"""Tensors computed from their shape and scalars alone: out[i] = f(i), in any element type.

    full, zeros, ones, scalar_tensor and the _like forms    a constant
    arange.start_step(start, end, step)                     start + i * step
    et_vk.grid_priors(self (.., H, W), stride, offset)      (H * W, 2): the points of a grid,
                                                            ((x + offset) * stride, (y + ..) * ..)

A row has the shape, the WGSL formula of the flat index `i` and the scalars `a` and `b`, and the
NumPy function. An arange that starts at a SymInt reads it in the kernel: a language model's
positions start anew in every step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from webpte.engine.ops.core.args import Args
from webpte.engine.ops.core.move_units import NO_INDEX, scalar_as, symint_of
from webpte.engine.ops.core.quads import INT32_MAX, INT32_MIN, fits_int32, quad_count, quad_grid
from webpte.engine.ops.core.records import Dispatch, SymIntBound, ceil_div, pack
from webpte.engine.ops.core.registry import ShapeFunction, register
from webpte.engine.shapes import Dims, numel
from webpte.errors import GraphError

Array = np.ndarray
Scalars = tuple[float, float]


@dataclass(frozen=True)
class Fill:
    """A single op. `scalars` are the formula's `a` and `b`; `width` is the width of a grid."""

    name: str
    signature: str
    shape: ShapeFunction
    numpy: Callable[[Args], Array]
    scalars: Callable[[Args], Scalars]
    formula: str = "a"
    width: Callable[[Args], int] = lambda args: 1
    live: str | None = None  # the argument that becomes the formula's `start` if it is a SymInt
    bounds: Callable[[Args], Sequence[SymIntBound]] = lambda args: ()


# Constants


def size_shape(args: Args) -> tuple[Dims]:
    sizes = tuple(args.integers("size"))
    if min(sizes, default=0) < 0:
        raise GraphError(f"{args.call}: {list(sizes)} is not a shape")
    return (sizes,)


def like_shape(args: Args) -> tuple[Dims]:
    return (args.tensor("self").dims,)


def value_of(args: Args) -> Scalars:
    return scalar_as(args, args.number("value"), args.out.dtype), 0


def run_full(args: Args, value: float) -> Array:
    return np.full(args.out.dims, np.array(value).astype(args.out.dtype.numpy))


# Arange


def arange_ends(args: Args) -> tuple[float, float, float]:
    """Return (start, end, step); integer outputs truncate them first, as in torch."""
    integral = not args.out.dtype.is_float
    start, end, step = (args.number(name) for name in ("start", "end", "step"))
    if integral:
        start, end, step = int(start), int(end), int(step)
    if step == 0 or (integral and not (fits_int32(start) and fits_int32(step))):
        raise GraphError(f"{args.call}: cannot count from {start} in steps of {step}")
    return start, end, step


def arange_shape(args: Args) -> tuple[Dims]:
    start, end, step = arange_ends(args)
    whole = isinstance(start, int) and isinstance(end, int) and isinstance(step, int)
    length = ceil_div(end - start, step) if whole else math.ceil((end - start) / step)  # type: ignore[arg-type]
    return ((max(length, 0),),)


def arange_bounds(args: Args) -> list[SymIntBound]:
    """Return the range of a live end; check a fixed end, or a live start, at once."""
    start, end, step = arange_ends(args)
    why = f"{args.call}: counts from {start} in steps of {step}, away from its end"
    symint = symint_of(args, "end")
    if symint is not None and symint_of(args, "start") is None:
        low, high = (math.ceil(start), INT32_MAX) if step > 0 else (INT32_MIN, math.floor(start))
        return [SymIntBound(symint.value_id, low, high, why)]
    if (end - start) * step < 0:
        raise GraphError(f"{why}: {end}")
    return []


def arange_scalars(args: Args) -> Scalars:
    start, _, step = arange_ends(args)
    return (0 if symint_of(args, "start") else start), step


def run_arange(args: Args) -> Array:
    start, _, step = arange_ends(args)
    indices = np.arange(numel(args.out.dims), dtype=np.int64)
    return (start + indices * step).astype(args.out.dtype.numpy)


# Grid


def grid_of(args: Args) -> tuple[int, int]:
    dims = args.tensor("self").dims
    if len(dims) < 2:
        raise GraphError(f"{args.call}: {list(dims)} has no height and width")
    return dims[-2], dims[-1]


def grid_scalars(args: Args) -> Scalars:
    dtype = args.out.dtype
    return (
        scalar_as(args, args.number("offset"), dtype),
        scalar_as(args, args.number("stride"), dtype),
    )


def run_grid(args: Args) -> Array:
    y, x = np.indices(grid_of(args)).reshape(2, -1)
    points = np.stack([x, y], axis=1) + np.float64(args.number("offset"))
    return (points * args.number("stride")).astype(args.out.dtype.numpy)


FACTORY = "dtype: any = None, layout: any = None, device: any = None, pin_memory: any = None"
LIKE = f"{FACTORY}, memory_format: any = None"
ARANGE = "start + a + Vec(i) * b"
GRID = "(Vec(select(i / 2u / width, i / 2u % width, i % 2u == vec4<u32>())) + a) * b"


def constant(name: str, signature: str, shape: ShapeFunction, value: int | None = None) -> Fill:
    """Return a row for a constant `value`, or for the named argument if `value` is None."""
    if value is None:
        return Fill(
            name, signature, shape, lambda args: run_full(args, value_of(args)[0]), value_of
        )
    return Fill(name, signature, shape, lambda args: run_full(args, value), lambda args: (value, 0))


FILLS = (
    constant("aten.full.default", f"size: ints, value: number, {FACTORY} -> tensor", size_shape),
    constant(
        "aten.full_like.default", f"self: tensor, value: number, {LIKE} -> tensor", like_shape
    ),
    constant("aten.zeros.default", f"size: ints, {FACTORY} -> tensor", size_shape, 0),
    constant("aten.ones.default", f"size: ints, {FACTORY} -> tensor", size_shape, 1),
    constant("aten.zeros_like.default", f"self: tensor, {LIKE} -> tensor", like_shape, 0),
    constant("aten.ones_like.default", f"self: tensor, {LIKE} -> tensor", like_shape, 1),
    constant(
        "aten.scalar_tensor.default", f"value: number, {FACTORY} -> tensor", lambda args: ((),)
    ),
    Fill(
        "aten.arange.start_step",
        f"start: int, end: int, step: number = 1, {FACTORY} -> tensor",
        arange_shape,
        run_arange,
        arange_scalars,
        ARANGE,
        live="start",
        bounds=arange_bounds,
    ),
    Fill(
        "et_vk.grid_priors.default",
        "self: tensor, stride: int, offset: number -> tensor",
        lambda args: ((numel(grid_of(args)), 2),),
        run_grid,
        grid_scalars,
        GRID,
        width=lambda args: grid_of(args)[1],
    ),
)


def lower_fill(op: Fill, args: Args) -> list[Dispatch]:
    out, quads = args.out, quad_count(args.out.numel)
    if quads == 0:
        return []
    compute = "f32" if out.dtype.is_float else "i32"
    start = symint_of(args, op.live) if op.live else None
    dispatch = Dispatch(
        kernel="fill",
        bindings=(out.id, start or NO_INDEX),
        params=pack(f"2I2{compute[0]}", out.numel, op.width(args), *op.scalars(args)),
        grid=quad_grid(quads),
        types=(("COMPUTE", compute), ("FORMULA", op.formula), ("OUT", out.dtype.wgsl)),
    )
    return [dispatch]


for _op in FILLS:
    register(
        _op.name,
        _op.signature,
        shape=_op.shape,
        lower=lambda args, op=_op: lower_fill(op, args),  # type: ignore[misc]
        bounds=_op.bounds,
        reference=_op.numpy,
    )

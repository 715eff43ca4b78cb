"""Helpers of the element-wise families: the computed type, grids over quads, packed axes.

A quad is four consecutive elements. One invocation of an element-wise kernel computes one quad, as
a vec4 (wgsl/lib/quads.wgsl), so a kernel needs a quarter of the invocations and loads 16 bytes of
float32 at once; the last quad of a tensor may be partly filled.
"""

from __future__ import annotations

import numpy as np

from webpte.engine.dtypes import INT32_MAX, INT32_MIN, DType
from webpte.engine.ops.core.args import Args, TensorArg
from webpte.engine.ops.core.records import Grid, ceil_div, fold_grid
from webpte.engine.shapes import Dims, collapse
from webpte.errors import UnsupportedError

QUAD = 4  # elements per invocation
WORKGROUP_SIZE = 64  # also in wgsl/lib/grid.wgsl
MAX_AXES = 12  # also in wgsl/lib/axes.wgsl
COMPARING = (  # two tensors, or a tensor and a number
    ("eq", "==", np.equal),
    ("ne", "!=", np.not_equal),
    ("lt", "<", np.less),
    ("le", "<=", np.less_equal),
    ("gt", ">", np.greater),
    ("ge", ">=", np.greater_equal),
)

__all__ = [
    "COMPARING",
    "INT32_MAX",
    "INT32_MIN",
    "MAX_AXES",
    "QUAD",
    "WORKGROUP_SIZE",
    "clamp_int32",
    "common_type",
    "fits_int32",
    "float_type",
    "pack_axes",
    "quad_count",
    "quad_grid",
    "same_shape",
]


def same_shape(args: Args) -> tuple[Dims]:
    """Return the input's shape, for ops that keep it."""
    return (args.tensor("self").dims,)


def quad_count(numel: int) -> int:
    return ceil_div(numel, QUAD)


def quad_grid(quads: int) -> Grid:
    return fold_grid(ceil_div(quads, WORKGROUP_SIZE))


def common_type(*dtypes: DType) -> str:
    """Return the type to compute operands in: f32 if any is a float, else i32."""
    return "f32" if any(dtype.is_float for dtype in dtypes) else "i32"


def fits_int32(value: float) -> bool:
    return float(value).is_integer() and INT32_MIN <= value <= INT32_MAX


def clamp_int32(value: float) -> int:
    """Clamp an integer bound to int32; infinities become the ends of the range."""
    return int(min(max(value, INT32_MIN), INT32_MAX))


def pack_axes(args: Args, dims: Dims, *strides: Dims) -> tuple[int, list[int]]:
    """Pack `axes` of wgsl/lib/axes.wgsl for up to three operands: rank and MAX_AXES * 4 words."""
    sizes, steps = collapse(dims, *strides)
    if len(sizes) > MAX_AXES:
        raise UnsupportedError(
            f"{args.call}: {len(sizes)} axes are left after merging; the kernels take {MAX_AXES}"
        )
    words: list[int] = []
    for axis, size in enumerate(sizes):
        row = [size, *(step[axis] for step in steps)]
        words += row + [0] * (4 - len(row))
    return len(sizes), words + [0] * (4 * MAX_AXES - len(words))


def float_type(args: Args, *tensors: TensorArg | None) -> str:
    """Return the storage type of a dispatch's float tensors: f32 or f16; raise if mixed."""
    stored = {tensor.dtype.wgsl for tensor in tensors if tensor is not None}
    if not stored <= {"f32"} and not stored <= {"f16"}:
        raise UnsupportedError(f"{args.call}: its kernel does not mix tensors of {sorted(stored)}")
    return "f16" if stored == {"f16"} else "f32"

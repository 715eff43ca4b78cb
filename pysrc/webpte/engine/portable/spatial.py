"""Kernels of images: padding and resampling."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from webpte.engine.portable.registry import register, register_op
from webpte.errors import ExecutionError

Array = np.ndarray

# kernel: (parameters, equivalent op of delegates)
SAME_AS_OP = {
    "aten::constant_pad_nd.out": ("self, pad, value", "aten.constant_pad_nd.default"),
    "aten::grid_sampler_2d.out": (
        "input, grid, interpolation_mode, padding_mode, align_corners",
        "aten.grid_sampler_2d.default",
    ),
    "aten::upsample_bilinear2d.vec_out": (
        "input, output_size, align_corners, scale_factors",
        "aten.upsample_bilinear2d.vec",
    ),
    "aten::upsample_nearest2d.vec_out": (
        "input, output_size, scale_factors",
        "aten.upsample_nearest2d.vec",
    ),
}


def pad_border(mode: str, x: Array, padding: Sequence[int]) -> Array:
    """Pad an array; `padding` has (before, after) of the last dim first, as in pad.py."""
    pairs = list(zip(padding[::2], padding[1::2], strict=True))[::-1]
    inner = x.shape[-len(pairs) :]
    most = [size - 1 if mode == "reflect" else size for size in inner]
    if min(padding, default=0) < 0 or any(
        max(pair) > limit and mode == "reflect" for pair, limit in zip(pairs, most, strict=True)
    ):
        raise ExecutionError(f"{list(x.shape)} cannot have borders of {list(padding)}")
    if 0 in inner:
        raise ExecutionError(f"{list(x.shape)} has no elements to make a border of")
    widths = [(0, 0)] * (x.ndim - len(pairs)) + pairs
    return np.pad(x, widths, mode=mode)  # type: ignore[call-overload]


# Other sizes


def factors(scales_h: float | None, scales_w: float | None) -> list[float] | None:
    """Return both scale factors, or None; the op takes 0 for a missing factor."""
    if scales_h is None and scales_w is None:
        return None
    return [scales_h or 0.0, scales_w or 0.0]


def nearest_arguments(
    x: Array, size: Sequence[int], scales_h: float | None, scales_w: float | None
) -> tuple[object, ...]:
    return x, size, factors(scales_h, scales_w)


def bilinear_arguments(
    x: Array, size: Sequence[int], align: bool, scales_h: float | None, scales_w: float | None
) -> tuple[object, ...]:
    return x, size, align, factors(scales_h, scales_w)


def smoothing_weights(size: int, count: int, align: bool, factor: float | None) -> Array:
    """Return the weights (count, size) of each input for each output, antialiased."""
    if align:
        scale = (size - 1) / (count - 1) if count > 1 else 0.0
    else:
        scale = 1 / factor if factor else size / count
    reach = max(scale, 1.0)
    centers = scale * (np.arange(count)[:, None] + 0.5)
    places = np.arange(size)
    first = np.maximum((centers - reach + 0.5).astype(np.int64), 0)
    last = np.minimum((centers + reach + 0.5).astype(np.int64), size)
    weights = np.maximum(1 - np.abs((places + 0.5 - centers) / reach), 0)
    weights = np.where((places >= first) & (places < last), weights, 0)
    return weights / weights.sum(axis=1, keepdims=True)


def smooth_bilinear(
    x: Array,
    output_size: Sequence[int],
    align: bool,
    scales_h: float | None,
    scales_w: float | None,
) -> Array:
    height, width = output_size
    down = smoothing_weights(x.shape[-2], height, align, scales_h)
    across = smoothing_weights(x.shape[-1], width, align, scales_w)
    return (down @ x.astype(np.float64) @ across.T).astype(x.dtype)


for _name, (_parameters, _op) in SAME_AS_OP.items():
    register_op(_name, _parameters, _op, notes=f"`{_op}`")

for _dims in (1, 2, 3):
    register(f"aten::reflection_pad{_dims}d.out", "self, padding", partial(pad_border, "reflect"))
    register(f"aten::replication_pad{_dims}d.out", "self, padding", partial(pad_border, "edge"))

register_op(
    "aten::upsample_nearest2d.out",
    "self, output_size, scales_h, scales_w",
    "aten.upsample_nearest2d.vec",
    prepare=nearest_arguments,
    notes="`aten.upsample_nearest2d.vec`",
)
register_op(
    "aten::upsample_bilinear2d.out",
    "self, output_size, align_corners, scales_h, scales_w",
    "aten.upsample_bilinear2d.vec",
    prepare=bilinear_arguments,
    notes="`aten.upsample_bilinear2d.vec`",
)
register(
    "aten::_upsample_bilinear2d_aa.out",
    "self, output_size, align_corners, scales_h, scales_w",
    smooth_bilinear,
)

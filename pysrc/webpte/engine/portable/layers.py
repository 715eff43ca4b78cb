"""Kernels of layers: GEMMs, convolutions, pools, normalizations, softmax, distances.

Most kernels run the reference of an equivalent op of delegates; sums are in float64, so that a
result is rounded only once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from webpte.engine.ops.core.numpy_math import np_sigmoid
from webpte.engine.ops.norm.norm import np_affine, np_normalize
from webpte.engine.ops.pool.adaptive_pool import window_averages
from webpte.engine.portable.promotion import float_type, result_type
from webpte.engine.portable.registry import INDICES, register, register_op
from webpte.engine.shapes import normalize_dim
from webpte.errors import ExecutionError

Array = np.ndarray

WINDOW = "self, kernel_size, stride, padding"

# kernel: (parameters, equivalent op of delegates)
PRODUCTS = {
    "aten::addmm.out": ("self, mat1, mat2, beta, alpha", "aten.addmm.default"),
    "aten::bmm.out": ("self, mat2", "aten.bmm.default"),
    "aten::linear.out": ("input, weight, bias", "aten.linear.default"),
    "aten::mm.out": ("self, mat2", "aten.mm.default"),
}

# Ops other than GEMMs, with the number of outputs.
SAME_AS_OP = {
    "aten::_log_softmax.out": ("self, dim, half_to_float", "aten._log_softmax.default", 1),
    "aten::_native_batch_norm_legit_no_training.out": (
        "input, weight, bias, running_mean, running_var, momentum, eps",
        "aten._native_batch_norm_legit_no_training.default",
        3,
    ),
    "aten::_softmax.out": ("self, dim, half_to_float", "aten._softmax.default", 1),
    "aten::avg_pool2d.out": (
        f"{WINDOW}, ceil_mode, count_include_pad, divisor_override",
        "aten.avg_pool2d.default",
        1,
    ),
    "aten::max_pool2d_with_indices.out": (
        f"{WINDOW}, dilation, ceil_mode",
        "aten.max_pool2d_with_indices.default",
        2,
    ),
    "aten::native_group_norm.out": (
        "input, weight, bias, N, C, HxW, group, eps",
        "aten.native_group_norm.default",
        3,
    ),
    "aten::native_layer_norm.out": (
        "input, normalized_shape, weight, bias, eps",
        "aten.native_layer_norm.default",
        3,
    ),
}


# GEMMs


def wide(x: Array) -> Array:
    return x.astype(np.float64 if x.dtype.kind == "f" else np.int64)


def exactly(function: Callable[..., Array]) -> Callable[..., Array]:
    """Wrap a sum of products of two arrays: computed in a wide type, rounded once."""
    return lambda x, y: np.asarray(function(wide(x), wide(y))).astype(result_type(x, y))


def add_bmm(x: Array, a: Array, b: Array, beta: float, alpha: float) -> Array:
    result = alpha * np.matmul(wide(a), wide(b))
    # PyTorch ignores an operand that it multiplies by 0, even NaN.
    return (result if beta == 0 else result + beta * wide(x)).astype(result_type(a, b))


def add_batches(x: Array, a: Array, b: Array, beta: float, alpha: float) -> Array:
    """Return beta * x + alpha * the sum of a[i] @ b[i], as a single GEMM with the batch along k."""
    side_by_side = a.transpose(1, 0, 2).reshape(a.shape[1], -1)
    return add_bmm(x, side_by_side, b.reshape(-1, b.shape[2]), beta, alpha)


# Normalization by the statistics of the batch itself


def batch_norm(
    x: Array, weight: Array | None, bias: Array | None, training: bool, momentum: float, eps: float
) -> tuple[Array, Array, Array]:
    """Normalize by the statistics of the batch, in training and without."""
    axes, shape = (0, *range(2, x.ndim)), (x.shape[1],) + (1,) * (x.ndim - 2)
    normal, mean, rstd = np_normalize(x, eps, axes)
    results = np_affine(normal, weight, bias, shape), mean.reshape(-1), rstd.reshape(-1)
    return tuple(result.astype(x.dtype) for result in results)  # type: ignore[return-value]


def batch_norm_with_running(
    x: Array,
    weight: Array | None,
    bias: Array | None,
    mean: Array,
    variance: Array,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Array, Array, Array]:
    """Normalize by running statistics; training would have to update the arguments."""
    if training:
        raise ExecutionError("training=True; export the model after model.eval()")
    shape = (x.shape[1],) + (1,) * (x.ndim - 2)
    wide = x.astype(np.float64)
    normal = (wide - mean.reshape(shape)) / np.sqrt(
        variance.reshape(shape).astype(np.float64) + eps
    )
    nothing = np.zeros((0,), x.dtype)
    return np_affine(normal, weight, bias, shape).astype(x.dtype), nothing, nothing


# Gates


def gated(x: Array, dim: int) -> Array:
    axis = normalize_dim(dim, x.ndim)
    if x.ndim == 0 or x.shape[axis] % 2:
        raise ExecutionError(f"{list(x.shape)} has no halves along dim {dim}")
    values, gates = np.split(x.astype(np.float64), 2, axis)
    return (values * np_sigmoid(gates)).astype(float_type(x.dtype))


# Pools whose windows follow from the output's size


def adaptive_average(x: Array, output_size: Sequence[int]) -> Array:
    return window_averages(x, output_size).astype(x.dtype)


# Distances


def distance(difference: Array, p: float) -> Array:
    """Return the p-norm along the last dim."""
    size = np.abs(difference)
    if p == 0:
        return np.asarray(np.sum(size != 0, axis=-1, dtype=np.float64))
    if math.isinf(p):
        return np.asarray(np.max(size, axis=-1, initial=0))
    return np.asarray(np.sum(size**p, axis=-1) ** (1 / p))


def pairwise(x1: Array, x2: Array, p: float, compute_mode: int | None) -> Array:
    difference = x1[..., :, None, :].astype(np.float64) - x2[..., None, :, :]
    return distance(difference, p).astype(x1.dtype)


def pairs_of_rows(x: Array, p: float) -> Array:
    first, second = np.triu_indices(x.shape[0], 1)
    return distance(x.astype(np.float64)[first] - x[second], p).astype(x.dtype)


def mse_loss(x: Array, target: Array, reduction: int) -> Array:
    """Return the squared error; `reduction` is numbered as in PyTorch: 0 none, 1 mean, 2 sum."""
    squares = (x.astype(np.float64) - target) ** 2
    choose: dict[int, Callable[[Array], Any]] = {0: np.asarray, 1: np.mean, 2: np.sum}
    return np.asarray(choose[reduction](squares)).astype(result_type(x, target))


for _name, (_parameters, _op) in PRODUCTS.items():
    register_op(_name, _parameters, _op, notes=f"`{_op}`", heavy=True)
for _name, (_parameters, _op, _outputs) in SAME_AS_OP.items():
    _apart = {"out1": INDICES} if _op.startswith("aten.max_pool") else {}
    register_op(_name, _parameters, _op, outputs=_outputs, notes=f"`{_op}`", apart=_apart)

register("aten::matmul.out", "self, other", exactly(np.matmul))
register("aten::dot.out", "self, tensor", exactly(np.dot))
register("aten::mv.out", "self, vec", exactly(np.matmul))
register("aten::baddbmm.out", "self, batch1, batch2, beta, alpha", add_bmm)
register("aten::addbmm.out", "self, batch1, batch2, beta, alpha", add_batches)
register("aten::addmv.out", "self, mat, vec, beta, alpha", add_bmm)
register(
    "aten::_native_batch_norm_legit.no_stats_out",
    "input, weight, bias, training, momentum, eps",
    batch_norm,
    outputs=3,
    op="aten._native_batch_norm_legit.no_stats",
)
register(
    "aten::_native_batch_norm_legit.out",
    "input, weight, bias, running_mean, running_var, training, momentum, eps",
    batch_norm_with_running,
    outputs=3,
)
register("aten::glu.out", "self, dim", gated)
for _name, _dims in (
    ("_adaptive_avg_pool2d", 2),
    ("adaptive_avg_pool2d", 2),
    ("adaptive_avg_pool1d", 1),
    ("_adaptive_avg_pool3d", 3),
):
    register(
        f"aten::{_name}.out",
        "self, output_size",
        adaptive_average,
        op=f"aten._adaptive_avg_pool{_dims}d.default",
    )
for _dims in (2, 3):
    _op = f"aten.adaptive_max_pool{_dims}d.default"
    register_op(
        f"aten::adaptive_max_pool{_dims}d.out",
        "self, output_size",
        _op,
        outputs=2,
        notes=f"`{_op}`",
        apart={"out1": INDICES},
    )
register("aten::_cdist_forward.out", "x1, x2, p, compute_mode", pairwise)
register("aten::_pdist_forward.out", "self, p", pairs_of_rows)
register(
    "aten::dist.out",
    "self, other, p",
    lambda x, y, p: distance((x.astype(np.float64) - y).reshape(-1), p).astype(result_type(x, y)),
)
register("aten::mse_loss.out", "self, target, reduction", mse_loss)

"""Linear layers of int8: x int8 [.., K] @ W^T with W int8 [N, K], a scale per row of W.

    linear_q8ta_q8csw              floats: (sum of (x - zero) * w) * x_scale * scales[n] + bias[n]
    q8ta_linear, q8ta_linear_gemv  likewise, an optional relu, and requantization to int8

The last two are equal: the number of rows and the target decide about the kernel.
Scales and biases may be more than N (the exporter rounds up to a multiple of four), rows of W
longer than K. The sums of W's rows are ignored.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from webpte.engine.ops.core.args import Args, TensorArg
from webpte.engine.ops.core.quads import quad_grid
from webpte.engine.ops.core.records import Binding, Dispatch, Scratch, ceil_div, fold_grid, pack
from webpte.engine.ops.core.registry import register
from webpte.engine.ops.int8.int8 import (
    PerChannel,
    Scaling,
    check_int8,
    check_per_channel,
    check_terms,
    choose_tile,
    flip,
    floats_memory,
    read_scaling,
    types_of,
)
from webpte.engine.ops.quant.quantize import RowParams, requantize_dispatch
from webpte.engine.shapes import Dims, numel
from webpte.errors import GraphError

Array = np.ndarray

INPUTS = "x: tensor, x_scale: number, x_zero: int, weight: tensor, sums: any, scales: tensor"
FLOAT = f"{INPUTS}, bias: tensor? = None -> tensor"
INT8 = (
    f"{INPUTS}, out_scale: number, out_zero: int, bias: tensor? = None, activation: str = 'none' "
    "-> tensor"
)
OPS = {
    "et_vk.linear_q8ta_q8csw.default": FLOAT,
    "et_vk.q8ta_linear.default": INT8,
    "et_vk.q8ta_linear_gemv.default": INT8,
}

# Rows per step of the skinny kernel, and the most rows for which it is faster than tiles.
ROWS_AT_ONCE = (1, 2, 4)
FEW_ROWS = 16


@dataclass(frozen=True)
class LinearQ8:
    """A checked call."""

    x: TensorArg
    weights: PerChannel
    scaling: Scaling
    rows: RowParams | None = None
    quantized: Scratch | None = None  # x, if it comes as floats

    @property
    def weight(self) -> TensorArg:
        return self.weights.weight

    @property
    def m(self) -> int:
        return numel(self.x.dims[:-1])

    @property
    def n(self) -> int:
        return self.weight.dims[0]

    @property
    def k(self) -> int:
        return self.x.dims[-1]

    @property
    def row_bytes(self) -> int:
        return self.weight.dims[1]

    @property
    def inputs(self) -> tuple[Binding, ...]:
        scale, zero = (row.id for row in self.rows[:2]) if self.rows else (None, None)
        return self.quantized or self.x.id, *self.weights.bindings, scale, zero

    def types(self, args: Args, out: TensorArg | None) -> tuple[tuple[str, str], ...]:
        scale, zero = (row.dtype.wgsl for row in self.rows[:2]) if self.rows else ("f32", "i32")
        return *self.weights.types(args, out), ("SCALE", scale), ("ZERO", zero)

    @property
    def overrides(self) -> tuple[tuple[str, float], ...]:
        return (
            *self.weights.overrides,
            *flip("X_FLIP", self.x),
            *((("ROW_PARAMS", True), *self.rows.overrides) if self.rows else ()),
            ("WEIGHT_ALIGNED", self.k % 4 == 0 and self.row_bytes % 4 == 0),
            ("X_ALIGNED", self.k % 4 == 0),
        )


def read_call(args: Args, quantized: bool) -> LinearQ8:
    check_int8(args, args.tensor("x"), args.tensor("weight"))
    weights = PerChannel(args.tensor("weight"), args.tensor("scales"), args.optional_tensor("bias"))
    check_weights(args, weights)
    return LinearQ8(args.tensor("x"), weights, read_scaling(args, quantized))


def check_weights(args: Args, weights: PerChannel) -> None:
    """Check that weights [N, K], scales and biases fit rows of x."""
    x, weight = args.tensor("x"), weights.weight
    fits = (
        x.rank > 0
        and weight.rank == 2
        and x.dims[-1] <= weight.dims[1] <= 4 * ceil_div(x.dims[-1], 4)
    )
    if not fits:
        raise GraphError(
            f"{args.call}: weights {list(weight.dims)} do not fit rows of x {list(x.dims)}"
        )
    check_per_channel(args, "scales", weights.scales, weight.dims[0])
    check_per_channel(args, "bias", weights.bias, weight.dims[0], weights.integer_bias)


def linear_shape(args: Args, quantized: bool) -> tuple[Dims]:
    linear = read_call(args, quantized)
    if quantized:
        check_int8(args, args.out)
    elif not args.out.dtype.is_float:
        raise GraphError(f"{args.call}: makes floats, not {args.out.dtype.name}")
    return ((*linear.x.dims[:-1], linear.n),)


def lower_linear(args: Args, linear: LinearQ8) -> list[Dispatch]:
    """Lower to a GEMM, and to another dispatch where it cannot write the output's type."""
    scaling, out = linear.scaling, args.out
    check_terms(args, linear.k)
    if out.numel == 0:
        return []
    if scaling.inverse is None:
        return [gemm_dispatch(args, linear, out.id, out.dtype.wgsl)]
    # Outputs are written as whole words; other rows are written as floats and requantized.
    if linear.n % 4 == 0:
        return [gemm_dispatch(args, linear, out.id, "u32")]
    memory, bounds = floats_memory(out.numel), (scaling.low, scaling.high)
    return [
        gemm_dispatch(args, linear, memory, "f32"),
        requantize_dispatch(memory, out, scaling.inverse, scaling.zero, bounds),
    ]


def gemm_dispatch(args: Args, linear: LinearQ8, target: Binding, written: str) -> Dispatch:
    """Return the GEMM; `written` is the type of the output, u32 for bytes."""
    types: tuple[tuple[str, str], ...] = ()
    # Only the simple kernel knows the zeros of weights.
    simple = args.target.software or linear.scaling.weight_zero != 0
    if simple:
        kernel, parts = "q8ta_linear_simple", (linear.m, ceil_div(linear.n, 4))
    elif linear.m <= FEW_ROWS:
        rows = next((rows for rows in ROWS_AT_ONCE if rows >= linear.m), ROWS_AT_ONCE[-1])
        parts = ceil_div(linear.m, rows), ceil_div(linear.n, 4)
        kernel, types = "q8ta_linear_skinny", types_of(ROWS=rows)
    else:
        tile = choose_tile(linear.m, linear.n, args.target)
        parts = tile.count(linear.m, linear.n)
        kernel, types = "q8ta_linear", tile.types
    count = parts[0] * parts[1]
    floats = args.out if linear.scaling.inverse is None else None
    return Dispatch(
        kernel=kernel,
        bindings=(
            *(*linear.inputs, target),
            linear.scaling.params(linear.row_bytes, 0, linear.n),
        ),
        params=pack("5I", linear.m, linear.n, linear.k, *parts),
        grid=quad_grid(count) if simple else fold_grid(count),
        types=(*linear.types(args, floats), ("OUT", written), *types),
        overrides=(("BYTES", written == "u32"), *linear.overrides),
    )


def run_linear(args: Args, quantized: bool) -> Array:
    linear = read_call(args, quantized)
    scaling, bias = linear.scaling, args.optional_array("bias")
    # float64 holds every sum exactly, and its matrix multiplication is fast.
    x = args.array("x").astype(np.float64) - scaling.x_zero
    sums = x @ args.array("weight")[:, : linear.k].T.astype(np.float64)
    n = linear.n
    result = scaling.result(sums, args.array("scales")[:n], None if bias is None else bias[:n])
    return result.astype(args.out.dtype.numpy)


for _name, _signature in OPS.items():
    _quantized = _signature == INT8
    register(
        _name,
        _signature,
        shape=lambda args, quantized=_quantized: linear_shape(args, quantized),  # type: ignore[misc]
        lower=lambda args, quantized=_quantized: lower_linear(args, read_call(args, quantized)),  # type: ignore[misc]
        reference=lambda args, quantized=_quantized: run_linear(args, quantized),  # type: ignore[misc]
    )

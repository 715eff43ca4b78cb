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
from webpte.engine.ops.core.quads import float_type, quad_grid
from webpte.engine.ops.core.records import Binding, Dispatch, ceil_div, fold_grid, pack
from webpte.engine.ops.core.registry import register
from webpte.engine.ops.core.target import Target
from webpte.engine.ops.int8.int8 import (
    check_int8,
    check_per_channel,
    check_terms,
    choose_tile,
    floats_memory,
    read_scaling,
    types_of,
)
from webpte.engine.ops.quant.quantize import requantize_dispatch
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
    weight: TensorArg
    scales: TensorArg
    bias: TensorArg | None

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
        bias = None if self.bias is None else self.bias.id
        return self.x.id, self.weight.id, self.scales.id, bias

    @property
    def overrides(self) -> tuple[tuple[str, float], ...]:
        return (
            ("WEIGHT_ALIGNED", self.k % 4 == 0 and self.row_bytes % 4 == 0),
            ("X_ALIGNED", self.k % 4 == 0),
        )


def read_call(args: Args) -> LinearQ8:
    x, weight = args.tensor("x"), args.tensor("weight")
    scales, bias = args.tensor("scales"), args.optional_tensor("bias")
    check_int8(args, x, weight)
    fits = (
        x.rank > 0
        and weight.rank == 2
        and x.dims[-1] <= weight.dims[1] <= 4 * ceil_div(x.dims[-1], 4)
    )
    if not fits:
        raise GraphError(
            f"{args.call}: weights {list(weight.dims)} do not fit rows of x {list(x.dims)}"
        )
    check_per_channel(args, "scales", scales, weight.dims[0])
    check_per_channel(args, "bias", bias, weight.dims[0])
    return LinearQ8(x, weight, scales, bias)


def linear_shape(args: Args, quantized: bool) -> tuple[Dims]:
    linear = read_call(args)
    read_scaling(args, quantized)
    if quantized:
        check_int8(args, args.out)
    elif not args.out.dtype.is_float:
        raise GraphError(f"{args.call}: makes floats, not {args.out.dtype.name}")
    return ((*linear.x.dims[:-1], linear.n),)


def lower_linear(args: Args, quantized: bool) -> list[Dispatch]:
    linear, scaling, out = read_call(args), read_scaling(args, quantized), args.out
    check_terms(args, linear.k)
    if out.numel == 0:
        return []
    # Outputs are written as whole words; other rows are written as floats and requantized.
    whole = quantized and linear.n % 4 == 0
    memory = floats_memory(out.numel)
    target = out.id if whole or not quantized else memory
    uniform = scaling.params(linear.row_bytes, 0, linear.n)
    stored = float_type(args, linear.scales, linear.bias, None if quantized else out)
    written = "u32" if whole else "f32" if quantized else stored
    bindings = (*linear.inputs, target, uniform)
    gemm = gemm_dispatch(linear, bindings, stored, written, args.target)
    if target is not memory:
        return [gemm]
    assert scaling.inverse is not None
    return [gemm, requantize_dispatch(memory, out, scaling.inverse, scaling.zero)]


def gemm_dispatch(
    linear: LinearQ8, bindings: tuple[Binding, ...], stored: str, written: str, target: Target
) -> Dispatch:
    """Return the GEMM; scales and biases are `stored`; `written` is u32 (bytes) or a float."""
    types: tuple[tuple[str, str], ...] = ()
    if target.software:
        kernel, parts = "q8ta_linear_simple", (linear.m, ceil_div(linear.n, 4))
    elif linear.m <= FEW_ROWS:
        rows = next((rows for rows in ROWS_AT_ONCE if rows >= linear.m), ROWS_AT_ONCE[-1])
        parts = ceil_div(linear.m, rows), ceil_div(linear.n, 4)
        kernel, types = "q8ta_linear_skinny", types_of(ROWS=rows)
    else:
        tile = choose_tile(linear.m, linear.n, target)
        parts = tile.count(linear.m, linear.n)
        kernel, types = "q8ta_linear", tile.types
    count = parts[0] * parts[1]
    return Dispatch(
        kernel=kernel,
        bindings=bindings,
        params=pack("5I", linear.m, linear.n, linear.k, *parts),
        grid=quad_grid(count) if target.software else fold_grid(count),
        types=(("FLOAT", stored), ("OUT", written), *types),
        overrides=(("BYTES", written == "u32"), *linear.overrides),
    )


def run_linear(args: Args, quantized: bool) -> Array:
    linear, scaling = read_call(args), read_scaling(args, quantized)
    bias = args.optional_array("bias")
    # float64 holds every sum exactly, and its matrix multiplication is fast.
    x = args.array("x").astype(np.float64) - scaling.x_zero
    sums = x @ args.array("weight")[:, : linear.k].T.astype(np.float64)
    n = linear.n
    return scaling.result(sums, args.array("scales")[:n], None if bias is None else bias[:n])


for _name, _signature in OPS.items():
    _quantized = _signature == INT8
    register(
        _name,
        _signature,
        shape=lambda args, quantized=_quantized: linear_shape(args, quantized),  # type: ignore[misc]
        lower=lambda args, quantized=_quantized: lower_linear(args, quantized),  # type: ignore[misc]
        reference=lambda args, quantized=_quantized: run_linear(args, quantized),  # type: ignore[misc]
    )

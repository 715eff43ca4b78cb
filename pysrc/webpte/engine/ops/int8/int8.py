"""Scales and zeros, tiles and requantization: the base of the int8 families.

    v = (sum of (x - x_zero) * w) * (x_scale * w_scale) + bias, at least 0 after a relu
    out = clamp(round(v / out_scale) + out_zero, -128, 127)

Sums are exact integers; v and all that follows is float32, rounded after each operation. Operators
of XNNPACK add an integer bias to the sums, and have a single scale for the rest (q8.py):

    v = (sum of (x - x_zero) * (w - w_zero) + bias) * scale
    out = clamp(round(v) + out_zero, low, high)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from webpte.engine.ops.core.args import Args, TensorArg
from webpte.engine.ops.core.quads import float_type
from webpte.engine.ops.core.records import Binding, Scratch, ceil_div, pack
from webpte.engine.ops.core.target import Target
from webpte.engine.ops.quant.quantize import inverse_of, np_quantize
from webpte.errors import GraphError, UnsupportedError

Array = np.ndarray

ACTIVATIONS = ("none", "relu")
LOWEST = float(np.finfo(np.float32).min)
UNSIGNED_FLIP = 0x80808080
# A 32-bit sum holds this many products of a byte and a difference of bytes.
MAX_TERMS = (2**31 - 1) // (128 * 255)


@dataclass(frozen=True)
class Scaling:
    """The scales and zeros of wgsl/lib/int8/int8.wgsl; `inverse` is None for a float output."""

    x_scale: float
    x_zero: int
    inverse: float | None = None
    zero: int = 0
    relu: bool = False
    low: int = -128
    high: int = 127
    weight_zero: int = 0
    integer_bias: bool = False

    def params(self, row_bytes: int, tap_bytes: int, scales: int) -> bytes:
        return pack(
            "fi3f4I2fi",
            *(self.x_scale, self.x_zero, self.inverse or 0, self.zero),
            *(0 if self.relu else LOWEST, 0, row_bytes, tap_bytes, scales),
            *(self.low, self.high, self.weight_zero),
        )

    def floats(self, sums: Array, scales: Array, bias: Array | None) -> Array:
        """Compute v from integer sums, with scales and biases that broadcast with them."""
        if self.integer_bias and bias is not None:
            sums, bias = sums + bias, None
        v = sums.astype(np.float32) * (np.float32(self.x_scale) * scales.astype(np.float32))
        if bias is not None:
            v = v + bias.astype(np.float32)
        return np.maximum(v, np.float32(0)) if self.relu else v

    def result(self, sums: Array, scales: Array, bias: Array | None) -> Array:
        v = self.floats(sums, scales, bias)
        if self.inverse is None:
            return v
        return np_quantize(v, self.inverse, self.zero, (self.low, self.high))


def read_scaling(args: Args, quantized: bool) -> Scaling:
    """Read x_scale and x_zero, and for int8 outputs the scale, zero and activation."""
    if not quantized:
        return Scaling(args.number("x_scale"), args.integer("x_zero"))
    activation = args.string("activation")
    if activation not in ACTIVATIONS:
        known = " and ".join(ACTIVATIONS)
        raise UnsupportedError(f"{args.call}: activation={activation!r}; known are {known}")
    return Scaling(
        args.number("x_scale"),
        args.integer("x_zero"),
        inverse_of(args, args.number("out_scale")),
        args.integer("out_zero"),
        activation == "relu",
    )


def check_int8(args: Args, *tensors: TensorArg) -> None:
    for tensor in tensors:
        if tensor.dtype.name != "int8":
            raise UnsupportedError(
                f"{args.call}: value {tensor.id} is {tensor.dtype.name}; only int8 is supported"
            )


def check_per_channel(
    args: Args, name: str, tensor: TensorArg | None, channels: int, integers: bool = False
) -> None:
    """Check for a number per channel; the exporter of Vulkan pads them to a multiple of 4."""
    if tensor is None:
        return
    if integers and tensor.dtype.name != "int32":
        raise GraphError(f"{args.call}: {name} is int32, not {tensor.dtype.name}")
    if not integers and not tensor.dtype.is_float:
        raise GraphError(f"{args.call}: {name} are floats, not {tensor.dtype.name}")
    if tensor.rank != 1 or tensor.numel < channels:
        raise GraphError(f"{args.call}: {name} {list(tensor.dims)} for {channels} channels")


def check_terms(args: Args, terms: int) -> None:
    if terms > MAX_TERMS:
        raise UnsupportedError(
            f"{args.call}: sums of {terms} products do not fit 32 bits; {MAX_TERMS} do"
        )


@dataclass(frozen=True)
class PerChannel:
    """Weights of a call, with the scales and biases of their channels."""

    weight: TensorArg
    scales: TensorArg
    bias: TensorArg | None
    integer_bias: bool = False

    @property
    def bindings(self) -> tuple[Binding, Binding, Binding]:
        return self.weight.id, self.scales.id, None if self.bias is None else self.bias.id

    def types(self, args: Args, out: TensorArg | None = None) -> tuple[tuple[str, str], ...]:
        """Return the stored types of scales and biases."""
        floats = (self.scales, None if self.integer_bias else self.bias)
        stored = float_type(args, *floats, out)
        return ("BIAS", "i32" if self.integer_bias else stored), ("FLOAT", stored)

    @property
    def overrides(self) -> tuple[tuple[str, float], ...]:
        integer = (("INTEGER_BIAS", True),) if self.integer_bias else ()
        return *integer, *flip("WEIGHT_FLIP", self.weight)


def flip(name: str, tensor: TensorArg) -> tuple[tuple[str, float], ...]:
    """Return the constant by which kernels make unsigned bytes signed, 128 less; () for int8."""
    return ((name, UNSIGNED_FLIP),) if tensor.dtype.name == "uint8" else ()


def types_of(**constants: int) -> tuple[tuple[str, str], ...]:
    """Return numbers as text constants (`${NAME}`)."""
    return tuple((name, str(value)) for name, value in constants.items())


@dataclass(frozen=True)
class Int8Tile:
    """Constants of wgsl/lib/int8/int8_tile.wgsl."""

    rows: int
    columns: int
    step: int

    @property
    def types(self) -> tuple[tuple[str, str], ...]:
        return types_of(STEP=self.step, TILE_COLUMNS=self.columns, TILE_ROWS=self.rows)

    def count(self, rows: int, columns: int) -> tuple[int, int]:
        return ceil_div(rows, self.rows), ceil_div(columns, self.columns)


LARGE, SMALL, FLAT = Int8Tile(64, 64, 16), Int8Tile(32, 32, 8), Int8Tile(16, 64, 8)
# Enough workgroups to keep a GPU of 132 cores busy.
FULL = 256


def choose_tile(rows: int, columns: int, target: Target, copies: int = 1) -> Int8Tile:
    """Return the largest tile that yields enough workgroups."""
    if rows <= FLAT.rows:
        return FLAT
    high, wide = LARGE.count(rows, columns)
    return LARGE if high * wide * copies >= target.adapter.workgroups(FULL) else SMALL


def floats_memory(numel: int) -> Scratch:
    """Return scratch for floats before requantization; calls of similar size share it."""
    return Scratch("int8 floats", max(16, 4 << (numel - 1).bit_length()))

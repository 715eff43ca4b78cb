"""Weights as integers of 4 or 8 bits: their packing and their scales.

The counterpart of wgsl/lib/gemm/q4_weights.wgsl.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from webpte.engine.ops.core.args import Args, TensorArg
from webpte.engine.ops.core.records import ceil_div, pack
from webpte.errors import GraphError, UnsupportedError

Array = np.ndarray

# Values of FORMAT in wgsl/lib/gemm/q4_weights.wgsl.
LOW_FIRST, HIGH_FIRST, BYTES = 0, 1, 2
# Larger than any k: all values of a row share a scale.
WHOLE_ROW = 1 << 31


@dataclass(frozen=True)
class PackedWeights:
    """Weights [rows, inner] with their packing and their scales."""

    tensor: TensorArg
    scales: TensorArg
    format: int
    inner: int
    group: int
    scale_stride: int

    @property
    def rows(self) -> int:
        return self.tensor.dims[0]

    @property
    def row_bytes(self) -> int:
        return self.tensor.dims[1]

    @property
    def aligned(self) -> bool:
        """Whether four values lie in one word and share a scale."""
        step = 4 if self.format == BYTES else 2
        return self.row_bytes % step == 0 and self.group % 4 == 0

    @property
    def in_words(self) -> bool:
        """Whether eight values fill whole words and share a scale."""
        return self.row_bytes % 4 == 0 and self.group % 8 == 0

    @property
    def wide(self) -> bool:
        """Whether rows are multiples of 16 bytes, and the values of each 16 bytes share a scale."""
        per_unit = 16 if self.format == BYTES else 32
        return self.row_bytes % 16 == 0 and self.group % per_unit == 0

    @property
    def in_quads(self) -> bool:
        """Whether the GEMV kernels and the skinny kernels of several weights take these weights:
        wide, with rows and scales in multiples of four.
        """
        return self.wide and self.rows % 4 == 0 and self.scale_stride % 4 == 0

    @property
    def steps(self) -> int:
        """Steps of a skinny kernel along a row of W."""
        return self.row_bytes // 16 if self.wide else ceil_div(self.inner, 4)

    @property
    def params(self) -> bytes:
        return pack("4I", self.inner, self.row_bytes, self.group, self.scale_stride)

    @property
    def unit_overrides(self) -> tuple[tuple[str, float], ...]:
        """Override constants of kernels that take only wide weights."""
        return (("FORMAT", self.format), ("GROUP_SIZE", self.group))

    @property
    def overrides(self) -> tuple[tuple[str, float], ...]:
        return (
            *self.unit_overrides,
            ("SCALES_ALIGNED", self.scale_stride % 4 == 0),
            ("WEIGHTS_ALIGNED", self.aligned),
        )


def check_types(args: Args, floats: tuple[TensorArg | None, ...], weight: TensorArg) -> None:
    for tensor in floats:
        if tensor is not None and not tensor.dtype.is_float:
            raise UnsupportedError(
                f"{args.call}: value {tensor.id} is {tensor.dtype.name}; only floats are supported"
            )
    if weight.rank != 2 or weight.dtype.itemsize != 1:
        raise GraphError(
            f"{args.call}: packed weights are a matrix of bytes, "
            f"not {weight.dtype.name} {list(weight.dims)}"
        )


def grouped(args: Args, weight: TensorArg, inner: int) -> PackedWeights:
    """Return codes of 4 bits with scales [groups, rows], after checking the scales."""
    scales, group = args.tensor("scales"), args.integer("group_size")
    enough = (
        group > 0
        and scales.rank == 2
        and scales.dims[0] * group >= inner
        and scales.dims[1] >= weight.dims[0]
    )
    if not enough:
        raise GraphError(
            f"{args.call}: scales {list(scales.dims)} do not cover {weight.dims[0]} rows "
            f"of {inner} weights in groups of {group}"
        )
    return PackedWeights(weight, scales, LOW_FIRST, inner, group, scales.dims[1])


def per_row(args: Args, weight: TensorArg, inner: int, packing: int) -> PackedWeights:
    scales = args.tensor("scales")
    if scales.numel < weight.dims[0]:
        raise GraphError(f"{args.call}: {scales.numel} scales for {weight.dims[0]} rows of weights")
    return PackedWeights(weight, scales, packing, inner, WHOLE_ROW, 0)


def fits(inner: int, row_bytes: int) -> bool:
    """Return whether packed rows hold `inner` values, padded to at most a multiple of 8."""
    return (inner + 1) // 2 <= row_bytes <= (inner + 7) // 8 * 4


def unpacked(weights: PackedWeights, array: Array, scales: Array) -> Array:
    """Return the weights as float64 [rows, inner]."""
    if weights.format == BYTES:
        codes = array.view(np.int8).astype(np.float64)
    else:
        bytes_ = array.view(np.uint8)
        codes = np.empty((*bytes_.shape, 2))
        high = 0 if weights.format == HIGH_FIRST else 1
        codes[..., high], codes[..., 1 - high] = bytes_ >> 4, bytes_ & 15
        codes -= 8
    codes = codes.reshape(weights.rows, -1)[:, : weights.inner]
    if weights.group == WHOLE_ROW:
        return codes * scales.reshape(-1, 1)[: weights.rows].astype(np.float64)
    groups = -(-weights.inner // weights.group)
    of_rows = scales[:groups, : weights.rows].T.astype(np.float64)
    if groups * weights.group == weights.inner:
        in_groups = codes.reshape(weights.rows, groups, weights.group)
        in_groups *= of_rows[:, :, None]
        return in_groups.reshape(weights.rows, weights.inner)
    return codes * np.repeat(of_rows, weights.group, axis=1)[:, : weights.inner]

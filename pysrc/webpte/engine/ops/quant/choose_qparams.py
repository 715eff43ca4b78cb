"""Scales and zero points computed from live values, for dynamic quantization.

    choose_qparams_affine(x, mapping, block_size, ...)     a pair per block of x
    choose_qparams.tensor(x, qmin, qmax, eps)              a pair for all of x
    choose_qparams_per_token_asymmetric(x)                 a pair per row, for int8
    choose_qparams_qd8(x, nonbatch_dims)                   a pair per row, as XNNPACK has them

With lowest = min(block, 0) and highest = max(block, 0):

    ASYMMETRIC                 scale = (highest - lowest) / (qmax - qmin)
                               zero = qmin - round(lowest / scale)
    SYMMETRIC                  scale = max(-lowest, highest) / ((qmax - qmin) / 2)
    SYMMETRIC_NO_CLIPPING_ERR  scale = max(lowest / qmin, highest / qmax)
                               zero = (qmin + qmax + 1) / 2, for both symmetric mappings
    per token                  asymmetric, but zero from the end of the range with the smaller error
    qd8                        likewise, computed from s = 255 / (highest - lowest), or 1 if both
                               are 0; s itself is the result, and its readers are told `inverted`

A scale is never below eps. XNNPACK rounds x * s: 1 / (1 / s) may differ from s in the last bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from webpte.engine.ops.core.args import Args, TensorArg
from webpte.engine.ops.core.quads import quad_count, quad_grid
from webpte.engine.ops.core.records import Binding, Dispatch, Scratch, ceil_div, pack
from webpte.engine.ops.core.registry import register
from webpte.engine.ops.core.row_reduction import ONE_LANE, RowThreads, check_floats, power_of_two
from webpte.engine.ops.core.target import GPU, Target
from webpte.engine.shapes import Dims, collapse, contiguous_strides, numel
from webpte.errors import GraphError, UnsupportedError

Array = np.ndarray

# Values of MAPPING in wgsl/quant/choose_qparams.wgsl.
MAPPINGS = {"ASYMMETRIC": 0, "SYMMETRIC": 1, "SYMMETRIC_NO_CLIPPING_ERR": 2}
LEAST_ERROR = 3
INVERSE_FIRST = 4

MAX_AXES = 16  # also in wgsl/lib/quant/min_max.wgsl
MOST_LANES = 64  # per block: a workgroup of 256 takes 4 blocks
ITEMS_PER_LANE = 128  # a longer block is split
MOST_PARTS = 256

SMALLEST_NORMAL = float(np.finfo(np.float32).smallest_normal)
FLOAT_EPSILON = float(np.finfo(np.float32).eps)
INTEGER_RANGES = {"int8": (-128, 127), "uint8": (0, 255)}


@dataclass(frozen=True)
class QParamsRule:
    """The rule of a call: mapping, integer range, least scale, and the blocks of x."""

    mapping: int
    low: int
    high: int
    epsilon: float
    block: Dims
    out_dims: Dims

    @property
    def middle(self) -> int:
        return int((self.low + self.high + 1) / 2)


@dataclass(frozen=True)
class ChooseQParams:
    """A single op: its arguments, and the rule that they define."""

    name: str
    signature: str
    rule: Callable[[Args], QParamsRule]


def affine_rule(args: Args) -> QParamsRule:
    x, mapping, block = args.tensor("x"), args.string("mapping"), args.integers("block_size")
    if mapping not in MAPPINGS:
        raise UnsupportedError(
            f"{args.call}: mapping {mapping!r} is not supported; use one of {', '.join(MAPPINGS)}"
        )
    whole = len(block) == x.rank and all(
        size > 0 and dim % size == 0 for dim, size in zip(x.dims, block, strict=False)
    )
    if not whole:
        raise GraphError(f"{args.call}: blocks of {block} do not tile {list(x.dims)}")
    low, high = args.optional_integer("quant_min"), args.optional_integer("quant_max")
    bounds = INTEGER_RANGES.get(args.outs[1].dtype.name)
    if low is None or high is None:
        # The file does not name the integer range; it follows from the zeros' dtype.
        if bounds is None:
            raise UnsupportedError(f"{args.call}: quant_min and quant_max are missing")
        low, high = bounds[0] if low is None else low, bounds[1] if high is None else high
    epsilon = args.optional_number("eps")
    counts = [dim // size for dim, size in zip(x.dims, block, strict=True)]
    kept = [
        count
        for count, size in zip(counts, block, strict=True)
        if args.flag("keepdim") or count != 1 or size == 1
    ]
    return QParamsRule(
        mapping=MAPPINGS[mapping],
        low=low,
        high=high,
        epsilon=SMALLEST_NORMAL if epsilon is None else epsilon,
        block=tuple(block),
        out_dims=tuple(kept),
    )


def tensor_rule(args: Args) -> QParamsRule:
    low, high = args.integer("quant_min"), args.integer("quant_max")
    dims = args.tensor("x").dims
    return QParamsRule(MAPPINGS["ASYMMETRIC"], low, high, args.number("eps"), dims, (1,))


def token_rule(args: Args) -> QParamsRule:
    dims = args.tensor("x").dims
    if not dims:
        raise GraphError(f"{args.call}: a scalar has no rows")
    block = (*(1 for _ in dims[:-1]), dims[-1])
    return QParamsRule(LEAST_ERROR, -128, 127, FLOAT_EPSILON, block, (*dims[:-1], 1))


def rows_rule(args: Args) -> QParamsRule:
    """Return the rule of rows of one or more dims; the outputs may leave these dims out."""
    x, inner = args.tensor("x"), args.integer("nonbatch_dims")
    if not 1 <= inner <= x.rank:
        raise GraphError(f"{args.call}: rows of {inner} dims in {list(x.dims)}")
    batch = x.dims[: x.rank - inner]
    block = (*(1 for _ in batch), *x.dims[x.rank - inner :])
    dims = batch if args.outs[0].rank == len(batch) else (*batch, *(1 for _ in range(inner)))
    return QParamsRule(INVERSE_FIRST, -128, 127, 0, block, dims)


CHOOSE = (
    ChooseQParams(
        "torchao.choose_qparams_affine.default",
        "x: tensor, mapping: str, block_size: ints, dtype: any = None, quant_min: int? = None, "
        "quant_max: int? = None, eps: number? = None, scale_dtype: any = None, "
        "zero_point_dtype: any = None, keepdim: bool = False -> tensors",
        affine_rule,
    ),
    ChooseQParams(
        "quantized_decomposed.choose_qparams.tensor",
        "x: tensor, quant_min: int, quant_max: int, eps: number, dtype: any = None -> tensors",
        tensor_rule,
    ),
    ChooseQParams(
        "quantized_decomposed.choose_qparams_per_token_asymmetric.default",
        "x: tensor, dtype: any = None -> tensors",
        token_rule,
    ),
    ChooseQParams(
        "webpte.choose_qparams_qd8.default",
        "x: tensor, nonbatch_dims: int = 1 -> tensors",
        rows_rule,
    ),
)


def checked_rule(op: ChooseQParams, args: Args) -> QParamsRule:
    x, rule = args.tensor("x"), op.rule(args)
    check_floats(args, x, args.outs[0])
    if rule.high <= rule.low:
        raise GraphError(f"{args.call}: {rule.low} to {rule.high} is not a range of integers")
    if numel(rule.block) == 0:
        raise GraphError(f"{args.call}: {list(x.dims)} has no values to choose from")
    return rule


@dataclass(frozen=True)
class Blocks:
    """`Blocks` of lib/quant/min_max.wgsl: the walk from block to block, and inside a block."""

    count: int
    length: int  # items
    inner: tuple[tuple[int, int], ...]  # (size, stride)
    outer: tuple[tuple[int, int], ...]
    quads: bool
    target: Target = GPU

    @property
    def layout(self) -> RowThreads:
        if self.target.software:
            return ONE_LANE
        return RowThreads(min(power_of_two(self.length), MOST_LANES))

    @property
    def parts(self) -> int:
        if self.length <= MOST_LANES * ITEMS_PER_LANE:
            return 1
        return min(MOST_PARTS, ceil_div(self.length, MOST_LANES * 4))

    @property
    def overrides(self) -> tuple[tuple[str, float], ...]:
        return (*self.layout.overrides, *self.walk_overrides)

    @property
    def walk_overrides(self) -> tuple[tuple[str, float], ...]:
        return (("INNER_AXES", len(self.inner)), ("QUADS", self.quads))

    def params(self, parts: int = 1) -> bytes:
        axes = [number for axis in (*self.inner, *self.outer) for number in (*axis, 0, 0)]
        part = ceil_div(self.length, parts)
        padding = [0] * (4 * MAX_AXES - len(axes))
        header = (self.count, self.length, parts, part)
        return pack(f"{8 + 4 * MAX_AXES}I", *header, *axes, *padding, len(self.outer), 0, 0, 0)


def blocks_of(args: Args, x: TensorArg, block: Dims) -> Blocks:
    """Return the axes inside a block and over blocks, in quads if the runs are whole quads."""
    strides = contiguous_strides(x.dims)
    counts = [dim // size for dim, size in zip(x.dims, block, strict=True)]
    steps = [stride * size for stride, size in zip(strides, block, strict=True)]
    inner_sizes, (inner_strides,) = collapse(block, strides)
    outer_sizes, (outer_strides,) = collapse(counts, steps)
    inner = list(zip(inner_sizes, inner_strides, strict=True)) or [(1, 1)]
    outer = list(zip(outer_sizes, outer_strides, strict=True))
    if len(inner) + len(outer) > MAX_AXES:
        raise UnsupportedError(f"{args.call}: {len(inner) + len(outer)} axes, more than {MAX_AXES}")
    quads = inner[-1][1] == 1 and all(
        number % 4 == 0
        for number in (inner[-1][0], *(s for _, s in inner[:-1]), *(s for _, s in outer))
    )
    if quads:
        inner = [*((n, s // 4) for n, s in inner[:-1]), (inner[-1][0] // 4, 1)]
        outer = [(n, s // 4) for n, s in outer]
    count, length = numel(counts), numel([size for size, _ in inner])
    return Blocks(count, length, tuple(inner), tuple(outer), quads, args.target)


def lower_choose(op: ChooseQParams, args: Args) -> list[Dispatch]:
    rule, x = checked_rule(op, args), args.tensor("x")
    blocks = blocks_of(args, x, rule.block)
    if blocks.count == 0:
        return []
    if blocks.parts == 1:
        return [choose_dispatch(args, rule, blocks, x.id, x.dtype.wgsl)]
    # The second dispatch reduces the minimum and maximum of a block's parts.
    length = 2 * blocks.parts
    memory = Scratch("choose_qparams parts", 4 * power_of_two(blocks.count * length))
    merged = Blocks(
        blocks.count, length, ((length, 1),), ((blocks.count, length),), False, args.target
    )
    return [
        range_dispatch(blocks, x, memory),
        choose_dispatch(args, rule, merged, memory, "f32"),
    ]


def range_dispatch(blocks: Blocks, source: TensorArg, memory: Scratch) -> Dispatch:
    return Dispatch(
        kernel="choose_qparams_range",
        bindings=(source.id, memory),
        params=blocks.params(blocks.parts),
        grid=blocks.layout.grid(blocks.count * blocks.parts),
        types=(("X", source.dtype.wgsl),),
        overrides=blocks.overrides,
    )


def choose_dispatch(
    args: Args, rule: QParamsRule, blocks: Blocks, source: Binding, stored: str
) -> Dispatch:
    scale, zero = args.outs
    software = args.target.software
    # A thread per block uses no other constant of a layout.
    overrides = (("LANES", 1), *blocks.walk_overrides) if software else blocks.overrides
    return Dispatch(
        kernel="choose_qparams_simple" if software else "choose_qparams",
        bindings=(source, scale.id, zero.id),
        params=blocks.params() + pack("4fI12x", rule.low, rule.high, rule.epsilon, rule.middle, 0),
        grid=quad_grid(quad_count(blocks.count)) if software else blocks.layout.grid(blocks.count),
        types=(("SCALE", scale.dtype.wgsl), ("X", stored), ("ZERO", zero.dtype.wgsl)),
        overrides=(*overrides, ("MAPPING", rule.mapping)),
    )


def run_choose(op: ChooseQParams, args: Args) -> list[Array]:
    """Compute scales and zeros in float32, as torch does: a wider type could round zeros
    differently.
    """
    rule, x = checked_rule(op, args), args.array("x").astype(np.float32)
    pairs = [n for dim, size in zip(x.shape, rule.block, strict=True) for n in (dim // size, size)]
    split, inside = x.reshape(pairs), tuple(range(1, 2 * x.ndim, 2))
    lowest = np.minimum(split.min(axis=inside), np.float32(0))
    highest = np.maximum(split.max(axis=inside), np.float32(0))
    low, high = np.float32(rule.low), np.float32(rule.high)
    scale = np.maximum(np_scale(rule, lowest, highest), np.float32(rule.epsilon))
    zero = np.clip(np_zero(rule, lowest, highest, scale), low, high)
    dims = rule.out_dims
    return [scale.reshape(dims), zero.reshape(dims).astype(args.outs[1].dtype.numpy)]


def np_scale(rule: QParamsRule, lowest: Array, highest: Array) -> Array:
    span = np.float32(rule.high - rule.low)
    if rule.mapping == INVERSE_FIRST:
        return np_inverse(rule, lowest, highest)
    if rule.mapping == MAPPINGS["SYMMETRIC"]:
        return np.maximum(-lowest, highest) / (span / 2)
    if rule.mapping == MAPPINGS["SYMMETRIC_NO_CLIPPING_ERR"]:
        return np.maximum(lowest / np.float32(rule.low), highest / np.float32(rule.high))
    return (highest - lowest) / span


def np_inverse(rule: QParamsRule, lowest: Array, highest: Array) -> Array:
    """Return the integers per unit of x."""
    wide = np.where(highest == lowest, np.float32(1), highest - lowest)
    inverse = np.float32(rule.high - rule.low) / wide
    return np.where(highest == lowest, np.float32(1), inverse)


def np_zero(rule: QParamsRule, lowest: Array, highest: Array, scale: Array) -> Array:
    low, high = np.float32(rule.low), np.float32(rule.high)
    if rule.mapping == MAPPINGS["ASYMMETRIC"]:
        return low - np.round(lowest / scale)
    if rule.mapping in (LEAST_ERROR, INVERSE_FIRST):
        inverted = rule.mapping == INVERSE_FIRST
        first, last = (end * scale if inverted else end / scale for end in (lowest, highest))
        below = (low + first) + (high + last) > 0
        return np.round(np.where(below, low - first, high - last))
    return np.full_like(scale, rule.middle)


def choose_shape(op: ChooseQParams, args: Args) -> tuple[Dims, Dims]:
    dims = checked_rule(op, args).out_dims
    return (dims, dims)


for _op in CHOOSE:
    register(
        _op.name,
        _op.signature,
        shape=lambda args, op=_op: choose_shape(op, args),  # type: ignore[misc]
        lower=lambda args, op=_op: lower_choose(op, args),  # type: ignore[misc]
        reference=lambda args, op=_op: run_choose(op, args),  # type: ignore[misc]
    )

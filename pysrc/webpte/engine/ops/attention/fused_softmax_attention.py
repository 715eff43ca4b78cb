"""Attention as exporters write it out, in one dispatch.

    softmax_attention   softmax(scale * q @ k^T + mask) @ v: two batched GEMMs with a softmax
                        between, and the views and permutations around them; q, k and v may be split
                        from a single tensor, and rows that the mask hides may be set to zero

Views, permutations and splits are not carried out: the kernel reads and writes through strides. If
it does not take the sizes, all parts run one after the other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import takewhile

from webpte.engine.ops.core.args import Args, TensorArg
from webpte.engine.ops.core.fused_call import lower_parts, parts_of, register_fusion
from webpte.engine.ops.core.quads import float_type
from webpte.engine.ops.core.records import Dispatch, ceil_div, fold_grid, pack
from webpte.engine.ops.core.strided_view import StridedView, dense, strided
from webpte.engine.ops.move.strided import permutation
from webpte.engine.shapes import broadcast_strides, contiguous_strides, normalize_dim

SOFTMAX_ATTENTION = "webpte.softmax_attention"
BMM, SOFTMAX = "aten.bmm.default", "aten._softmax.default"
ADD, MUL, DIV = "aten.add.Tensor", "aten.mul.Tensor", "aten.div.Tensor"
SPLIT = "aten.split_with_sizes_copy.default"
EXPAND = "aten.expand_copy.default"
# Ops that set rows to zero if all their scores are -inf, as PyTorch's attention with a mask does.
EQUAL, NOT, ANY = "aten.eq.Scalar", "aten.logical_not.default", "aten.any.dims"
FULL_LIKE, WHERE = "aten.full_like.default", "aten.where.self"
PERMUTES = frozenset({"aten.permute_copy.default", "aten.permute.default"})

ROWS = 8  # also in wgsl/attention/softmax_attention.wgsl
MOST_ELEMENTS = 256  # largest size of a head
MOST_SCALES = 2

Scale = tuple[TensorArg, bool]  # a number, and whether it divides


@dataclass
class TracedOperand:
    """A tensor and its layout as an operand of a batched GEMM."""

    tensor: TensorArg
    layout: StridedView | None
    scales: list[Scale] = field(default_factory=list)
    begin: int = 0  # offset in the tensor


@dataclass
class Scores:
    """The first GEMM, with the mask that is added and the numbers that scale it."""

    gemm: Args
    mask: TracedOperand | None
    scales: list[Scale]


class Parts:
    """The parts of a fused call, by the values that they write."""

    def __init__(self, args: Args) -> None:
        self.all = list(parts_of(args))
        self.writers = {out.id: (op, part) for op, part in self.all for out in part.outs}

    def reading(self, tensor: TensorArg) -> TracedOperand:
        """Trace a tensor to its source through views, permutations and scales."""
        if tensor.id not in self.writers:
            return TracedOperand(tensor, dense(tensor.dims))
        op, part = self.writers[tensor.id]
        if op.name == SPLIT:
            return split_operand(part, tensor)
        if op.name in (MUL, DIV):
            scaled, scale = operands_of(part)
            found = self.reading(scaled)
            found.scales.append((scale, op.name == DIV))
            return found
        found = self.reading(part.tensor("self"))
        if op.name == EXPAND and part.tensor("self").dims != part.out.dims:
            found.layout = None
        elif found.layout is not None and op.name in PERMUTES:
            found.layout = found.layout.permuted(permutation(part))
        elif found.layout is not None:  # a view, or an expansion that changes nothing
            found.layout = found.layout.viewed(part.out.dims)
        return found

    def scores(self, tensor: TensorArg) -> Scores:
        """Return the GEMM before a softmax, with the mask and the scales between them."""
        mask, scales = None, list[Scale]()
        op, part = self.writers[tensor.id]
        while op.name != BMM:
            # Check that a part wrote the source: sizes do not show that if there is a single score.
            source = next(t for t in operands_of(part) if t.id in self.writers)
            others = [t for t in operands_of(part) if t.id != source.id]
            if op.name == ADD:
                mask, (added,) = part, others
            if op.name in (MUL, DIV):
                scales.append((others[0], op.name == DIV))
            op, part = self.writers[source.id]
        if mask is None:
            return Scores(part, None, scales)
        layout = strided(mask.out.dims, broadcast_strides(added.dims, mask.out.dims))
        return Scores(part, TracedOperand(added, layout.viewed(part.out.dims)), scales)

    def writing(self, gemm: Args) -> StridedView | None:
        """Return how the elements of the last GEMM lie in the output."""
        index = next(i for i, (_, part) in enumerate(self.all) if part.call is gemm.call)
        after = self.all[index + 1 :]
        layout: StridedView | None = dense((after[-1][1] if after else gemm).out.dims)
        for op, part in reversed(after):
            if layout is not None and op.name in PERMUTES:
                order = permutation(part)
                layout = layout.permuted(sorted(range(len(order)), key=lambda i: order[i]))
            elif layout is not None:
                layout = layout.viewed(part.tensor("self").dims)
        return layout


def split_operand(split: Args, tensor: TensorArg) -> TracedOperand:
    """Return one output of a split as a part of the tensor that is split."""
    whole = split.tensor("self")
    dim = normalize_dim(split.integer("dim"), whole.rank)
    before = list(takewhile(lambda out: out.id != tensor.id, split.outs))
    strides = contiguous_strides(whole.dims)
    begin = strides[dim] * sum(out.dims[dim] for out in before)
    return TracedOperand(whole, strided(tensor.dims, strides), begin=begin)


def operands_of(part: Args) -> tuple[TensorArg, ...]:
    """Return `(input,)` for a view; for add, mul and div `(tensor, scalar)`, the scalar last."""
    first = part.tensor("self")
    if part.call.name not in (ADD, MUL, DIV):
        return (first,)
    second = part.tensor("other")
    # The tensor may be a single number as well, but it has the dims of the result.
    scales = second.numel == 1 and first.dims == part.out.dims
    return (first, second) if scales else (second, first)


@dataclass(frozen=True)
class SoftmaxAttention:
    """The operands of the kernel; their layouts are (head, token, element)."""

    q: TracedOperand
    k: TracedOperand
    v: TracedOperand
    mask: TracedOperand | None
    scales: list[Scale]
    out: TensorArg
    written: StridedView
    hidden: float  # share of each value in a row with no score above -inf

    @property
    def readings(self) -> list[TracedOperand]:
        return [self.q, self.k, self.v]

    def heads(self) -> int:
        """Return the heads of a batch: the size of the inner part of the layouts' first axes."""
        layouts = [r.layout for r in (*self.readings, self.mask) if r is not None]
        steps = [la.axes[0] for la in (*layouts, self.written) if la is not None]
        return max(steps, key=len)[-1][0] if any(steps) else 1


def read_attention(args: Args) -> SoftmaxAttention | None:
    """Read the operands; None if strides cannot express their layouts."""
    parts = Parts(args)
    softmax = next(part for op, part in parts.all if op.name == SOFTMAX)
    second = next(part for op, part in reversed(parts.all) if op.name == BMM)
    scores = parts.scores(softmax.tensor("self"))
    first = scores.gemm
    q, k = parts.reading(first.tensor("self")), parts.reading(first.tensor("mat2"))
    v, written = parts.reading(second.tensor("mat2")), parts.writing(second)
    if k.layout is not None:
        k.layout = k.layout.permuted((0, 2, 1))
    scales = [*scores.scales, *q.scales, *k.scales]
    found = [q, k, v] if scores.mask is None else [q, k, v, scores.mask]
    whole = all(reading.layout is not None for reading in found)
    # Views in between must not change the rows of the scores.
    rows = {first.out.dims, second.tensor("self").dims}
    same = len(rows) == 1 and softmax.tensor("self").dims[-1:] == first.out.dims[-1:]
    if written is None or not (whole and same) or len(scales) > MOST_SCALES or v.scales:
        return None
    hidden = 0.0 if any(op.name == WHERE for op, _ in parts.all) else math.nan
    return SoftmaxAttention(q, k, v, scores.mask, scales, args.outs[0], written, hidden)


Strides = tuple[int, int, int, int]  # between batches, heads, tokens, and along the last axis


def strides_of(layout: StridedView | None, heads: int) -> Strides | None:
    if layout is None:
        return None
    pair, token, last = layout.pair(0, heads), layout.stride(1), layout.stride(2)
    return None if pair is None or token is None or last is None else (*pair, token, last)


def in_quads(strides: Strides | None, size: int) -> bool:
    """Return whether elements of a head are contiguous, and heads are whole quads."""
    if strides is None or size % 4 or not 0 < size <= MOST_ELEMENTS:
        return False
    return strides[3] == 1 and all(stride % 4 == 0 for stride in strides[:3])


def lower_softmax_attention(args: Args) -> list[Dispatch]:
    (out,) = args.outs
    attention = None if args.target.software or out.numel == 0 else read_attention(args)
    dispatch = None if attention is None else dispatch_of(args, attention)
    return lower_parts(args) if dispatch is None else [dispatch]


def dispatch_of(args: Args, attention: SoftmaxAttention) -> Dispatch | None:
    """Return the dispatch, or None if the kernel does not take the layouts or sizes."""
    heads, mask, scales = attention.heads(), attention.mask, attention.scales
    layouts = [*(reading.layout for reading in attention.readings), attention.written]
    found = [(layout.dims, strides_of(layout, heads)) for layout in layouts if layout is not None]
    masked = (0, 0, 0, 0) if mask is None else strides_of(mask.layout, heads)
    all_strides = [strides for _, strides in found if strides is not None]
    fits = len(found) == 4 and all(in_quads(strides, dims[2]) for dims, strides in found)
    if masked is None or not fits:
        return None
    (count, tokens, size), (_, keys, _), (_, _, value_size) = (dims for dims, _ in found[:3])
    if keys == 0:  # the parts compute zeros, the kernel would divide by zero
        return None
    tiles = ceil_div(tokens, ROWS)
    scaled = sum((4 if divides else 1) << i for i, (_, divides) in enumerate(scales))
    tensors = [reading.tensor for reading in attention.readings]
    masks = [] if mask is None else [mask.tensor]
    stored = float_type(args, *tensors, *masks, *(tensor for tensor, _ in scales), attention.out)
    optional = [*(t.id for t in masks), None][:1], [*(t.id for t, _ in scales), None, None][:2]
    begins = [reading.begin for reading in attention.readings]
    if any(begin % 4 for begin in begins):
        return None
    given = [(*four[:3], begin) for four, begin in zip(all_strides, begins, strict=False)]
    strides = (*given, masked, all_strides[3])
    return Dispatch(
        kernel="softmax_attention",
        bindings=(*(t.id for t in tensors), *optional[0], *optional[1], attention.out.id),
        params=pack(
            "6I2f20I",
            *(heads, tokens, keys, tiles, count * tiles, scaled, math.nan, attention.hidden),
            *(number for four in strides for number in four),
        ),
        grid=fold_grid(count * tiles),
        types=(
            ("FLOAT", stored),
            ("HEAD_QUADS", str(size // 4)),
            ("VALUE_QUADS", str(value_size // 4)),
        ),
        overrides=(("HAS_MASK", mask is not None),),
    )


register_fusion(SOFTMAX_ATTENTION, lower_softmax_attention)

"""The mixture of experts with quantized weights: each token goes to the experts that score best.

    webpte.quantized_moe(x, gate_weight, expert_bias, packed_w13, packed_w2, num_activated_experts,
        num_experts, hidden_dim, dim, group_size, weight_nbit, score_func, route_scale) -> out

    scores = x gate_weight^T;  out = sum of weight * w2 (silu(w1 x) * w3 x) over chosen experts

x [T, dim], gate_weight [E, dim], expert_bias [E] or [0], packed_w13 [E, bytes] with w1 and w3 as a
single matrix [2 * hidden, dim], packed_w2 [E, bytes] with w2 [dim, hidden]; bytes as in
moe_numpy.py.

With score_func "sigmoid", experts are ranked by sigmoid(score) + bias, and weights are route_scale
times their sigmoids divided by their sum. With "softmax", weights are the softmax of the
chosen scores. Of equal experts the first is chosen; experts with a rank of NaN come last.

An operator of webpte's own, for the portable kernel of ExecuTorch. The kernels give NaN for experts
in another layout, where the reference raises; the portable kernel runs on a GPU only with constants
that have been checked.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from webpte.engine.ops.core.args import Args, TensorArg
from webpte.engine.ops.core.quads import WORKGROUP_SIZE, float_type
from webpte.engine.ops.core.records import Dispatch, Scratch, ceil_div, fold_grid, pack
from webpte.engine.ops.core.registry import register
from webpte.engine.ops.core.row_reduction import (
    ONE_LANE,
    RowThreads,
    check_floats,
    contiguous_layout,
    power_of_two,
)
from webpte.engine.ops.core.target import Target
from webpte.engine.ops.experts.moe_numpy import COLUMNS, PackedSize, np_quantized_moe, route
from webpte.engine.shapes import Dims
from webpte.errors import GraphError, UnsupportedError

NAMES = ("x", "gate_weight", "expert_bias", "packed_w13", "packed_w2")
SIZES = ("num_activated_experts", "num_experts", "hidden_dim", "dim", "group_size", "weight_nbit")
SCORES = ("sigmoid", "softmax")

# Loop steps per thread; Mesa's software driver allows 65,535.
MOST_STEPS = 60_000
# Threads per row: with 8 rows of a block next to each other, a workgroup reads whole lines.
LANES = 32
# Memory between the two halves of experts: more tokens take several dispatches.
MIDDLE_BYTES = 64 << 20


def packed_sizes(args: Args) -> tuple[PackedSize, PackedSize]:
    hidden, dim, group, bits = (args.integer(name) for name in SIZES[2:])
    return PackedSize(2 * hidden, dim, group, bits), PackedSize(dim, hidden, group, bits)


def moe_shape(args: Args) -> tuple[Dims]:
    x, gate, bias, *packed = (args.tensor(name) for name in NAMES)
    activated, experts, hidden, dim, group, bits = (args.integer(name) for name in SIZES)
    check_floats(args, x, gate, bias)
    fits = (
        x.rank == 2
        and x.dims[1] == dim
        and gate.dims == (experts, dim)
        and bias.dims in ((0,), (experts,))
        and all(tensor.rank == 2 and tensor.dims[0] == experts for tensor in packed)
        and 0 < activated <= experts
    )
    if not fits:
        raise GraphError(
            f"{args.call}: x {list(x.dims)}, gate {list(gate.dims)}, bias {list(bias.dims)} "
            f"for {activated} of {experts} experts of {dim} elements"
        )
    if bits not in (4, 8) or group <= 0 or group % COLUMNS or dim % group or hidden % group:
        raise GraphError(
            f"{args.call}: weights of {bits} bits in groups of {group} for {dim} and {hidden} "
            f"elements; 4 or 8 bits are needed, and groups that divide both and are a multiple of "
            f"{COLUMNS}"
        )
    if args.string("score_func") not in SCORES:
        raise GraphError(
            f"{args.call}: score_func={args.string('score_func')!r}: there are sigmoid and softmax"
        )
    if bias.numel and not uses_sigmoid(args):
        raise GraphError(f"{args.call}: expert_bias is for score_func='sigmoid' only")
    for tensor, size in zip(packed, packed_sizes(args), strict=True):
        if tensor.dtype.name not in ("uint8", "int8") or tensor.dims[1] < size.nbytes:
            raise GraphError(
                f"{args.call}: an expert has {tensor.dims[1]} bytes ({tensor.dtype.name}); "
                f"[{size.n}, {size.k}] takes {size.nbytes}"
            )
    return (x.dims,)


def uses_sigmoid(args: Args) -> bool:
    return args.string("score_func") == "sigmoid"


def row_layout(items: int, target: Target) -> RowThreads:
    """Lay out rows of packed matrices: neighbouring threads read neighbouring rows of a block."""
    if target.software:
        return ONE_LANE
    return RowThreads(min(power_of_two(items), LANES), rows_fastest=True)


def pack_matrix(packed: TensorArg, size: PackedSize) -> bytes:
    """Pack `PackedMatrix` of wgsl/lib/experts/packed_row.wgsl."""
    items, group_items = size.k // COLUMNS, size.group // COLUMNS
    return pack("3If", packed.dims[1] // 4, items, group_items, math.nan)


def lower_moe(args: Args) -> list[Dispatch]:
    activated, experts, hidden, dim, *_ = (args.integer(name) for name in SIZES)
    tokens, packed = args.tensor("x").dims[0], [args.tensor(name) for name in NAMES[3:]]
    if args.out.numel == 0:
        return []
    if any(tensor.dims[1] % 4 for tensor in packed):
        raise UnsupportedError(f"{args.call}: experts of whole words are needed")
    if max(experts, dim // 4, activated * hidden // COLUMNS) > MOST_STEPS:
        raise UnsupportedError(f"{args.call}: too many experts, or too large ones")
    chosen = Scratch("moe chosen", args.target.scratch_bytes(8 * tokens * activated))
    return [*choose_experts(args, chosen), *run_experts(args, chosen)]


def stored_types(args: Args) -> tuple[tuple[str, str], ...]:
    floats = [args.tensor(name) for name in NAMES[:3]]
    return (("FLOAT", float_type(args, *floats, args.out)),)


def choose_experts(args: Args, chosen: Scratch) -> list[Dispatch]:
    """Return the dispatches that write each token's experts and their scores."""
    x, gate, bias = (args.tensor(name) for name in NAMES[:3])
    activated, experts = (args.integer(name) for name in SIZES[:2])
    count, quads = x.dims[0] * experts, x.dims[1] // 4
    scores = Scratch("moe scores", args.target.scratch_bytes(4 * count))
    layout = contiguous_layout(quads, args.target)
    return [
        Dispatch(
            kernel="moe_scores",
            bindings=(x.id, gate.id, scores),
            params=pack("4I", count, experts, quads, 0),
            grid=layout.grid(count),
            types=stored_types(args),
            overrides=layout.overrides,
        ),
        Dispatch(
            kernel="moe_choose",
            bindings=(scores, bias.id if bias.numel else None, chosen),
            params=pack("4I", count, experts, activated, 0),
            grid=fold_grid(ceil_div(count, WORKGROUP_SIZE)),
            types=stored_types(args),
            overrides=(("BIASED", int(bias.numel > 0)),),
        ),
    ]


def run_experts(args: Args, chosen: Scratch) -> Iterator[Dispatch]:
    """Yield the dispatches of both halves of the experts, for some tokens at a time."""
    x, w13, w2 = (args.tensor(name) for name in ("x", *NAMES[3:]))
    activated, _, hidden, dim, _, bits = (args.integer(name) for name in SIZES)
    target, tokens, sigmoid = args.target, x.dims[0], uses_sigmoid(args)
    per_token = 4 * activated * hidden
    part = max(1, min(target.binding_bytes, MIDDLE_BYTES) // per_token)
    middle = Scratch("moe middle", target.scratch_bytes(min(part, tokens) * per_token))
    sizes = packed_sizes(args)
    layouts = [row_layout(size.k // COLUMNS, target) for size in sizes]
    scale = float(args.number("route_scale")) if sigmoid else 1.0
    for first in range(0, tokens, part):
        count = min(part, tokens - first)
        rows = count * activated * hidden
        yield Dispatch(
            kernel="moe_middle",
            bindings=(x.id, chosen, w13.id, middle),
            params=pack_matrix(w13, sizes[0]) + pack("4I", rows, hidden, activated, first),
            grid=layouts[0].grid(rows),
            types=stored_types(args),
            overrides=(("BITS", bits), *layouts[0].overrides),
        )
        yield Dispatch(
            kernel="moe_output",
            bindings=(chosen, middle, w2.id, args.out.id),
            params=pack_matrix(w2, sizes[1])
            + pack("4If3I", count * dim, dim, activated, first, scale, 0, 0, 0),
            grid=layouts[1].grid(count * dim),
            types=stored_types(args),
            overrides=(("BITS", bits), ("SIGMOID", int(sigmoid)), *layouts[1].overrides),
        )


def run_moe(args: Args) -> np.ndarray:
    x, gate, bias, *packed = (args.array(name) for name in NAMES)
    scores = x.astype(np.float64) @ gate.astype(np.float64).T
    count, scale = args.integer(SIZES[0]), float(args.number("route_scale"))
    chosen, weights = route(scores, bias, count, uses_sigmoid(args), scale)
    return np_quantized_moe(x, chosen, weights, (packed[0], packed[1]), packed_sizes(args))


register(
    "webpte.quantized_moe.default",
    ", ".join(
        (
            *(f"{name}: tensor" for name in NAMES),
            *(f"{name}: int" for name in SIZES),
            "score_func: str, route_scale: number -> tensor",
        )
    ),
    shape=moe_shape,
    lower=lower_moe,
    reference=run_moe,
)

"""Attention of int8 queries to int8 keys and values, as ExecuTorch's quantized KV caches have them.

    webpte.quantized_sdpa(query, key, value, input_pos, attn_mask, dropout_p, is_causal, scale,
                          q_zero_points, q_scales, k_zero_points, .., is_seq_at_dim_2) -> out

Attention as in custom_sdpa, of (number - zero point) * scale. query, key and value are int8 [batch,
tokens, heads, size], with is_seq_at_dim_2 [batch, heads, tokens, size]; out has the same shape, in
floats. Each row has a zero point (int8) and a scale: [.., 1]. An operator of webpte's own, for the
portable kernel.

The kernels of attention read floats: `attention_dequantize` writes them to scratch memory, for keys
and values up to the last position to read.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from webpte.engine.ops.attention.attention import attend_from, position_bounds
from webpte.engine.ops.attention.attention_calls import heads_first, read_attention, tokens_first
from webpte.engine.ops.attention.attention_choice import lower_attention
from webpte.engine.ops.attention.attention_kernels import Attention
from webpte.engine.ops.attention.cache_write_kernels import Heads
from webpte.engine.ops.core.args import Args, TensorArg
from webpte.engine.ops.core.quads import QUAD, float_type, quad_count, quad_grid
from webpte.engine.ops.core.records import Dispatch, Scratch, SymIntBound, pack
from webpte.engine.ops.core.registry import register
from webpte.engine.shapes import Dims
from webpte.errors import GraphError, UnsupportedError

Array = np.ndarray

QUANTIZED_SDPA = "webpte.quantized_sdpa.default"
# Each tensor with the prefix of its zero points' and scales' names.
ROWS = {"query": "q", "key": "k", "value": "v"}
SIGNATURE = (
    "query: tensor, key: tensor, value: tensor, input_pos: live, attn_mask: tensor? = None, "
    "dropout_p: number? = 0, is_causal: bool = False, scale: number? = None, "
    "q_zero_points: tensor? = None, q_scales: tensor? = None, "
    "k_zero_points: tensor? = None, k_scales: tensor? = None, "
    "v_zero_points: tensor? = None, v_scales: tensor? = None, "
    "is_seq_at_dim_2: bool = False -> tensor"
)
FLOAT_BYTES = 4


# Shapes


def check_rows(args: Args, name: str) -> TensorArg:
    """Check that each row of a tensor has a zero point and a scale; return the tensor."""
    rows, begin = args.tensor(name), ROWS[name]
    zeros = args.optional_tensor(f"{begin}_zero_points")
    scales = args.optional_tensor(f"{begin}_scales")
    if zeros is None or scales is None:
        raise GraphError(f"{args.call}: the {name} has no scales or no zero points")
    if (rows.dtype.name, zeros.dtype.name) != ("int8", "int8") or not scales.dtype.is_float:
        raise GraphError(
            f"{args.call}: the {name} is {rows.dtype.name}, with zero points of "
            f"{zeros.dtype.name} and scales of {scales.dtype.name}; expected are int8, int8, floats"
        )
    if rows.rank != 4 or not zeros.dims == scales.dims == (*rows.dims[:-1], 1):
        raise GraphError(
            f"{args.call}: the {name} {list(rows.dims)} with scales {list(scales.dims)} and zero "
            f"points {list(zeros.dims)}; it has 4 dims, and each row needs one of both: [.., 1]"
        )
    return rows


def as_heads(args: Args, tensor: TensorArg) -> Heads:
    return heads_first(tensor) if args.flag("is_seq_at_dim_2") else tokens_first(tensor)


def quantized_shape(args: Args) -> tuple[Dims]:
    query, key, value = (check_rows(args, name) for name in ROWS)
    q, k = as_heads(args, query).sizes, as_heads(args, key).sizes
    shared = k[1] > 0 and q[1] % k[1] == 0
    if key.dims != value.dims or q[0] != k[0] or q[3] != k[3] or not shared:
        order = "heads, tokens" if args.flag("is_seq_at_dim_2") else "tokens, heads"
        raise GraphError(
            f"{args.call}: queries {list(query.dims)} with keys {list(key.dims)} and values "
            f"{list(value.dims)}; all are [batch, {order}, head size], keys and values alike, with "
            "a multiple of the key heads as heads"
        )
    return (query.dims,)


def read_quantized(args: Args) -> Attention:
    """Return the attention of the int8 tensors, before dequantization."""
    return read_attention(args, *(as_heads(args, args.tensor(name)) for name in ROWS))


# Lowering


def quantized_bounds(args: Args) -> list[SymIntBound]:
    return [] if args.out.numel == 0 else position_bounds(args, read_quantized(args))


def dequantized(args: Args, name: str) -> Scratch:
    """Return scratch memory for a tensor's floats; calls with other numbers of queries share it."""
    nbytes = quad_count(args.tensor(name).numel) * QUAD * FLOAT_BYTES
    if nbytes > args.target.binding_bytes:
        raise UnsupportedError(
            f"{args.call}: the {name} {list(args.tensor(name).dims)} as floats are {nbytes:,} "
            f"bytes, over this GPU's limit of {args.target.binding_bytes:,} for one buffer"
        )
    size = args.target.scratch_bytes(nbytes) if name == "query" else nbytes
    return Scratch(f"dequantized {name}", size)


def lower_rows(args: Args, name: str, heads: Heads, read: int, follows: bool) -> Dispatch:
    """Dequantize the first `read` positions of a tensor, plus the live position."""
    rows, begin = args.tensor(name), ROWS[name]
    zeros, scales = args.tensor(f"{begin}_zero_points"), args.tensor(f"{begin}_scales")
    _, count, positions, size = heads.sizes
    per_position = 1 if args.flag("is_seq_at_dim_2") else count
    return Dispatch(
        kernel="attention_dequantize",
        bindings=(rows.id, zeros.id, scales.id, heads.id, args.uniform("input_pos")),
        params=pack("6I", rows.numel, size, per_position, positions, read, follows),
        grid=quad_grid(quad_count(rows.numel)),
        overrides=(("SHARED", int(size % QUAD == 0)),),
    )


def lower_quantized(args: Args) -> list[Dispatch]:
    if args.out.numel == 0:
        return []
    scales = (args.tensor(f"{begin}_scales") for begin in ROWS.values())
    if float_type(args, args.out, *scales) == "f16":
        raise UnsupportedError(f"{args.call}: its kernel has scales and outputs of float32 alone")
    call = read_quantized(args)
    q, k, v = (
        replace(heads, id=dequantized(args, name))
        for name, heads in zip(ROWS, (call.q, call.k, call.v), strict=True)
    )
    return [
        lower_rows(args, "query", q, q.sizes[2], follows=False),
        lower_rows(args, "key", k, call.keys, call.follows),
        lower_rows(args, "value", v, call.keys, call.follows),
        *lower_attention(replace(call, q=q, k=k, v=v), args.target),
    ]


# Reference


def run_quantized(args: Args) -> Array:
    heads_before = args.flag("is_seq_at_dim_2")

    def floats(name: str) -> Array:
        """Return [batch, heads, tokens, size], rounded to float32 once."""
        zeros, scales = (args.array(f"{ROWS[name]}_{part}") for part in ("zero_points", "scales"))
        exact = (args.array(name).astype(np.float64) - zeros) * scales
        return (exact if heads_before else exact.swapaxes(1, 2)).astype(np.float32)

    result = attend_from(args, read_quantized(args), *map(floats, ROWS))
    return (result if heads_before else result.swapaxes(1, 2)).astype(args.out.dtype.computed)


register(
    QUANTIZED_SDPA,
    SIGNATURE,
    shape=quantized_shape,
    lower=lower_quantized,
    bounds=quantized_bounds,
    reference=run_quantized,
)

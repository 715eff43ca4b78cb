"""Rotary position embedding: pairs (a, b) of elements rotated by the angle of their token.

    a' = a cos - b sin,  b' = b cos + a sin

apply_rotary_emb               q [B, S, heads, D] and k [B, S, key heads, D] with tables [S, D/2],
                               or [S, heads, D/2]; pairs are neighbours
apply_rotary_emb_hf            tables are [positions, R]: pairs lie R/2 apart, each element has its
                               own cos and sin, elements from R on are copied. The first token
                               reads row `start_pos`, which is live
apply_rotary_emb_hf_single     likewise, of one tensor x [B, S, heads, D]
apply_rotary_emb_interleaved   x [.., N, C], a table [N, C] or [N, C/2, 2], (cos, sin) neighbours

The ops with queries and keys give two outputs.
"""

from __future__ import annotations

import numpy as np

from webpte.engine.ops.core.args import Args, TensorArg
from webpte.engine.ops.core.quads import float_type, quad_grid
from webpte.engine.ops.core.records import (
    Dispatch,
    Scratch,
    SymIntBound,
    SymIntUniform,
    ceil_div,
    pack,
)
from webpte.engine.ops.core.registry import register
from webpte.engine.ops.core.row_reduction import check_floats
from webpte.engine.shapes import Dims
from webpte.errors import GraphError

Array = np.ndarray

PAIRS = "xq: tensor, xk: tensor, freqs_cos: tensor, freqs_sin: tensor -> tensors"
ROPE_HF = "xq: tensor, xk: tensor, freqs_cos: tensor, freqs_sin: tensor, start_pos: live -> tensors"
SINGLE = "x: tensor, freqs_cos: tensor, freqs_sin: tensor, start_pos: live -> tensor"
COMPLEX = "x: tensor, freqs_cis: tensor -> tensor"


def tables_of(args: Args) -> tuple[TensorArg, TensorArg]:
    cosines, sines = args.tensor("freqs_cos"), args.tensor("freqs_sin")
    check_floats(args, cosines, sines)
    if cosines.dims != sines.dims:
        raise GraphError(f"{args.call}: cosines {list(cosines.dims)}, but sines {list(sines.dims)}")
    return cosines, sines


def operands(args: Args) -> tuple[TensorArg, TensorArg, TensorArg, TensorArg]:
    """Return queries, keys and the tables, after the checks that both ops share."""
    q, k = args.tensor("xq"), args.tensor("xk")
    check_floats(args, q, k)
    if q.rank != 4 or k.rank != 4 or q.dims[1] != k.dims[1]:
        raise GraphError(
            f"{args.call}: queries {list(q.dims)} and keys {list(k.dims)}; expected are "
            "[batch, tokens, heads, head size] with equal tokens"
        )
    return q, k, *tables_of(args)


def pairs_shape(args: Args) -> tuple[Dims, Dims]:
    q, k, _, _ = operands(args)
    if q.dims[3] % 2 or q.dims[3] != k.dims[3]:
        raise GraphError(
            f"{args.call}: head sizes {q.dims[3]} and {k.dims[3]}; expected are equal, even ones"
        )
    table_strides(args)
    return q.dims, k.dims


def table_strides(args: Args) -> tuple[int, int]:
    """Return the strides between tokens and between heads in the tables of `apply_rotary_emb`."""
    q, k, table, _ = operands(args)
    tokens, heads, pairs = q.dims[1], q.dims[2], q.dims[3] // 2
    if without_ones(table.dims) == without_ones((tokens, pairs)):
        return pairs, 0
    if table.dims == (tokens, heads, pairs) and heads == k.dims[2]:
        return heads * pairs, pairs
    raise GraphError(
        f"{args.call}: tables {list(table.dims)} for queries {list(q.dims)} and keys "
        f"{list(k.dims)}; expected are [{tokens}, {pairs}] or [{tokens}, heads, {pairs}]"
    )


def without_ones(dims: Dims) -> Dims:
    """Return the dims above 1, which alone decide where elements lie."""
    return tuple(size for size in dims if size != 1)


def check_rows(args: Args, table: TensorArg, *sizes: int) -> None:
    """Check that tables with a row per position fit heads of these sizes."""
    if table.rank != 2 or table.dims[1] % 2 or table.dims[1] > min(sizes):
        raise GraphError(
            f"{args.call}: tables {list(table.dims)} for heads of {' and '.join(map(str, sizes))}; "
            "expected are [positions, an even number of elements up to the head size]"
        )


def rope_hf_shape(args: Args) -> tuple[Dims, Dims]:
    q, k, table, _ = operands(args)
    check_rows(args, table, q.dims[3], k.dims[3])
    return q.dims, k.dims


def single_shape(args: Args) -> tuple[Dims]:
    x, (table, _) = args.tensor("x"), tables_of(args)
    check_floats(args, x)
    if x.rank != 4:
        raise GraphError(
            f"{args.call}: a tensor {list(x.dims)}; expected is [batch, tokens, heads, head size]"
        )
    check_rows(args, table, x.dims[3])
    return (x.dims,)


def complex_shape(args: Args) -> tuple[Dims]:
    x, table = args.tensor("x"), args.tensor("freqs_cis")
    check_floats(args, x, table)
    rows, width = (0, 1, *x.dims)[-2:]
    tables = ((rows, width), (rows, width // 2, 2))
    if x.rank < 2 or width % 2 or without_ones(table.dims) not in map(without_ones, tables):
        raise GraphError(
            f"{args.call}: a tensor {list(x.dims)} and a table {list(table.dims)}; expected are "
            "[.., N, C] with an even C, and [N, C] or [N, C / 2, 2]"
        )
    return (x.dims,)


# Lowering


def rope_hf_bounds(args: Args, *names: str) -> list[SymIntBound]:
    tensors, (cosines, _) = [args.tensor(name) for name in names], tables_of(args)
    if all(tensor.numel == 0 for tensor in tensors):
        return []
    tokens, rows = tensors[0].dims[1], cosines.dims[0]
    why = f"{tokens} tokens in tables of {rows} positions"
    return args.bound("start_pos", 0, rows - tokens, why)


def angles_of(args: Args, half: bool) -> tuple[int, int, int]:
    """Return the pairs per head, and the tables' strides between tokens and between heads."""
    q, _, cosines, _ = operands(args)
    if half:
        return cosines.dims[1] // 2, cosines.dims[1], 0
    return q.dims[3] // 2, *table_strides(args)


def start_of(args: Args, half: bool) -> SymIntUniform | bytes:
    """Return the uniform with the tables' row of the first token."""
    return args.uniform("start_pos") if half else pack("4i", 0, 0, 0, 0)


def shape_of(tensor: TensorArg) -> tuple[int, int, int, int]:
    """Return heads, head size, pairs per head and pairs in all, as the kernel takes them."""
    pairs = ceil_div(tensor.dims[3], 2)
    return tensor.dims[2], tensor.dims[3], pairs, tensor.numel // max(tensor.dims[3], 1) * pairs


def lower_single(args: Args) -> list[Dispatch]:
    """Lower to the kernel for queries and keys, with no keys."""
    x, (cosines, sines), out = args.tensor("x"), tables_of(args), args.out
    shape, rotary = shape_of(x), cosines.dims[1]
    if x.numel == 0:
        return []
    nothing = Scratch("rope_no_keys", 16)
    return [
        Dispatch(
            kernel="rope",
            bindings=(x.id, x.id, cosines.id, sines.id, out.id, nothing, args.uniform("start_pos")),
            params=pack("12I", *shape, 1, 1, 1, 0, x.dims[1], rotary // 2, rotary, 0),
            grid=quad_grid(shape[3]),
            types=(("FLOAT", float_type(args, x, cosines, sines, out)),),
            overrides=(("ROTATE_HALF", 1),),
        ),
    ]


def lower_both(args: Args, half: bool) -> list[Dispatch]:
    q, k, cosines, sines = operands(args)
    rotated, row, head = angles_of(args, half)
    shapes = [*shape_of(q), *shape_of(k)]
    units = shapes[3] + shapes[7]
    if units == 0:
        return []
    outs = args.outs
    return [
        Dispatch(
            kernel="rope",
            bindings=(
                *(tensor.id for tensor in (q, k, cosines, sines, *outs)),
                start_of(args, half),
            ),
            params=pack("12I", *shapes, q.dims[1], rotated, row, head),
            grid=quad_grid(units),
            types=(("FLOAT", float_type(args, q, k, cosines, sines, *outs)),),
            overrides=(("ROTATE_HALF", int(half)),),
        ),
    ]


def lower_complex(args: Args) -> list[Dispatch]:
    x, table = args.tensor("x"), args.tensor("freqs_cis")
    if x.numel == 0:
        return []
    return [
        Dispatch(
            kernel="rope_interleaved",
            bindings=(x.id, table.id, args.out.id),
            params=pack("2I", x.numel // 2, table.numel // 2),
            grid=quad_grid(x.numel // 2),
            types=(("FLOAT", float_type(args, x, table, args.out)),),
        )
    ]


# References


def run_pairs(args: Args) -> list[Array]:
    row, head = table_strides(args)
    tokens = args.tensor("xq").dims[1]
    # [tokens, heads or 1, pairs]
    shape = (tokens, row // head if head else 1, head or row)
    cosines, sines = (
        args.array(name).astype(np.float64).reshape(shape) for name in ("freqs_cos", "freqs_sin")
    )
    results = []
    for name in ("xq", "xk"):
        x = args.array(name)
        a, b = x[..., 0::2].astype(np.float64), x[..., 1::2].astype(np.float64)
        rotated = np.stack([a * cosines - b * sines, b * cosines + a * sines], axis=-1)
        results.append(rotated.reshape(x.shape).astype(x.dtype))
    return results


def run_rope_hf(args: Args, *names: str) -> list[Array]:
    start, tokens = args.integer("start_pos"), args.tensor(names[0]).dims[1]
    cosines, sines = (
        args.array(name)[start : start + tokens, None].astype(np.float64)
        for name in ("freqs_cos", "freqs_sin")
    )
    size = cosines.shape[-1]
    results = []
    for name in names:
        x = args.array(name)
        part = x[..., :size].astype(np.float64)
        a, b = part[..., : size // 2], part[..., size // 2 :]
        rotated = part * cosines + np.concatenate([-b, a], axis=-1) * sines
        results.append(np.concatenate([rotated.astype(x.dtype), x[..., size:]], axis=-1))
    return results


def run_complex(args: Args) -> Array:
    x = args.array("x")
    table = args.array("freqs_cis").astype(np.float64).reshape(x.shape[-2], -1, 2)
    a, b = x[..., 0::2].astype(np.float64), x[..., 1::2].astype(np.float64)
    cosines, sines = table[..., 0], table[..., 1]
    rotated = np.stack([a * cosines - b * sines, a * sines + b * cosines], axis=-1)
    return rotated.reshape(x.shape).astype(x.dtype)


register(
    "et_vk.apply_rotary_emb.default",
    PAIRS,
    shape=pairs_shape,
    lower=lambda args: lower_both(args, half=False),
    reference=run_pairs,
)

register(
    "et_vk.apply_rotary_emb_hf.default",
    ROPE_HF,
    shape=rope_hf_shape,
    lower=lambda args: lower_both(args, half=True),
    bounds=lambda args: rope_hf_bounds(args, "xq", "xk"),
    reference=lambda args: run_rope_hf(args, "xq", "xk"),
)

register(
    "et_vk.apply_rotary_emb_hf_single.default",
    SINGLE,
    shape=single_shape,
    lower=lower_single,
    bounds=lambda args: rope_hf_bounds(args, "x"),
    reference=lambda args: run_rope_hf(args, "x"),
)

register(
    "et_vk.apply_rotary_emb_interleaved.default",
    COMPLEX,
    shape=complex_shape,
    lower=lower_complex,
    reference=run_complex,
)

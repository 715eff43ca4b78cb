"""Rows of a table of 4-bit numbers, dequantized: indices (..) -> (.., E).

    et_vk.embedding_q4gsw(weight, scales, group_size, indices, is_linear_weight)
    quantized_decomposed.embedding_4bit(weight, scales, zero_points, min, max, indices)

    out[.., d] = (nibble(row, d) - 8 - zero_points[row][g]) * scales[row][g],  g = d / group_size

`weight` is uint8 [V, at least E / 2] with two numbers to a byte: the even d in the low half where
the table is shared with a linear layer (is_linear_weight), else in the high half. `scales` are
[V, groups], [V] for one group, or a single one. Indices are treated as in indexing.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from webpte.errors import GraphError, IndexRangeError
from webpte.ops.args import Args, TensorArg
from webpte.ops.elementwise import float_type, quad_count, quad_grid
from webpte.ops.indexing import check_indices
from webpte.ops.records import Dispatch, ceil_div, pack
from webpte.ops.registry import register
from webpte.shapes import Dims


@dataclass(frozen=True)
class Table:
    """How to read a table: the order of nibbles, and how its scales are spread."""

    high_first: bool
    group_size: int
    row_groups: int  # scales of a row; 0 where one scale is for all


@dataclass(frozen=True)
class Embedding:
    name: str
    signature: str
    table: Callable[[Args], Table]


def scales_of_row(scales: TensorArg) -> int:
    if scales.rank == 2:
        return scales.dims[1]
    return 0 if scales.numel == 1 else 1


def q4gsw_table(args: Args) -> Table:
    groups = scales_of_row(args.tensor("scales"))
    return Table(not args.flag("is_linear_weight"), args.integer("group_size"), groups)


def decomposed_table(args: Args) -> Table:
    limits = args.integer("quant_min"), args.integer("quant_max")
    if limits != (-8, 7):
        raise GraphError(f"{args.call}: 4-bit numbers are -8 to 7, not {limits}")
    groups = scales_of_row(args.tensor("scales"))
    return Table(True, 2 * args.tensor("weight").dims[1] // max(groups, 1), groups)


EMBEDDINGS = (
    Embedding(
        "et_vk.embedding_q4gsw.default",
        "weight: tensor, scales: tensor, group_size: int, indices: tensor, "
        "is_linear_weight: bool = False -> tensor",
        q4gsw_table,
    ),
    Embedding(
        "quantized_decomposed.embedding_4bit.dtype",
        "weight: tensor, scales: tensor, zero_points: tensor?, quant_min: int, quant_max: int, "
        "indices: tensor, dtype: any = None -> tensor",
        decomposed_table,
    ),
)


def zero_points_of(args: Args, op: Embedding) -> TensorArg | None:
    return args.optional_tensor("zero_points") if op.table is decomposed_table else None


def embedding_shape(args: Args) -> tuple[Dims]:
    # Rows of the table may be padded: only the output knows how wide they are.
    return ((*check_indices(args, args.tensor("indices")).dims, args.out.maximum[-1]),)


def check_table(args: Args, op: Embedding) -> Table:
    weight, scales, out = args.tensor("weight"), args.tensor("scales"), args.out
    table, width = op.table(args), args.out.dims[-1]
    zero_points = zero_points_of(args, op)
    if weight.rank != 2 or weight.dtype.storage.itemsize != 1 or not out.dtype.is_float:
        raise GraphError(f"{args.call}: the table must be bytes [V, E / 2] and the output float")
    enough = table.group_size > 0 and 2 * weight.dims[1] >= width
    if table.row_groups:
        groups = ceil_div(width, max(table.group_size, 1))
        enough = enough and table.row_groups >= groups and scales.dims[0] == weight.dims[0]
    if not enough or (zero_points is not None and zero_points.numel != scales.numel):
        raise GraphError(
            f"{args.call}: a table {list(weight.dims)} with scales {list(scales.dims)} and groups "
            f"of {table.group_size} does not have rows of {width}"
        )
    return table


def lower_embedding(op: Embedding, args: Args) -> list[Dispatch]:
    weight, scales, indices = (args.tensor(name) for name in ("weight", "scales", "indices"))
    table, out, zero_points = check_table(args, op), args.out, zero_points_of(args, op)
    if out.numel == 0:
        return []
    quads, width, row_bytes = quad_count(out.numel), out.dims[-1], weight.dims[1]
    grouped = table.group_size % 4 == 0 or table.row_groups < 2
    faults = args.faults((indices, weight.dims[0]))
    return [
        Dispatch(
            kernel="embedding_q4",
            bindings=(
                *(weight.id, scales.id, zero_points.id if zero_points else None),
                *(indices.id, out.id, faults),
            ),
            params=pack(
                "4Ii3I",
                *(quads, out.numel, width, row_bytes),
                *(weight.dims[0], table.group_size, table.row_groups, faults.number),
            ),
            grid=quad_grid(quads),
            types=(
                ("FLOAT", float_type(args, scales, out)),
                ("ZERO", zero_points.dtype.wgsl if zero_points else "f32"),
            ),
            overrides=(
                ("HIGH_FIRST", int(table.high_first)),
                ("ZERO_POINTS", int(zero_points is not None)),
                ("WHOLE", int(width % 4 == 0 and row_bytes % 2 == 0 and grouped)),
            ),
        )
    ]


def run_embedding(op: Embedding, args: Args) -> np.ndarray:
    table, width = check_table(args, op), args.out.dims[-1]
    packed, indices = args.array("weight").view(np.uint8), args.array("indices")
    try:
        rows = packed[indices]  # (.., bytes of a row)
    except IndexError as error:
        raise IndexRangeError(f"{args.call}: {error}") from error
    halves = [rows >> 4, rows & 15] if table.high_first else [rows & 15, rows >> 4]
    numbers = np.stack(halves, axis=-1).reshape(*indices.shape, 2 * packed.shape[1])
    numbers = numbers[..., :width] - np.float64(8)
    groups = np.arange(width) // table.group_size if table.row_groups else 0
    scales = args.array("scales").reshape(-1, max(table.row_groups, 1))
    at = indices[..., None] if table.row_groups else 0
    if zero_points_of(args, op) is not None:
        numbers -= args.array("zero_points").reshape(scales.shape)[at, groups]
    return (numbers * scales[at, groups]).astype(args.out.dtype.numpy)


for _op in EMBEDDINGS:
    register(
        _op.name,
        _op.signature,
        shape=embedding_shape,
        lower=lambda args, op=_op: lower_embedding(op, args),  # type: ignore[misc]
        reference=lambda args, op=_op: run_embedding(op, args),  # type: ignore[misc]
    )

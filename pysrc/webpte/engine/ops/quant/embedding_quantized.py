"""Embeddings from tables of 2, 4 or 8-bit integers, dequantized: indices (..) -> (.., E).

    et_vk.embedding_q4gsw(weight, scales, group_size, indices, is_linear_weight)
    quantized_decomposed.embedding_4bit(weight, scales, zero_points, min, max, indices)

    out[.., d] = (number(row, d) - zero_points[row][g]) * scales[row][g],  g = d / group_size

`weight` is bytes [V, at least E / numbers per byte]. With two numbers per byte, an even d is in the
low half if the table is shared with a linear layer (is_linear_weight), else in the high half; with
four, the first is in the lowest bits. 4-bit and 2-bit numbers are stored with an offset of 8 or 2;
bytes are stored as their dtype says. `scales` are [V, groups], [V] for a single group, or a single
number. Indices are treated as in indexing.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from webpte.engine.ops.core.args import Args, TensorArg
from webpte.engine.ops.core.quads import float_type, quad_count, quad_grid
from webpte.engine.ops.core.records import Dispatch, ceil_div, pack
from webpte.engine.ops.core.registry import register
from webpte.engine.ops.move.indexing import RowPart, check_indices, refuse_negative
from webpte.engine.shapes import Dims
from webpte.errors import GraphError, IndexRangeError


@dataclass(frozen=True)
class Format:
    """The packing of numbers in bytes, the offset to subtract, and the range of the result."""

    bits: int
    high_first: bool = False
    offset: int = 0
    limits: tuple[int, int] | None = None

    @property
    def per_byte(self) -> int:
        return 8 // self.bits

    @property
    def shifts(self) -> list[int]:
        """The right shift of each code in a byte, in order."""
        shifts = list(range(0, 8, self.bits))
        return shifts[::-1] if self.high_first else shifts


BYTES, PAIRS, FOURS = Format(8), Format(4, True, 8, (-8, 7)), Format(2, False, 2, (-2, 1))
LINEAR_PAIRS = Format(4, False, 8)


@dataclass(frozen=True)
class QuantizedTable:
    """The format of a table: its packing, and the elements that share a scale."""

    format: Format
    group_size: int
    row_groups: int  # scales per row; 0 if the whole table has a single scale


@dataclass(frozen=True)
class Embedding:
    name: str
    signature: str
    table: Callable[[Args], QuantizedTable]
    zero_points: bool = True


def scales_of_row(scales: TensorArg) -> int:
    if scales.rank == 2:
        return scales.dims[1]
    return 0 if scales.numel == 1 else 1


def q4gsw_table(args: Args) -> QuantizedTable:
    groups = scales_of_row(args.tensor("scales"))
    numbers = LINEAR_PAIRS if args.flag("is_linear_weight") else PAIRS
    return QuantizedTable(numbers, args.integer("group_size"), groups)


def decomposed_table(numbers: Format, args: Args) -> QuantizedTable:
    limits, known = (args.integer("quant_min"), args.integer("quant_max")), numbers.limits
    if known is not None and limits != known:
        raise GraphError(
            f"{args.call}: {numbers.bits}-bit numbers are {known[0]} to {known[1]}, not {limits}"
        )
    groups = scales_of_row(args.tensor("scales"))
    width = numbers.per_byte * args.tensor("weight").dims[1]
    return QuantizedTable(numbers, width // max(groups, 1), groups)


DECOMPOSED = (
    "weight: tensor, scales: tensor, zero_points: tensor?, quant_min: int, quant_max: int, "
    "indices: tensor"
)

EMBEDDINGS = (
    Embedding(
        "et_vk.embedding_q4gsw.default",
        "weight: tensor, scales: tensor, group_size: int, indices: tensor, "
        "is_linear_weight: bool = False -> tensor",
        q4gsw_table,
        zero_points=False,
    ),
    *(
        Embedding(
            f"quantized_decomposed.embedding_{kind}.{overload}",
            f"{DECOMPOSED}{more} -> tensor",
            partial(decomposed_table, numbers),
        )
        for kind, numbers in (("2bit", FOURS), ("4bit", PAIRS), ("byte", BYTES))
        for overload, more in (("default", ""), ("dtype", ", dtype: any = None"))
    ),
)


def zero_points_of(args: Args, op: Embedding) -> TensorArg | None:
    return args.optional_tensor("zero_points") if op.zero_points else None


def embedding_shape(args: Args) -> tuple[Dims]:
    # Rows of the table may be padded: the output has the real width.
    return ((*check_indices(args, args.tensor("indices")).dims, args.out.maximum[-1]),)


def check_table(args: Args, op: Embedding) -> QuantizedTable:
    weight, scales, out = args.tensor("weight"), args.tensor("scales"), args.out
    table, width = op.table(args), args.out.dims[-1]
    zero_points = zero_points_of(args, op)
    if weight.rank != 2 or weight.dtype.storage.itemsize != 1 or not out.dtype.is_float:
        raise GraphError(f"{args.call}: the table must be bytes of rank 2, and the output floats")
    enough = table.group_size > 0 and table.format.per_byte * weight.dims[1] >= width
    if table.row_groups:
        groups = ceil_div(width, max(table.group_size, 1))
        enough = enough and table.row_groups >= groups and scales.dims[0] == weight.dims[0]
    if not enough or (zero_points is not None and zero_points.numel != scales.numel):
        raise GraphError(
            f"{args.call}: a table {list(weight.dims)} with scales {list(scales.dims)} and groups "
            f"of {table.group_size} does not have rows of {width}"
        )
    return table


@dataclass(frozen=True)
class TablePart:
    """The buffers of a whole table, or of some of its rows."""

    rows: RowPart
    scales: TensorArg
    zero_points: TensorArg | None


def lower_embedding(op: Embedding, args: Args, parts: Sequence[TablePart] = ()) -> list[Dispatch]:
    """Lower an embedding, with a dispatch for each of the `parts` of its table, if it has any."""
    weight, scales, indices = (args.tensor(name) for name in ("weight", "scales", "indices"))
    table, out, zero_points = check_table(args, op), args.out, zero_points_of(args, op)
    whole = TablePart(RowPart(weight, 0), scales, zero_points)
    if out.numel == 0:
        return []
    quads, width, row_bytes = quad_count(out.numel), out.dims[-1], weight.dims[1]
    grouped = table.group_size % 4 == 0 or table.row_groups < 2
    numbers, signed = table.format, table.format.bits == 8 and weight.dtype.name == "int8"
    aligned = row_bytes * numbers.per_byte % 4 == 0
    flag = args.index_flag((indices, weight.dims[0]), wraps=False)
    return [
        Dispatch(
            kernel="embedding_quantized",
            bindings=(
                *(part.rows.tensor.id, part.scales.id),
                *(part.zero_points.id if part.zero_points else None, indices.id, out.id, flag),
            ),
            params=pack(
                "4Ii3I",
                *(quads, out.numel, width, row_bytes),
                *(weight.dims[0], table.group_size, table.row_groups, flag.number),
            )
            + part.rows.params,
            grid=quad_grid(quads),
            types=(
                ("FLOAT", float_type(args, scales, out)),
                ("ZERO", zero_points.dtype.wgsl if zero_points else "f32"),
            ),
            overrides=(
                ("BITS", numbers.bits),
                ("HIGH_FIRST", int(numbers.high_first)),
                ("OFFSET", numbers.offset),
                ("SIGNED", int(signed)),
                ("WHOLE", int(width % 4 == 0 and aligned and grouped)),
                ("ZERO_POINTS", int(zero_points is not None)),
                ("WRAPS", False),
                *((("IN_PARTS", True),) if parts else ()),
            ),
        )
        for part in parts or [whole]
    ]


def run_embedding(op: Embedding, args: Args) -> np.ndarray:
    table, width = check_table(args, op), args.out.dims[-1]
    packed, indices = args.array("weight"), args.array("indices")
    refuse_negative(args, indices)
    try:
        rows = packed[indices]  # (.., bytes of a row)
    except IndexError as error:
        raise IndexRangeError(f"{args.call}: {error}") from error
    if table.format.bits < 8:
        mask = 2**table.format.bits - 1
        parts = [(rows.view(np.uint8) >> shift) & mask for shift in table.format.shifts]
        rows = np.stack(parts, axis=-1).reshape(*indices.shape, len(parts) * packed.shape[1])
    numbers = rows[..., :width] - np.float64(table.format.offset)
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

"""Cases of embedding bags, one row after the other."""

from __future__ import annotations

from typing import Any

import numpy as np

from support.cases.cases import Array
from support.cases.row_cases import RowCase, normal

OP = "aten._embedding_bag.default"
MODES = ("sum", "mean", "max")


def bags(
    table: Array,
    indices: Array,
    offsets: Array,
    _scaled: bool,
    mode: int,
    _sparse: bool,
    weights: Array | None,
    last: bool,
    padding: int,
) -> tuple[Array, ...]:
    count, columns = len(indices), table.shape[1]
    bounds = offsets.tolist() if last else [*offsets.tolist(), count]
    number = len(bounds) - 1
    output, places = np.zeros((number, columns)), np.zeros((number, columns), np.int32)
    bag_of, sizes = np.zeros(count, np.int32), np.zeros(number, np.int32)
    for bag in range(number):
        end = count if bag == number - 1 else bounds[bag + 1]
        bag_of[bounds[bag] : end] = bag
        rows = [
            (i, row)
            for i, row in enumerate(indices.tolist())
            if bounds[bag] <= i < bounds[bag + 1] and row != padding
        ]
        sizes[bag] = len(rows) + end - bounds[bag + 1]
        for column in range(columns):
            values = [
                table[row, column] * (1 if weights is None else weights[i]) for i, row in rows
            ]
            if MODES[mode] == "max":
                best = 0
                for at, value in enumerate(values):
                    best = at if value > values[best] else best
                output[bag, column] = values[best] if rows else 0
                places[bag, column] = rows[best][1] if rows else 0
            else:
                output[bag, column] = sum(values)
        if MODES[mode] == "mean":
            output[bag] /= max(sizes[bag], 1)
    if MODES[mode] == "sum":
        sizes[:] = 0
        bag_of = bag_of if padding >= 0 else bag_of[:0]
    return output, bag_of, sizes, places if MODES[mode] == "max" else sizes


def case(
    mode: str,
    table: Array,
    indices: list[int],
    offsets: list[int],
    *,
    last: bool = False,
    padding: int = -1,
    weights: Array | None = None,
    live: tuple[tuple[Array, ...], ...] = (),
) -> RowCase:
    given = np.array(indices, np.int32), np.array(offsets, np.int32)
    args: tuple[Any, ...] = (table, *given, False, MODES.index(mode), False, weights, last, padding)
    outs = ("float32", "int32", "int32", "int32")
    return RowCase(OP, args, bags, outs, rtol=1e-5, live=live)


TABLE, ROWS = normal((7, 5)), [1, 3, 2, 3, 5, 0, 2, 6]
ODD = np.array([[np.nan, 1], [2, 2], [np.nan, 2]], np.float32)
MANY = np.random.default_rng(2).integers(0, 300, 900).tolist()

EMBEDDING_BAG_CASES = [
    *(
        one
        for mode in MODES
        for one in (
            case(mode, TABLE, ROWS, [0, 3, 3, 6]),
            case(mode, TABLE, ROWS, [0, 3, 3, 8], last=True),
            case(mode, TABLE, ROWS, [0, 3, 3, 6], padding=2),
            case(mode, TABLE, [], [0, 0, 0]),
            case(mode, normal((1, 1)), [0], [0]),
            case(mode, TABLE, [], []),
            case(mode, normal((300, 67)), MANY, [*range(0, 900, 11)]),
        )
    ),
    case("sum", TABLE, ROWS, [0, 3, 6], last=True),
    case("mean", TABLE, ROWS, [0, 3, 6], last=True),
    case("sum", TABLE, ROWS, [0, 3, 3, 6], weights=normal((8,), 3)),
    case("sum", TABLE, ROWS, [0, 3, 3, 8], weights=normal((8,), 3), last=True, padding=3),
    case("max", ODD, [0, 2, 1, 0, 2], [0, 3]),
    case(
        "mean",
        TABLE,
        ROWS,
        [0, 3, 3, 6],
        live=tuple(
            (TABLE, np.array(rows, np.int32), np.array(offsets, np.int32))
            for rows, offsets in (([4, 4, 1], [0, 1]), ([], [0]), (ROWS, [0, 1, 2, 8]))
        ),
    ),
]

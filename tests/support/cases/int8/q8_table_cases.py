"""Cases of functions of bytes by their tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from support.cases.cases import Array
from support.cases.int8.q8_linear_cases import bytes_of
from support.cases.live_cases import Const, LiveCase, each

TABLE = "webpte.q8_table.default"


def looked_up(x: Array, table: Array) -> Array:
    return each(x.shape, table.dtype, lambda *at: table[int(x[at]) % 256])


def lookup(shapes: Sequence[Sequence[int]], source: str, out: str) -> LiveCase:
    """`shapes` of x, one per step."""
    table = Const(np.random.default_rng(3).permutation(256).astype(np.uint8).view(out))
    steps = [(bytes_of(shape, source), table) for shape in shapes]
    return LiveCase(TABLE, steps, looked_up, out, exact=False)


Q8_TABLE_CASES = [
    *(lookup([(n,)], "int8", "int8") for n in (1, 2, 3, 4, 5, 67, 0)),
    lookup([(300,)], "uint8", "uint8"),
    lookup([(3, 5, 7)], "int8", "uint8"),
    lookup([()], "uint8", "int8"),
    lookup([(n, 3) for n in (9, 4, 1, 0, 5)], "int8", "int8"),
]

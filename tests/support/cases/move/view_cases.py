"""Cases of the view family: the same elements, bit for bit, under another shape."""

from __future__ import annotations

from typing import Any

import numpy as np

from support.cases.cases import Arg, Array, Case
from support.cases.elementwise.unary_cases import BYTES, INF, INTEGERS, NAN, SMALL, floats, spread

VIEW, SQUEEZE = "aten.view_copy.default", "aten.squeeze_copy.dims"
UNSQUEEZE, ALIAS, CLONE = (
    "aten.unsqueeze_copy.default",
    "aten.alias_copy.default",
    "aten.clone.default",
)
PERMUTED_VIEW = "webpte.permuted_view"
CLONE_ORDER = "dim_order_ops._clone_dim_order.default"

# A NaN with a payload, -0.0 and a subnormal would change in a copy through floats.
BITS = np.array([0x7FC12345, 0x80000000, 0x00000001, 0xFFC00001, 0x7F800000], np.uint32)

# op, shape, args, shape of the result
RESHAPES: tuple[tuple[str, tuple[int, ...], tuple[Arg, ...], tuple[int, ...]], ...] = (
    (VIEW, (6, 4), ([3, 8],), (3, 8)),
    (VIEW, (6, 4), ([24],), (24,)),
    (VIEW, (6, 4), ([-1],), (24,)),
    (VIEW, (6, 4), ([2, -1, 3],), (2, 4, 3)),
    (VIEW, (1,), ([],), ()),
    (VIEW, (), ([1, 1],), (1, 1)),
    (VIEW, (67,), ([67, 1],), (67, 1)),
    (VIEW, (0, 3), ([3, 0],), (3, 0)),
    (VIEW, (2, 3, 5, 7), ([7, 5, 3, 2],), (7, 5, 3, 2)),
    (SQUEEZE, (1, 5, 1), ([0, 2],), (5,)),
    (SQUEEZE, (1, 5, 1), ([-1],), (1, 5)),
    (SQUEEZE, (1, 5, 1), ([1],), (1, 5, 1)),
    (SQUEEZE, (1, 1), ([0, 1],), ()),
    (SQUEEZE, (0, 1), ([1],), (0,)),
    (UNSQUEEZE, (5, 3), (0,), (1, 5, 3)),
    (UNSQUEEZE, (5, 3), (2,), (5, 3, 1)),
    (UNSQUEEZE, (5, 3), (-1,), (5, 3, 1)),
    (UNSQUEEZE, (5, 3), (-3,), (1, 5, 3)),
    (UNSQUEEZE, (5, 3), (1.0,), (5, 1, 3)),
    (UNSQUEEZE, (), (0,), (1,)),
    (PERMUTED_VIEW, (2, 5, 1, 3), ([0, 2, 1, 3],), (2, 1, 5, 3)),
    (PERMUTED_VIEW, (1, 67), ([-1, 0],), (67, 1)),
    (PERMUTED_VIEW, (0, 1, 3), ([1, 0, 2],), (1, 0, 3)),
    (ALIAS, (5, 7), (), (5, 7)),
    (CLONE, (5, 7), (None,), (5, 7)),
    (CLONE, (5, 7), (), (5, 7)),
    (CLONE, (), (None,), ()),
    (CLONE, (0,), (None,), (0,)),
    (CLONE_ORDER, (5, 7), (False, [0, 1]), (5, 7)),
)


def view(op: str, x: Array, args: tuple[Arg, ...], shape: tuple[int, ...], **more: Any) -> Case:
    return Case(op, (x,), lambda v: v.reshape(shape), args, rtol=0, atol=0, **more)


def copied(x: Array) -> Case:
    return view(CLONE, x, (None,), x.shape, copied=True, label="copied")


VIEW_CASES = (
    [view(op, spread(shape, -1, 1), args, out) for op, shape, args, out in RESHAPES]
    + [
        view(op, spread(shape, -1, 1), args, out, copied=True, label="copied")
        for op, shape, args, out in RESHAPES
    ]
    + [view(CLONE, x, (None,), x.shape) for x in (INTEGERS, SMALL, BYTES, np.array([True, False]))]
    + [copied(x) for x in (INTEGERS, SMALL, BYTES, np.array([True, False, True]))]
    + [copied(floats(NAN, INF, -INF, -0.0, 1e-45)), copied(BITS.view(np.float32))]
    + [copied(np.arange(length, dtype=np.uint8)) for length in (1, 3, 5, 16, 17, 67)]
)

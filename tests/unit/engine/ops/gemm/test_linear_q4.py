"""Linear layers with packed weights: references, variants of the kernels, and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.cases.gemm.linear_q4_cases import (
    BACKWARD,
    DQ8CA,
    INT8,
    Q4GSW,
    QCS4W,
    REQUANT,
    packed_weights,
    positive,
    q4gsw,
    qcs4w,
)
from support.cases.live_cases import LiveCase, check_reference, lowered
from support.cases.row_cases import RowCase, normal
from support.graphs.graphs import make_planner, read_graph
from webpte.engine.ops.core.target import Target
from webpte.errors import GraphError, UnsupportedError

W = np.array([[0x2F, 0x80, 0x17, 0x9C], [0xA5, 0x3E, 0x71, 0x08]], np.uint8)
S = np.array([[0.5, 2], [1, 0.25]], np.float32)
X = np.array([[1, 2, -1, 0.5, 3, -2, 0.25, 1]], np.float32)
BYTES = np.array([[1, -2, 3, -4, 5, -6, 7, -128], [127, 0, 0, 0, 0, 0, 0, 1]], np.int8)
LATENT = np.array([[0.25, -3, 100, -100, 1], [0.75, 1.25, 2, -2, -0.125]], np.float32)


@pytest.mark.parametrize(
    ("op", "args", "wanted", "out"),
    [
        (Q4GSW, (X, W, S, 4, np.array([1, -1], np.float32)), [[15.5, -22.75]], "float32"),
        (Q4GSW, (X[:, :4], W, S[:1], 4, None), [[1.5, -15]], "float32"),
        (
            BACKWARD,
            (np.array([[1, -2]], np.float32), W, S, 4),
            [[15.5, -11, -28, 20, 2.5, -6.5, 4, 5]],
            "float32",
        ),
        (
            REQUANT,
            (LATENT, np.array([[0.5, 0.5], [0, 0.25]], np.float32), 3),
            [[40, 143, 8], [170, 12, 8]],
            "uint8",
        ),
        (INT8, (X, BYTES, np.array([0.5, 0.25], np.float32)), [[-53.625, 32]], "float32"),
    ],
)
def test_answers_of_pytorch(op: str, args: tuple[Any, ...], wanted: Any, out: str) -> None:
    """Compare with numbers from ExecuTorch's own definitions of these ops."""
    check_reference(LiveCase(op, [args], lambda *_: np.array(wanted), out=out, exact=False))


def test_nibbles_by_hand() -> None:
    """0x2f is 2 and 15 with the high half first; both count from -8."""
    x, scales = np.eye(2, dtype=np.float32), np.array([10], np.float32)
    args = (x, np.array([[0x2F]], np.uint8), scales)
    check_reference(
        LiveCase(QCS4W, [args], lambda *_: np.array([[-60], [70]]), out="float32", exact=False)
    )


def overrides_of(case: RowCase) -> tuple[str, dict[str, float]]:
    arrays = LiveCase(case.op, [case.args], lambda *_: case.expected(case.steps[0])[0], exact=False)
    dispatch = lowered(arrays)[0].dispatches()[0]
    return dispatch.kernel, dict(dispatch.overrides)


@pytest.mark.parametrize(
    ("case", "wide", "aligned"),
    [
        (q4gsw((2, 64), 8, 32), True, True),
        (q4gsw((2, 64), 8, 64), True, True),
        (q4gsw((1, 64), 7, 32), True, True),
        (q4gsw((1, 64), 8, 16), False, True),
        (q4gsw((1, 40), 8, 40), False, True),
        (q4gsw((1, 60), 8, 60), False, True),
        (q4gsw((1, 20), 8, 5), False, False),
        (qcs4w((2, 64), 8), True, True),
        (qcs4w((1, 10), 8, width=5), False, False),
    ],
)
def test_variants_of_few_rows(case: RowCase, wide: bool, aligned: bool) -> None:
    kernel, overrides = overrides_of(case)
    assert kernel == "linear_q4_skinny"
    assert (overrides["WIDE"], overrides["WEIGHTS_ALIGNED"]) == (wide, aligned)


@pytest.mark.parametrize("case", [q4gsw((1, 64), 8, 32), q4gsw((1, 96), 4, 96), qcs4w((1, 64), 8)])
def test_one_row_of_whole_units(case: RowCase) -> None:
    kernel, overrides = overrides_of(case)
    assert kernel == "gemv_q4"
    assert not overrides["NORMED"]


@pytest.mark.parametrize("inner", [64, 576, 2048, 8192])
def test_one_row_fits_into_the_shared_memory_that_there_is(inner: int) -> None:
    case = q4gsw((1, inner), 8, 32)
    for shared in (16384, 32768):
        arrays = LiveCase(case.op, [case.args], lambda *_: np.zeros((1, 8)), exact=False)
        planner, _ = make_planner(read_graph(arrays.program()), Target(shared_bytes=shared))
        planner.lower_all()
        types = dict(planner.dispatches()[0].types)
        staged = int(types["CHUNK"]) * int(types["SLICES"]) * int(types["X_QUADS"]) * 16
        assert staged + int(types["THREADS"]) * 16 < shared


def test_many_rows_go_in_tiles() -> None:
    kernel, overrides = overrides_of(q4gsw((40, 64), 8, 32, columns=9))
    assert kernel == "linear_q4"
    assert not overrides["SCALES_ALIGNED"]


def refused(op: str, *args: Any) -> LiveCase:
    return LiveCase(op, [args], lambda *_: np.zeros((2, 3)), out="float32", exact=False)


PACKED, SCALES = packed_weights(3, 16), positive((2, 4))
ROWS = normal((3,)), np.zeros(3, np.int8)


@pytest.mark.parametrize(
    ("case", "error", "message"),
    [
        (refused(Q4GSW, normal((2, 20)), PACKED, SCALES, 8, None), GraphError, "do not fit rows"),
        (refused(Q4GSW, normal((2, 8)), PACKED, SCALES, 8, None), GraphError, "do not fit rows"),
        (refused(Q4GSW, normal((2, 16)), PACKED, SCALES, 4, None), GraphError, "do not cover"),
        (refused(Q4GSW, normal((2, 16)), PACKED, SCALES, 0, None), GraphError, "do not cover"),
        (
            refused(Q4GSW, normal((2, 16)), PACKED, positive((2, 2)), 8, None),
            GraphError,
            "do not cover",
        ),
        (
            refused(Q4GSW, normal((2, 16)), PACKED, SCALES, 8, normal((2,))),
            GraphError,
            r"bias \[2\] for 3",
        ),
        (
            refused(Q4GSW, normal((2, 16)), positive((3, 8)), SCALES, 8, None),
            GraphError,
            "matrix of bytes",
        ),
        (
            refused(Q4GSW, np.zeros((2, 16), np.int32), PACKED, SCALES, 8, None),
            UnsupportedError,
            "only floats",
        ),
        (refused(QCS4W, normal((2, 16)), PACKED, positive((2,))), GraphError, "2 scales for 3"),
        (refused(INT8, normal((2, 16)), PACKED.view(np.int8), SCALES), GraphError, "do not fit"),
        (
            refused(DQ8CA, normal((2, 16)), *ROWS, PACKED, SCALES, SCALES, 8, None),
            GraphError,
            "3 scales and 3 zeros for 2 rows",
        ),
        (refused(BACKWARD, normal((2, 4)), PACKED, SCALES, 8), GraphError, "do not give"),
        (refused(REQUANT, normal((2, 17)), SCALES, 8), GraphError, "do not cover"),
        (refused(REQUANT, normal((17,)), SCALES, 8), GraphError, "takes matrices"),
    ],
)
def test_refuses(case: LiveCase, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        lowered(case)

"""Quantization parameters: references, results of PyTorch and torchao, and refused arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.cases.quant.choose_qparams_cases import AFFINE, TENSOR, TOKEN, affine, whole
from support.cases.row_cases import RowCase, normal
from support.graphs.graphs import make_planner, read_graph, wait
from webpte.errors import GraphError, UnsupportedError

X = np.array([[1, -2, 0.5, 3], [0.1, 0.2, 0.3, 0.4], [-5, -1, -2, -0.5]], np.float32)


def told(op: str, args: tuple[Any, ...], scale: Any, zero: Any, out: str) -> RowCase:
    """Return a case with torch's scale and zero as constants."""
    answer = np.array(scale, np.float32), np.array(zero)
    return RowCase(op, (X, *args), lambda *_: answer, outs=("float32", out), rtol=1e-7, atol=0)


@pytest.mark.parametrize(
    "case",
    [
        told(
            AFFINE,
            ("SYMMETRIC", [1, 4], None, -128, 127, None, None, None, False),
            [0.0235294122248888, 0.0031372548546642065, 0.03921568766236305],
            [0, 0, 0],
            "int8",
        ),
        told(
            AFFINE,
            ("SYMMETRIC_NO_CLIPPING_ERR", [1, 4], None, -128, 127, None, None, None, False),
            [0.023622047156095505, 0.0031496062874794006, 0.0390625],
            [0, 0, 0],
            "int8",
        ),
        told(
            AFFINE,
            ("ASYMMETRIC", [1, 4], None, -128, 127, None, None, None, False),
            [0.019607843831181526, 0.0015686274273321033, 0.019607843831181526],
            [-26, -128, 127],
            "int8",
        ),
        told(
            AFFINE,
            ("ASYMMETRIC", [1, 2], None, -8, 7, 0.05, None, None, False),
            [[0.2, 0.2], [0.05, 0.05], [0.3333333432674408, 0.13333334028720856]],
            [[2, -8], [-8, -8], [7, 7]],
            "int8",
        ),
        told(
            AFFINE,
            ("SYMMETRIC", [3, 4], None, 0, 255, None, None, None, True),
            [[0.03921568766236305]],
            [[128]],
            "int32",
        ),
        told(TENSOR, (0, 255, 1e-6, None), [0.0313725508749485], [159], "int64"),
        told(
            TOKEN,
            (None,),
            [[0.019607843831181526], [0.0015686274273321033], [0.019607843831181526]],
            [[-26], [-128], [127]],
            "int64",
        ),
    ],
    ids=str,
)
def test_answers_of_pytorch(case: RowCase) -> None:
    wait(case.run_reference())


def kernels(case: RowCase) -> list[str]:
    planner, _ = make_planner(read_graph(case.program()))
    planner.lower_all()
    return [dispatch.kernel for dispatch in planner.dispatches()]


def test_long_blocks_are_cut() -> None:
    assert kernels(affine(normal((2, 4096)), [1, 4096])) == ["choose_qparams"]
    assert kernels(affine(normal((2, 40000)), [1, 40000])) == [
        "choose_qparams_range",
        "choose_qparams",
    ]
    assert kernels(affine(normal((0, 12)), [1, 12])) == []


def refused(op: str, *args: Any, zero: str = "int8") -> RowCase:
    empty = np.zeros(3), np.zeros(3)
    return RowCase(op, args, lambda *_: empty, outs=("float32", zero))


@pytest.mark.parametrize(
    ("case", "error", "message"),
    [
        (refused(AFFINE, X, "LINEAR", [1, 4]), UnsupportedError, "mapping 'LINEAR'"),
        (refused(AFFINE, X, "SYMMETRIC", [1, 3]), GraphError, "do not tile"),
        (refused(AFFINE, X, "SYMMETRIC", [4]), GraphError, "do not tile"),
        (refused(AFFINE, X, "SYMMETRIC", [1, 0]), GraphError, "do not tile"),
        (refused(AFFINE, X, "SYMMETRIC", [1, 4], zero="int32"), UnsupportedError, "quant_min"),
        (refused(AFFINE, X, "SYMMETRIC", [1, 4], None, 7, 7), GraphError, "not a range"),
        (refused(TENSOR, X[:0], 0, 255, 1e-6, None), GraphError, "no values"),
        (refused(TOKEN, X[:, :0], None), GraphError, "no values"),
        (refused(TOKEN, np.array(1, np.float32), None), GraphError, "no rows"),
        (refused(TOKEN, X.astype(np.int32), None), GraphError, "floats"),
    ],
)
def test_refuses(case: RowCase, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        kernels(case)


def test_one_pair_for_everything() -> None:
    case = whole(normal((3, 5)), 0, 255, 1e-6)
    assert [x.shape for x in case.expected(case.steps[0])] == [(1,), (1,)]

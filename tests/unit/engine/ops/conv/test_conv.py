"""Convolutions: the NumPy reference, the choice of kernels, and refused arguments."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from support.cases.conv.conv_cases import (
    CONV_CASES,
    CONVOLUTION,
    DIRECT,
    POINTWISE,
    PRODUCTS,
    SPLIT,
    TILED,
    TRANSPOSED_DIRECT,
    TRANSPOSED_TILED,
    WINDOWS,
    conv,
)
from support.cases.row_cases import RowCase
from support.graphs.graphs import make_planner, read_graph, wait
from webpte.engine.ops.conv.conv_tiles import FULL
from webpte.engine.ops.core.records import Dispatch
from webpte.errors import GraphError, UnsupportedError, WebpteError

# Computed by PyTorch: an input that counts, 0, 1, 2, .., and weights that repeat -2, -1, 0, 1, 2.
FORWARD = [[[[-15, -14, -13], [-47, -50, -53]], [[-44, -47, -50], [12, 13, 14]]]]
LINE = [
    [[-2, 0, 16], [-15, -8, -5], [-3, -11, -21]],
    [[-12, -20, 16], [-35, -18, -15], [17, -11, -41]],
]
TRANSPOSED = [
    [
        [[0, -2, -1, -4, -2], [0, 1, 2, 0, 4], [-3, -8, -4, -10, -5], [6, -2, 8, -3, 10], [0] * 5],
        [
            [0, -1, 0, -1, 0],
            [-12, 8, -14, 9, -16],
            [0, -1, 0, -1, 0],
            [-18, 11, -20, 12, -22],
            [0] * 5,
        ],
    ]
]


@pytest.mark.parametrize(
    ("x", "weight", "args", "expected"),
    [
        ((1, 2, 4, 5), (2, 2, 3, 2), ([2, 1], [1, 0], [1, 2], False, [0, 0], 1), FORWARD),
        ((2, 2, 5), (3, 2, 3), ([2], [1], [1], False, [0], 1), LINE),
        ((1, 2, 2, 3), (2, 1, 2, 3), ([2, 2], [0, 1], [1, 1], True, [1, 0], 2), TRANSPOSED),
    ],
)
def test_numbers_of_torch(
    x: tuple[int, ...], weight: tuple[int, ...], args: tuple[Any, ...], expected: list[Any]
) -> None:
    counting = np.arange(np.prod(x), dtype=np.float32).reshape(x)
    repeating = (np.arange(np.prod(weight), dtype=np.float32) % 5 - 2).reshape(weight)
    case = RowCase(CONVOLUTION, (counting, repeating, None, *args), lambda *args: expected)
    wait(case.run_reference())


# Kernels


def dispatches(case: RowCase) -> tuple[Dispatch, ...]:
    planner, _ = make_planner(read_graph(case.program()))
    planner.lower_all()
    return planner.dispatches()


@pytest.mark.parametrize(
    ("cases", "kernels"),
    [
        (TILED, [["conv"]]),
        (POINTWISE, [["conv_pointwise"]]),
        (PRODUCTS, [["gemm_small"]]),
        (WINDOWS, [["conv_window"]]),
        (SPLIT, [["conv", "conv_split_k_sum"], ["conv_pointwise", "conv_split_k_sum"]]),
        (DIRECT, [["conv_direct"]]),
        (TRANSPOSED_TILED, [["conv"]]),
        (TRANSPOSED_DIRECT, [["conv_direct"]]),
    ],
    ids=[
        *("tiled", "pointwise", "products", "windows", "split", "direct"),
        *("transposed tiled", "transposed direct"),
    ],
)
def test_cases_run_on_their_kernels(cases: list[RowCase], kernels: list[list[str]]) -> None:
    for case in cases:
        assert [dispatch.kernel for dispatch in dispatches(case)] in kernels, str(case)


def test_every_tile_and_window_has_cases() -> None:
    tiles, windows, blocks = set(), set(), set()
    for case in CONV_CASES:
        for first in dispatches(case)[:1]:  # no dispatch for an empty batch
            types = dict(first.types)
            tiles.add((types.get("TILE_ROWS"), types.get("TILE_COLUMNS")))
            windows.add(types.get("WINDOW"))
            blocks.add(types.get("BLOCK"))
    assert tiles >= {("64", "64"), ("32", "32"), ("16", "64")}
    assert windows >= {"0", "6", "11"}
    assert blocks >= {"1", "4"}


@pytest.mark.parametrize(
    ("channels", "size", "taps"),
    [(64, 56, 3), (128, 28, 3), (256, 14, 3), (512, 7, 3), (960, 7, 1)],
)
def test_layers_of_an_image_network_fill_a_gpu(channels: int, size: int, taps: int) -> None:
    shape, weight = (1, channels, size, size), (channels, channels, taps, taps)
    case = conv(shape, weight, padding=[taps // 2])
    planner, _ = make_planner(read_graph(replace(case, expect=lambda x, *rest: x).program()))
    planner.lower_all()
    assert np.prod(planner.dispatches()[0].grid) >= FULL / 3


def test_no_images_make_no_dispatch() -> None:
    assert dispatches(conv((0, 3, 5, 5), (8, 3, 3, 3))) == ()


# What is wrong

GOOD: dict[str, Any] = {"x": (1, 4, 5, 5), "weight": (6, 4, 3, 3)}


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"x": (1, 5, 5, 5)}, GraphError, "does not fit an input"),
        ({"x": (1, 4, 5)}, GraphError, "does not fit an input"),
        ({"x": (1, 4, 5, 5, 5)}, GraphError, "does not fit an input"),
        ({"x": (1, 4, 5, 5, 5, 5)}, UnsupportedError, "1 to 3 spatial dims"),
        ({"x": (1, 4, 2, 5)}, GraphError, "does not fit an input"),
        ({"groups": 4}, GraphError, "in 4 groups"),
        ({"groups": 0}, GraphError, "in 0 groups"),
        ({"stride": [0]}, GraphError, "stride"),
        ({"stride": [1, 2, 1]}, GraphError, "2 spatial dims"),
        ({"padding": [-1]}, GraphError, "padding"),
        ({"dilation": [0, 1]}, GraphError, "dilation"),
        ({"transposed": True, "weight": (4, 6, 3, 3), "extra": [1]}, GraphError, "output_padding"),
        ({"transposed": True, "weight": (4, 6, 3, 3), "padding": [4]}, GraphError, "does not fit"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_wrong_arguments(change: dict[str, Any], error: type[WebpteError], message: str) -> None:
    case = replace(conv(**{**GOOD, **change}), expect=lambda *args: np.zeros((1, 6, 3, 3)))
    with pytest.raises(error, match=message) as raised:
        dispatches(case)
    assert CONVOLUTION in str(raised.value)


def test_wrong_bias_and_integers() -> None:
    good = conv(**GOOD)
    x, weight, _, *rest = good.args
    short = replace(good, args=(x, weight, np.zeros(5, np.float32), *rest), expect=lambda *a: 0)
    with pytest.raises(GraphError, match=r"bias \[5\] for 6 channels"):
        dispatches(short)
    assert isinstance(x, np.ndarray)
    whole = replace(good, args=(x.astype(np.int32), weight, None, *rest), expect=lambda *a: 0)
    with pytest.raises(UnsupportedError, match="int32"):
        dispatches(whole)

"""Resizing and sampling: the NumPy references against plain loops, and refused arguments."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from support.cases.conv.resample_cases import LINEAR, linear, nearest, sampled
from support.cases.row_cases import RowCase, normal
from support.graphs.graphs import make_planner, read_graph, wait
from webpte.engine.ops.core.records import Dispatch
from webpte.errors import GraphError, UnsupportedError

# Computed by PyTorch.

SMALL = np.arange(6, dtype=np.float32).reshape(1, 1, 2, 3)
REPEATED = [[[[0, 0, 1, 1, 2], [0, 0, 1, 1, 2], [3, 3, 4, 4, 5]]]]
BY_FACTOR = [
    [
        [
            [0, 0.38235, 0.97059, 1.55882, 2],
            [1.3125, 1.69485, 2.28309, 2.87132, 3.3125],
            [3, 3.38235, 3.97059, 4.55882, 5],
        ]
    ]
]


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        (nearest(SMALL, None, [1.6, 1.7]), REPEATED),
        (linear(SMALL, None, False, [1.6, 1.7]), BY_FACTOR),
    ],
    ids=["nearest", "linear"],
)
def test_factors_are_used_as_torch_uses_them(case: RowCase, expected: list[Any]) -> None:
    wait(replace(case, expect=lambda *args: expected).run_reference())


# (interpolation, padding, align_corners) -> values at three of the places below
SAMPLES = {
    (0, 0, False): [27.39132, 0, 0],
    (0, 0, True): [22.65115, 3.67735, 0],
    (0, 1, True): [22.65115, 9.19338, 22.62742],
    (0, 2, False): [27.39132, 4.48583, 6.52856],
    (0, 2, True): [22.65115, 7.51074, 10.0833],
    (1, 1, False): [31.62278, 5.19615, 22.62742],
    (1, 2, False): [31.62278, 5.19615, 5.19615],
    (1, 2, True): [31.62278, 2.82843, 5.19615],
    (2, 0, False): [31.54048, -0.50064, 0],
    (2, 1, False): [28.20527, 4.74521, 22.62742],
    (2, 2, False): [28.20527, 4.15891, 6.5581],
    (2, 2, True): [25.12026, 5.43369, 7.54013],
}


@pytest.mark.parametrize("options", SAMPLES, ids=str)
def test_samples_of_torch(options: tuple[int, int, bool]) -> None:
    image = np.arange(12, dtype=np.float32).reshape(1, 1, 3, 4) ** 1.5
    places = np.array([[[[0.25, 0.5], [1.4, -0.7], [-3.1, 2.6]]]], np.float32)
    case = sampled(image, places, *options)
    wait(replace(case, expect=lambda *args: [[[SAMPLES[options]]]]).run_reference())


def test_places_without_meaning_are_outside() -> None:
    places = np.array([[[[np.nan, 0], [np.inf, 0], [0, -np.inf], [0, 0]]]], np.float32)
    case = sampled(np.ones((1, 1, 3, 3), np.float32), places, 0, 0, True)
    wait(replace(case, expect=lambda *args: [[[[0, 0, 0, 1]]]]).run_reference())


def dispatches(case: RowCase) -> tuple[Dispatch, ...]:
    planner, _ = make_planner(read_graph(case.program()))
    planner.lower_all()
    return planner.dispatches()


def test_no_images_make_no_dispatch() -> None:
    empty = normal((0, 3, 5, 5))
    assert dispatches(nearest(empty, [7, 7], None)) == ()
    assert dispatches(linear(empty, [7, 7], True, None)) == ()
    assert dispatches(sampled(empty, normal((0, 2, 2, 2)), 0, 0, True)) == ()


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (nearest(SMALL, None, None), "needs output_size or scale_factors"),
        (nearest(SMALL, [3], None), "cannot be resized"),
        (nearest(SMALL, None, [0.3, 2.0]), "cannot be resized"),
        (linear(normal((3, 4, 5)), [2, 2], True, None), r"takes \(B, C, H, W\)"),
        (sampled(SMALL, normal((2, 3, 3, 2)), 0, 0, True), r"\(B, Y, X, 2\)"),
        (sampled(SMALL, normal((1, 3, 3, 3)), 0, 0, True), r"\(B, Y, X, 2\)"),
    ],
)
def test_wrong_arguments(case: RowCase, message: str) -> None:
    with pytest.raises(GraphError, match=message) as raised:
        dispatches(replace(case, expect=lambda *args: np.zeros((1, 1, 2, 2))))
    assert case.op in str(raised.value)


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (linear(SMALL.astype(np.uint8), [4, 4], False, None), "floats only, not uint8"),
        (sampled(SMALL, normal((1, 2, 2, 2)), 3, 0, True), "interpolation_mode 3"),
        (sampled(SMALL, normal((1, 2, 2, 2)), 0, 3, True), "padding_mode 3"),
    ],
)
def test_what_is_not_supported(case: RowCase, message: str) -> None:
    shape = (1, 1, 4, 4) if case.op == LINEAR else (1, 1, 2, 2)
    with pytest.raises(UnsupportedError, match=message):
        dispatches(replace(case, expect=lambda *args: np.zeros(shape)))

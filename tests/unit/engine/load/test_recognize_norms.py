"""RMS norms that a file writes out become one call, and what only looks like a norm stays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from support.graphs.graphs import wait
from support.graphs.recognized import recognized
from support.write.pte_writer import GraphWriter

TOKENS, WIDTH = 5, 8
NORM, UNSCALED = "et_vk.rms_norm.default", "webpte.unscaled_rms_norm"


@dataclass(frozen=True)
class Parts:
    """The parts of a norm that is written out; with the defaults it is a norm."""

    square: str = "mul"
    epsilon: float = 1e-6
    axis: int = -1
    weighted: bool = True
    weight_dims: tuple[int, ...] = (WIDTH,)
    swapped: bool = False  # whether factors come in the other order
    alpha: int = 1
    others: bool = False  # whether the mean is of another tensor
    returned: bool = False  # whether the reciprocal is an output, too
    changed: bool = False  # whether x is state that changes after its mean


def written(parts: Parts) -> GraphWriter:
    g, dims, column = GraphWriter(), (1, TOKENS, WIDTH), (1, TOKENS, 1)
    x, other = g.tensor(dims), g.tensor(dims)
    if parts.changed:
        given, x = x, g.tensor(dims, constant=np.ones(dims, np.float32))
    source = other if parts.others else x
    if parts.square == "mul":
        squares = g.op("aten.mul.Tensor", source, source, g.tensor(dims))
    else:
        exponent = {"square": (), "pow": (g.int(2),), "cube": (g.int(3),)}[parts.square]
        name = "aten.square.default" if not exponent else "aten.pow.Tensor_Scalar"
        squares = g.op(name, source, *exponent, g.tensor(dims))
    sums = column if parts.axis in (-1, 2) else (1, 1, WIDTH)
    mean = g.op("aten.mean.dim", squares, g.int_list([parts.axis]), g.bool_(True), g.tensor(sums))
    eps = g.tensor((1,), constant=np.array([parts.epsilon], np.float32))
    total = g.op("aten.add.Tensor", mean, eps, g.int(parts.alpha), g.tensor(sums))
    factor = g.op("aten.rsqrt.default", total, g.tensor(sums))
    if parts.changed:
        g.op("aten.sigmoid.default", given, x)
    pair = (factor, x) if parts.swapped else (x, factor)
    out = g.op("aten.mul.Tensor", *pair, g.tensor(dims))
    if parts.weighted:
        values = np.linspace(0.5, 2, int(np.prod(parts.weight_dims)), dtype=np.float32)
        weight = g.tensor(parts.weight_dims, constant=values.reshape(parts.weight_dims))
        pair = (weight, out) if parts.swapped else (out, weight)
        out = g.op("aten.mul.Tensor", *pair, g.tensor(dims))
    g.inputs(given if parts.changed else x, *[other] * parts.others)
    g.outputs(out, *[factor] * parts.returned)
    return g


def calls(count: int) -> list[list[np.ndarray]]:
    random = np.random.default_rng(4)
    return [[random.normal(0, 2, (1, TOKENS, WIDTH)).astype(np.float32) for _ in range(count)]]


@pytest.mark.parametrize(
    ("parts", "name"),
    [
        ({}, NORM),
        ({"square": "pow"}, NORM),
        ({"square": "square"}, NORM),
        ({"swapped": True}, NORM),
        ({"axis": 2}, NORM),
        ({"weighted": False}, UNSCALED),
        ({"weight_dims": (TOKENS, 1)}, UNSCALED),  # a number for each token
        ({"weight_dims": (TOKENS, WIDTH)}, UNSCALED),
    ],
    ids=str,
)
def test_a_norm_is_one_call(parts: dict[str, Any], name: str) -> None:
    found = wait(recognized(written(Parts(**parts)), calls(1) * 2))
    assert found[name] == 1
    assert not found["aten.rsqrt.default"] + found["aten.mean.dim"]


@pytest.mark.parametrize(
    "parts",
    [
        {"square": "cube"},
        {"epsilon": 0.5},  # too large to be there for safety alone
        {"alpha": 2},
        {"axis": 1},
        {"others": True},
        {"returned": True},
        {"changed": True},
    ],
    ids=str,
)
def test_what_is_no_norm_stays(parts: dict[str, Any]) -> None:
    made = Parts(**parts)
    given = [[np.abs(x) for x in row] for row in calls(1 + made.others)]
    found = wait(recognized(written(made), given))
    assert not found[NORM] + found[UNSCALED]
    assert found["aten.rsqrt.default"] == 1

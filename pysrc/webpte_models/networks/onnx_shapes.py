"""ONNX operators that need numbers besides tensors: shapes, places and scales.

Such an argument is a list of numbers, whether it is a constant or computed from shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own habit
from torch import Tensor

ShapeOperator = Callable[[Sequence[Any], dict[str, Any]], Any]


def _reshape(x: Sequence[Any], _: dict[str, Any]) -> Any:
    if isinstance(x[0], list):  # a number becomes a list of one
        return x[0]
    wanted = [x[0].shape[at] if size == 0 else size for at, size in enumerate(x[1])]
    return x[0].reshape(wanted)


def _slice(x: Sequence[Any], _: dict[str, Any]) -> Any:
    starts, ends = x[1], x[2]
    axes = x[3] if len(x) > 3 else list(range(len(starts)))
    steps = x[4] if len(x) > 4 else [1] * len(starts)
    if set(steps) != {1}:
        raise ValueError(f"a Slice with steps other than 1: {steps}")
    found = x[0]
    for start, end, axis in zip(starts, ends, axes, strict=True):
        if isinstance(found, list):
            found = found[start:end]
        else:
            found = found.narrow(axis, start, min(end, found.shape[axis]) - start)
    return found


def _concat(x: Sequence[Any], attributes: dict[str, Any]) -> Any:
    if all(isinstance(one, list) for one in x):
        return [number for one in x for number in one]
    return torch.cat(list(x), attributes["axis"])


def _squeeze(x: Sequence[Any], attributes: dict[str, Any]) -> Any:
    (axis,) = attributes["axes"]
    return x[0] if isinstance(x[0], list) else x[0].squeeze(axis)


def _unsqueeze(x: Sequence[Any], attributes: dict[str, Any]) -> Any:
    (axis,) = attributes["axes"]
    return x[0] if isinstance(x[0], list) else x[0].unsqueeze(axis)


def _resize(x: Sequence[Any], attributes: dict[str, Any]) -> Tensor:
    batch, channels, down, across = x[2]
    how = attributes["mode"], attributes["coordinate_transformation_mode"]
    if how != ("nearest", "asymmetric") or (batch, channels) != (1, 1):
        raise ValueError(f"a Resize of another kind than whole steps: {attributes}")
    return F.interpolate(x[0], scale_factor=(down, across), mode="nearest")


def _clip(x: Sequence[Any], _: dict[str, Any]) -> Tensor:
    (low,), (high,) = x[1:3]
    result: Tensor = x[0].clamp(low, high)
    return result


SHAPE_OPERATORS: dict[str, ShapeOperator] = {
    "Cast": lambda x, _: x[0],
    "Clip": _clip,
    "Concat": _concat,
    "Reshape": _reshape,
    "Resize": _resize,
    "Shape": lambda x, _: list(x[0].shape),
    "Slice": _slice,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
}

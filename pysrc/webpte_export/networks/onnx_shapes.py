"""ONNX operators that need numbers besides tensors: shapes, places and scales.

Such an argument is a list of numbers, either a constant or computed from shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own habit
from torch import Tensor

_OPEN_END = 2**31 - 1  # from here on an end of Slice means the dim's end
ShapeOperator = Callable[[Sequence[Any], dict[str, Any]], Any]


def _reshape(x: Sequence[Any], _: dict[str, Any]) -> Any:
    if isinstance(x[0], list):  # a single number becomes a list
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
        elif start != 0 or end < _OPEN_END:
            size = found.shape[axis]
            first = start + size if start < 0 else start
            last = end + size if end < 0 else min(end, size)
            found = found.narrow(axis, first, last - first)
    return found


def _concat(x: Sequence[Any], attributes: dict[str, Any]) -> Any:
    if all(isinstance(one, list) for one in x):
        return [number for one in x for number in one]
    return torch.cat(list(x), attributes["axis"])


def _axes(x: Sequence[Any], attributes: dict[str, Any]) -> list[int]:
    """Return the axes of an operator: an attribute, or since opset 13 the second input."""
    axes: list[int] = x[1] if len(x) > 1 else attributes["axes"]
    return axes


def _squeeze(x: Sequence[Any], attributes: dict[str, Any]) -> Any:
    (axis,) = _axes(x, attributes)
    return x[0] if isinstance(x[0], list) else x[0].squeeze(axis)


def _unsqueeze(x: Sequence[Any], attributes: dict[str, Any]) -> Any:
    (axis,) = _axes(x, attributes)
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


def _pad(x: Sequence[Any], attributes: dict[str, Any]) -> Tensor:
    """Pad with zeros, or with the mirrored values of an axis, without the values at its ends."""
    found: Tensor = x[0]
    mode, dims = attributes.get("mode", "constant"), found.dim()
    value = x[2][0] if len(x) > 2 else 0.0
    befores, afters = x[1][:dims], x[1][dims:]
    if mode == "constant":
        pairs = zip(reversed(befores), reversed(afters), strict=True)
        return F.pad(found, [count for pair in pairs for count in pair], value=value)
    if mode != "reflect":
        raise ValueError(f"a Pad of another mode than constant or reflect: {mode}")
    for axis, (before, after) in enumerate(zip(befores, afters, strict=True)):
        size = found.shape[axis]
        parts = [found]
        if before:
            parts.insert(0, found.narrow(axis, 1, before).flip(axis))
        if after:
            parts.append(found.narrow(axis, size - 1 - after, after).flip(axis))
        found = torch.cat(parts, axis) if len(parts) > 1 else found
    return found


def _reduced(
    x: Sequence[Any], attributes: dict[str, Any], function: Callable[..., Tensor]
) -> Tensor:
    """Reduce axis by axis: the exporter's reductions on a GPU have a single axis, and keep it."""
    found: Tensor = x[0]
    axes = sorted(axis % found.dim() for axis in _axes(x, attributes))
    for axis in axes:
        found = function(found, [axis], keepdim=True)
    if not attributes.get("keepdims", 1):
        for axis in reversed(axes):
            found = found.squeeze(axis)
    return found


SHAPE_OPERATORS: dict[str, ShapeOperator] = {
    "Cast": lambda x, _: x[0],
    "Clip": _clip,
    "Concat": _concat,
    "Pad": _pad,
    "ReduceMax": lambda x, a: _reduced(x, a, torch.amax),
    "ReduceMin": lambda x, a: _reduced(x, a, torch.amin),
    "ReduceSum": lambda x, a: _reduced(x, a, torch.sum),
    "Reshape": _reshape,
    "Resize": _resize,
    "Shape": lambda x, _: list(x[0].shape),
    "Slice": _slice,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
}

"""Chooses the sizes of the example for tracing a model.

Passes of the exporters compare sizes. A changing size that happens to equal a fixed size is then
taken for fixed, too: a batch of 2 in a model with 2 heads would be 2 in the program, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.export import Dim
from torch.utils import _pytree as pytree

_LARGEST = 97  # of the sizes to choose from


def with_unlike_sizes(module: Any, inputs: tuple[Any, ...], dynamic_shapes: Any) -> Any:
    """Return inputs of other sizes, where a changing size equals a fixed one; None if none does."""
    found = list(_changing(inputs, dynamic_shapes))
    if not found or not all(_is_plain(dim) for _, _, dim in found):
        return None
    changing = {(id(tensor), place) for tensor, place, _ in found}
    leaves = [leaf for leaf in pytree.tree_leaves(inputs) if isinstance(leaf, Tensor)]
    fixed = {
        size
        for leaf in leaves
        for place, size in enumerate(leaf.shape)
        if (id(leaf), place) not in changing
    }
    fixed |= {size for held in module.state_dict().values() for size in getattr(held, "shape", ())}
    sizes: dict[str, int] = {}
    for tensor, place, dim in found:
        sizes.setdefault(dim.__name__, tensor.shape[place])
    if not any(size in fixed or size < 3 for size in sizes.values()):
        return None
    chosen: dict[str, int] = {}
    for _, _, dim in found:
        if dim.__name__ not in chosen:
            taken = fixed | {*chosen.values()}
            candidates = range(max(dim.min, 3), min(dim.max, _LARGEST) + 1)
            own = sizes[dim.__name__]
            fitting = [size for size in candidates if size not in taken]
            chosen[dim.__name__] = min(fitting, key=lambda size: abs(size - own), default=own)
    if chosen == sizes:
        return None
    made: dict[int, list[int]] = {id(leaf): list(leaf.shape) for leaf in leaves}
    for tensor, place, dim in found:
        made[id(tensor)][place] = chosen[dim.__name__]

    def other(leaf: Any) -> Any:
        same = not isinstance(leaf, Tensor) or list(leaf.shape) == made[id(leaf)]
        return leaf if same else torch.zeros(made[id(leaf)], dtype=leaf.dtype)

    return pytree.tree_map(other, inputs)


def _is_plain(dim: Any) -> bool:
    return isinstance(dim, Dim) and type(dim) is Dim


def _changing(value: Any, shapes: Any) -> Iterator[tuple[Tensor, int, Any]]:
    """List the tensors' changing dims: the tensor, the dim's number, and its `Dim`."""
    if shapes is None:
        return
    if isinstance(value, Tensor):
        pairs = shapes.items() if isinstance(shapes, Mapping) else enumerate(shapes)
        yield from ((value, place, dim) for place, dim in pairs if dim is not None)
    elif isinstance(shapes, Mapping):
        named = value.items() if isinstance(value, Mapping) else zip(shapes, value, strict=False)
        for name, each in named:
            yield from _changing(each, shapes.get(name))
    elif isinstance(value, list | tuple):
        for each, own in zip(value, shapes, strict=False):
            yield from _changing(each, own)

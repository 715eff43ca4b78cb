"""Arithmetic on shapes that every layer needs: counting, normalising, broadcasting."""

from __future__ import annotations

import math
from collections.abc import Sequence

from webpte.engine.dtypes import INT32_MAX
from webpte.errors import GraphError

Dims = tuple[int, ...]


def numel(dims: Sequence[int]) -> int:
    """Return the number of elements; 1 for a rank-0 tensor."""
    return math.prod(dims)


def fits(dims: Sequence[int], maximum: Sequence[int]) -> bool:
    """Tell whether memory that was allocated for `maximum` holds `dims`, of the same rank.

    ExecuTorch bounds a dynamic tensor by its number of elements: a dim alone may be larger.
    """
    return all(0 <= size <= INT32_MAX for size in dims) and numel(dims) <= numel(maximum)


def window_count(
    size: int, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool
) -> int:
    """Return how many windows of a pool fit along a dim; less than 1 if none does."""
    room = size + 2 * padding - dilation * (kernel - 1) - 1
    if not ceil_mode:
        return room // stride + 1
    count = -(-room // stride) + 1
    # A window that would start in the padding after the input is dropped.
    return count - 1 if (count - 1) * stride >= size + padding else count


def normalize_dim(dim: int, rank: int) -> int:
    """Return a dim counted from the front; a rank-0 tensor has dim 0, as in torch."""
    effective = max(rank, 1)
    if not -effective <= dim < effective:
        raise GraphError(f"dim {dim} is outside a tensor of rank {rank}")
    return dim % effective


def normalize_index(index: int, size: int) -> int:
    """Return an index counted from the front."""
    if not -size <= index < size:
        raise GraphError(f"index {index} is outside a dim of size {size}")
    return index % size


def broadcast(*shapes: Sequence[int]) -> Dims:
    """Return the common shape under NumPy's rules."""
    rank = max((len(shape) for shape in shapes), default=0)
    result = []
    for axis in range(rank):
        sizes = {shape[axis - rank] for shape in shapes if axis - rank >= -len(shape)} - {1}
        if len(sizes) > 1:
            listed = " and ".join(str(list(shape)) for shape in shapes)
            raise GraphError(f"shapes {listed} do not broadcast together")
        result.append(sizes.pop() if sizes else 1)
    return tuple(result)


def contiguous_strides(dims: Sequence[int]) -> Dims:
    """Return row-major strides, in elements."""
    strides = [1] * len(dims)
    for axis in range(len(dims) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * dims[axis + 1]
    return tuple(strides)


def broadcast_strides(dims: Sequence[int], target: Sequence[int]) -> Dims:
    """Return strides that read a tensor of shape `dims` as if it had shape `target`."""
    padded = (1,) * (len(target) - len(dims)) + tuple(dims)
    strides = contiguous_strides(padded)
    return tuple(0 if size == 1 else stride for size, stride in zip(padded, strides, strict=True))


def collapse(dims: Sequence[int], *strides: Sequence[int]) -> tuple[Dims, list[Dims]]:
    """Merge adjacent axes where every stride list allows it; drop axes of size 1.

    This keeps the kernels' index arithmetic short, and reduces ranks that no shader could declare.
    """
    axes = [axis for axis, size in enumerate(dims) if size != 1]
    merged: list[tuple[int, list[int]]] = []
    for axis in axes:
        size, steps = dims[axis], [stride[axis] for stride in strides]
        if merged:
            _, outer_steps = merged[-1]
            if all(o == s * size for o, s in zip(outer_steps, steps, strict=True)):
                merged[-1] = (merged[-1][0] * size, steps)
                continue
        merged.append((size, steps))
    return (
        tuple(size for size, _ in merged),
        [tuple(steps[i] for _, steps in merged) for i in range(len(strides))],
    )

"""Strided views: how a tensor that was viewed and permuted lies in its source's memory.

An axis is a list of (size, stride) steps, outermost first, strides in elements; an axis has several
steps if a view merged dims that are not contiguous. With strided views a kernel reads through views
and permutations that would otherwise be copies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from webpte.engine.shapes import Dims, contiguous_strides, numel

Step = tuple[int, int]  # size, stride
Axis = tuple[Step, ...]


@dataclass(frozen=True)
class StridedView:
    """Axes of (size, stride) steps; steps of size 1 are left out."""

    axes: tuple[Axis, ...]

    @property
    def dims(self) -> Dims:
        return tuple(numel([size for size, _ in axis]) for axis in self.axes)

    def permuted(self, order: Sequence[int]) -> StridedView:
        return StridedView(tuple(self.axes[dim] for dim in order))

    def viewed(self, dims: Dims) -> StridedView | None:
        """Return the view under other dims, elements in the same order; None if impossible."""
        if numel(dims) != numel(self.dims) or numel(dims) == 0:
            return None
        rest = list(merged([step for axis in self.axes for step in axis]))
        axes = list[Axis]()
        for size in reversed(dims):
            axis, left = list[Step](), size
            while left > 1:
                step_size, stride = rest.pop()
                inner = min(step_size, left)
                if step_size % inner or left % inner:
                    return None
                axis.insert(0, (inner, stride))
                if step_size > inner:
                    rest.append((step_size // inner, stride * inner))
                left //= inner
            axes.insert(0, merged(axis))
        return StridedView(tuple(axes))

    def stride(self, axis: int) -> int | None:
        """Return the stride of an axis; None if the axis has several steps."""
        steps = self.axes[axis]
        return None if len(steps) > 1 else (steps[0][1] if steps else 0)

    def pair(self, axis: int, inner: int) -> tuple[int, int] | None:
        """Return the strides of an axis split into (n, inner); None if either has several steps."""
        split = StridedView((self.axes[axis],)).viewed((self.dims[axis] // inner, inner))
        strides = (None, None) if split is None else (split.stride(0), split.stride(1))
        return None if strides[0] is None or strides[1] is None else (strides[0], strides[1])


def merged(steps: Sequence[Step]) -> Axis:
    """Merge adjacent steps that are contiguous with each other."""
    result = list[Step]()
    for size, stride in steps:
        if result and result[-1][1] == stride * size:
            result[-1] = (result[-1][0] * size, stride)
        else:
            result.append((size, stride))
    return tuple(result)


def dense(dims: Dims) -> StridedView:
    return strided(dims, contiguous_strides(dims))


def strided(dims: Dims, strides: Dims) -> StridedView:
    pairs = zip(dims, strides, strict=True)
    return StridedView(tuple(((size, stride),) if size != 1 else () for size, stride in pairs))

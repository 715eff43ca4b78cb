"""Slices of a dim, copied by the kernels of strided.py.

    slice_copy              self[start:end:step] along dim; ends beyond the dim are clamped
    select_copy             self[index] along dim, which disappears
    split_with_sizes_copy   adjacent slices, an output each
    split                   likewise, of one size; the last may be shorter

The kernel reads a SymInt start live: language models slice their rotary tables at another position
in every step, and the records stay the same while the length does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from webpte.engine.ops.core.args import Args, TensorArg
from webpte.engine.ops.core.move_units import symint_of
from webpte.engine.ops.core.records import Dispatch, RelowerGuard, SymIntBound, ceil_div
from webpte.engine.ops.core.registry import register
from webpte.engine.ops.move.strided import Start, StridedWalk, lower_walk
from webpte.engine.shapes import Dims, contiguous_strides, normalize_dim, normalize_index
from webpte.errors import GraphError

Array = np.ndarray


def dim_of(args: Args) -> int:
    source = args.tensor("self")
    if source.rank == 0:
        raise GraphError(f"{args.call}: a tensor of rank 0 has no dim to slice")
    return normalize_dim(args.integer("dim"), source.rank)


def with_size(dims: Dims, dim: int, *size: int) -> Dims:
    """Return `dims` with a dim replaced, or dropped if no size is given."""
    return (*dims[:dim], *size, *dims[dim + 1 :])


def part_walk(
    source: TensorArg, dim: int, length: int, start: int | Start, step: int = 1
) -> StridedWalk:
    """Return the walk over `length` indices along `dim`, beginning at `start`."""
    strides = contiguous_strides(source.dims)
    dims, steps = with_size(source.dims, dim, length), with_size(strides, dim, strides[dim] * step)
    if isinstance(start, Start):
        return StridedWalk(dims, steps, start=start)
    return StridedWalk(dims, steps, base=start * strides[dim])


def live_start(args: Args, name: str, dim: int) -> Start | None:
    """Return the start that the kernel reads live, or None if the argument is not a SymInt."""
    source, symint = args.tensor("self"), symint_of(args, name)
    if symint is None:
        return None
    return Start(symint, source.dims[dim], contiguous_strides(source.dims)[dim])


# Slice


def slice_of(args: Args) -> tuple[int, slice]:
    """Return the dim and a slice with its ends clamped to it, as in torch."""
    dim, step = dim_of(args), args.integer("step")
    if step < 1:
        raise GraphError(f"{args.call}: the step is {step}, but it must be 1 or more")
    given = slice(args.optional_integer("start"), args.optional_integer("end"))
    start, end, _ = given.indices(args.tensor("self").dims[dim])
    return dim, slice(start, max(start, end), step)


def sliced_shape(args: Args) -> tuple[Dims]:
    dim, part = slice_of(args)
    length = ceil_div(part.stop - part.start, part.step)
    return (with_size(args.tensor("self").dims, dim, length),)


def lower_slice(args: Args) -> list[Dispatch]:
    dim, part = slice_of(args)
    source, length = args.tensor("self"), sliced_shape(args)[0][dim]
    start = live_start(args, "start", dim) or part.start
    return lower_walk(args, part_walk(source, dim, length, start, part.step), args.out)


def slice_guards(args: Args) -> list[RelowerGuard]:
    """Return a guard for slices with ends that move together, as at a model's next position."""
    start, end = symint_of(args, "start"), symint_of(args, "end")
    if start is None or end is None:
        return []
    size, first = args.tensor("self").dims[dim_of(args)], args.integer("start")
    length = args.integer("end") - first
    if not 0 <= first <= first + length <= size:
        return []  # an end is clamped, or counts from the dim's end
    return [RelowerGuard(start.value_id, 0, size - length, end.value_id, length)]


def run_slice(args: Args) -> Array:
    dim, part = slice_of(args)
    return args.array("self")[(slice(None),) * dim + (part,)]


# Select


def selected_shape(args: Args) -> tuple[Dims]:
    return (with_size(args.tensor("self").dims, dim_of(args)),)


def selected_bounds(args: Args) -> list[SymIntBound]:
    size = args.tensor("self").dims[dim_of(args)]
    return args.bound("index", -size, size - 1, f"selects from a dim of size {size}")


def selected_index(args: Args) -> int:
    return normalize_index(args.integer("index"), args.tensor("self").dims[dim_of(args)])


def selected_guards(args: Args) -> list[RelowerGuard]:
    index, size = symint_of(args, "index"), args.tensor("self").dims[dim_of(args)]
    return [] if index is None else [RelowerGuard(index.value_id, 0, size - 1)]


def lower_select(args: Args) -> list[Dispatch]:
    source, dim = args.tensor("self"), dim_of(args)
    start = live_start(args, "index", dim) or selected_index(args)
    return lower_walk(args, part_walk(source, dim, 1, start), args.out)


def run_select(args: Args) -> Array:
    return np.take(args.array("self"), selected_index(args), axis=dim_of(args))


# Split


@dataclass(frozen=True)
class Split:
    """A single op, with its argument that says where to split."""

    name: str
    argument: str
    sizes: Callable[[Args], Sequence[int]]

    @property
    def signature(self) -> str:
        return f"self: tensor, {self.argument}, dim: int = 0 -> tensors"


def equal_sizes(args: Args) -> list[int]:
    """Return parts of one size; the last part may be shorter."""
    size, length = args.integer("split_size"), args.tensor("self").dims[dim_of(args)]
    if size < 0 or (size == 0 and length):
        raise GraphError(f"{args.call}: parts of {size} do not split a dim of size {length}")
    if length == 0:
        return [0]
    if len(args.outs) != ceil_div(length, size):
        raise GraphError(
            f"{args.call}: a dim of size {length} in parts of {size} for {len(args.outs)} outputs"
        )
    return [min(size, length - start) for start in range(0, length, size)]


SPLITS = (
    Split(
        "aten.split_with_sizes_copy.default",
        "split_sizes: ints",
        lambda args: args.integers("split_sizes"),
    ),
    Split("aten.split.Tensor", "split_size: int", equal_sizes),  # until ExecuTorch 1.0
)


def split_parts(op: Split, args: Args) -> tuple[int, list[slice]]:
    source, dim, sizes = args.tensor("self"), dim_of(args), op.sizes(args)
    if min(sizes, default=0) < 0 or sum(sizes) != source.dims[dim]:
        raise GraphError(f"{args.call}: {sizes} does not split a dim of size {source.dims[dim]}")
    if len(sizes) != len(args.outs):
        raise GraphError(f"{args.call}: {len(sizes)} parts for {len(args.outs)} outputs")
    ends = accumulate(sizes)
    return dim, [slice(end - size, end) for size, end in zip(sizes, ends, strict=True)]


def split_shapes(op: Split, args: Args) -> list[Dims]:
    dim, parts = split_parts(op, args)
    return [with_size(args.tensor("self").dims, dim, part.stop - part.start) for part in parts]


def lower_split(op: Split, args: Args) -> list[Dispatch]:
    source, (dim, parts) = args.tensor("self"), split_parts(op, args)
    return [
        dispatch
        for out, part in zip(args.outs, parts, strict=True)
        for dispatch in lower_walk(
            args, part_walk(source, dim, part.stop - part.start, part.start), out
        )
    ]


def run_split(op: Split, args: Args) -> list[Array]:
    dim, parts = split_parts(op, args)
    return [args.array("self")[(slice(None),) * dim + (part,)] for part in parts]


register(
    "aten.slice_copy.Tensor",
    "self: tensor, dim: int = 0, start: int? = None, end: int? = None, step: int = 1 -> tensor",
    shape=sliced_shape,
    lower=lower_slice,
    guards=slice_guards,
    reference=run_slice,
)

register(
    "aten.select_copy.int",
    "self: tensor, dim: int, index: int -> tensor",
    shape=selected_shape,
    lower=lower_select,
    bounds=selected_bounds,
    guards=selected_guards,
    reference=run_select,
)

for _op in SPLITS:
    register(
        _op.name,
        _op.signature,
        shape=lambda args, op=_op: split_shapes(op, args),  # type: ignore[misc]
        lower=lambda args, op=_op: lower_split(op, args),  # type: ignore[misc]
        reference=lambda args, op=_op: run_split(op, args),  # type: ignore[misc]
    )

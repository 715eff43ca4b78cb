"""Concatenation: aten.cat(tensors, dim), any number of inputs, of any type, some of them empty.

    out[.., begin of input k + i, ..] = tensors[k][.., i, ..]

An input is viewed as rows (the dims before dim) of columns (dim and the dims after it); its columns
are contiguous in the output. Inputs of different types are cast to the output's.
"""

from __future__ import annotations

from itertools import accumulate

import numpy as np

from webpte.engine.ops.core.args import Args, TensorArg
from webpte.engine.ops.core.move_units import move, widest_unit
from webpte.engine.ops.core.quads import common_type, quad_count, quad_grid
from webpte.engine.ops.core.records import Dispatch, pack
from webpte.engine.ops.core.registry import register
from webpte.engine.shapes import Dims, normalize_dim, numel
from webpte.errors import GraphError

INPUTS = 4  # per dispatch of wgsl/move/cat.wgsl


def joined(args: Args) -> tuple[list[TensorArg], int]:
    """Return the inputs to concatenate, and the dim; torch skips inputs of shape [0]."""
    tensors = [tensor for tensor in args.tensors("tensors") if tensor is not None]
    counting = [tensor for tensor in tensors if tensor.dims != (0,)] or tensors[:1]
    if not counting:
        raise GraphError(f"{args.call}: there is nothing to concatenate")
    if counting[0].rank == 0:
        raise GraphError(f"{args.call}: a tensor of rank 0 has no dim to concatenate along")
    return counting, normalize_dim(args.integer("dim"), counting[0].rank)


def cat_shape(args: Args) -> tuple[Dims]:
    tensors, dim = joined(args)
    first = tensors[0].dims
    for tensor in tensors:
        if tensor.rank != len(first) or any(
            a != b
            for axis, (a, b) in enumerate(zip(tensor.dims, first, strict=True))
            if axis != dim
        ):
            raise GraphError(
                f"{args.call}: {list(tensor.dims)} does not match {list(first)} except in dim {dim}"
            )
    return ((*first[:dim], sum(tensor.dims[dim] for tensor in tensors), *first[dim + 1 :]),)


def lower_cat(args: Args) -> list[Dispatch]:
    (tensors, dim), out = joined(args), args.out
    if out.numel == 0:
        return []
    tensors = [tensor for tensor in tensors if tensor.numel]
    widths = [numel(tensor.dims[dim:]) for tensor in tensors]
    ends = list(accumulate(widths))
    if any(tensor.dtype.stored != out.dtype.stored for tensor in tensors):
        return [
            cast_into(tensor, out, ends[-1], end - width, end)
            for tensor, width, end in zip(tensors, widths, ends, strict=True)
        ]
    unit = widest_unit(out.dtype, lambda n: all(width % n == 0 for width in widths))
    ends = [end // unit.elements for end in ends]
    dispatches = []
    for at in range(0, len(tensors), INPUTS):
        some = ends[at : at + INPUTS]
        inputs = [tensor.id for tensor in tensors[at : at + INPUTS]]
        absent = INPUTS - len(inputs)
        params = pack("2I4I", ends[-1], ends[at - 1] if at else 0, *some, *some[-1:] * absent)
        bindings = (*inputs, *[None] * absent, out.id)
        dispatches.append(move("cat", bindings, unit, out.numel, params))
    return dispatches


def cast_into(tensor: TensorArg, out: TensorArg, columns: int, first: int, end: int) -> Dispatch:
    quads = quad_count(out.numel)
    return Dispatch(
        kernel="cat_cast",
        bindings=(tensor.id, out.id),
        params=pack("4I", quads, columns, first, end),
        grid=quad_grid(quads),
        types=(
            ("COMPUTE", common_type(out.dtype)),
            ("IN", tensor.dtype.wgsl),
            ("OUT", out.dtype.wgsl),
        ),
    )


def run_cat(args: Args) -> np.ndarray:
    tensors, dim = joined(args)
    counting = {tensor.id for tensor in tensors}
    arrays = [
        array.astype(args.out.dtype.numpy)
        for tensor, array in zip(args.tensors("tensors"), args.arrays("tensors"), strict=True)
        if tensor is not None and array is not None and tensor.id in counting
    ]
    return np.concatenate(arrays, axis=dim)


register(
    "aten.cat.default",
    "tensors: tensors, dim: int = 0 -> tensor",
    shape=cat_shape,
    lower=lower_cat,
    reference=run_cat,
)

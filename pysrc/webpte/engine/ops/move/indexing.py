"""Gathers: elements picked by index tensors, of any element type.

    gather(self, dim, index)          out[.., i, ..] = self[.., index[.., i, ..], ..]
    index_select(self, dim, index)    out[.., i, ..] = self[.., index[i], ..]
    embedding(weight, indices)        out[.., :] = weight[indices[..], :]
    index.Tensor(self, indices)       self[indices[0], indices[1], ..]; null stands for `:`, and the
                                      tensors broadcast together as in NumPy

A negative index of index.Tensor counts from the end; the others refuse it, as PyTorch does. An
index out of range is an error, found before the run if the host has the indices and after it if
only the GPU has them; the kernel reads nothing for such an index.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from webpte.engine.ops.core.args import Args, TensorArg
from webpte.engine.ops.core.move_units import check_same_type, move, pack_rows, widest_unit
from webpte.engine.ops.core.records import Dispatch, pack
from webpte.engine.ops.core.registry import register
from webpte.engine.shapes import (
    Dims,
    broadcast,
    broadcast_strides,
    collapse,
    contiguous_strides,
    normalize_dim,
)
from webpte.errors import GraphError, IndexRangeError, UnsupportedError

Array = np.ndarray

MAX_INDICES = 4  # also in wgsl/move/indexing.wgsl


@dataclass(frozen=True)
class IndexOperand:
    """An index tensor: its strides along the output's dims, and the dim that it indexes."""

    tensor: TensorArg
    strides: Dims
    size: int
    stride: int


@dataclass(frozen=True)
class GatherSpec:
    """The source of each element of an output of shape `dims`."""

    source: TensorArg
    dims: Dims
    strides: Dims
    indices: tuple[IndexOperand, ...]


@dataclass(frozen=True)
class Indexing:
    """A single op: its picks, and its NumPy function."""

    name: str
    signature: str
    picks: Callable[[Args], GatherSpec]
    numpy: Callable[[Args], Array]
    wraps: bool = False  # whether negative indices count from the end


def check_indices(args: Args, tensor: TensorArg) -> TensorArg:
    if tensor.dtype.name in ("bool", "uint8"):
        raise UnsupportedError(
            f"{args.call}: value {tensor.id} is a mask ({tensor.dtype.name}), so the output's size "
            "would depend on its elements; only integer indices are supported"
        )
    if tensor.dtype.stored != "int32":
        raise GraphError(f"{args.call}: indices are int32 or int64, not {tensor.dtype.name}")
    return tensor


def refuse_negative(args: Args, indices: Array) -> None:
    """Raise IndexRangeError for a negative index, for operators that do not wrap it."""
    if indices.size and indices.min() < 0:
        raise IndexRangeError(
            f"{args.call}: index {indices.min()} is out of bounds: indices begin at 0"
        )


def gather_picks(args: Args) -> GatherSpec:
    source, index = args.tensor("self"), check_indices(args, args.tensor("index"))
    dims, limits = source.dims or (1,), index.dims or (1,)  # rank 0 counts as one element
    dim = normalize_dim(args.integer("dim"), len(dims))
    if len(dims) != len(limits) or any(
        limit > size and axis != dim
        for axis, (limit, size) in enumerate(zip(limits, dims, strict=True))
    ):
        raise GraphError(
            f"{args.call}: indices {list(index.dims)} do not fit {list(source.dims)}, dim {dim}"
        )
    strides = list(contiguous_strides(dims))
    picked = IndexOperand(index, contiguous_strides(index.dims), dims[dim], strides[dim])
    strides[dim] = 0
    return GatherSpec(source, index.dims, tuple(strides[: index.rank]), (picked,))


def run_gather(args: Args) -> Array:
    x, index = np.atleast_1d(args.array("self")), np.atleast_1d(args.array("index"))
    dim = normalize_dim(args.integer("dim"), x.ndim)
    within = [slice(None if axis == dim else size) for axis, size in enumerate(index.shape)]
    picked = np.take_along_axis(x[tuple(within)], index.astype(np.intp), dim)
    return picked.reshape(args.out.dims)


def kept_dims(indexed: Sequence[int], rank: int) -> tuple[list[int], list[int]]:
    """Return the dims that are not indexed: before and after the indices' dims.

    Adjacent indexed dims are replaced in place; otherwise the indices' dims come first.
    """
    kept = [dim for dim in range(rank) if dim not in indexed]
    adjacent = indexed[-1] - indexed[0] == len(indexed) - 1
    before = [dim for dim in kept if adjacent and dim < indexed[0]]
    return before, kept[len(before) :]


def fancy_picks(args: Args, source: TensorArg, indices: list[TensorArg | None]) -> GatherSpec:
    """Return the picks of `source[indices]`; null stands for a whole dim."""
    if len(indices) > source.rank:
        raise GraphError(f"{args.call}: {len(indices)} indices for rank {source.rank}")
    found = [
        (dim, check_indices(args, tensor))
        for dim, tensor in enumerate(indices)
        if tensor is not None
    ]
    if not found:
        raise GraphError(f"{args.call}: there is no index tensor")
    common = broadcast(*(tensor.dims for _, tensor in found))
    before, after = kept_dims([dim for dim, _ in found], source.rank)
    own = contiguous_strides(source.dims)

    def around(middle: Dims, sizes: Dims | None) -> Dims:
        sides = [tuple(sizes[dim] if sizes else 0 for dim in side) for side in (before, after)]
        return (*sides[0], *middle, *sides[1])

    picked = tuple(
        IndexOperand(
            tensor, around(broadcast_strides(tensor.dims, common), None), source.dims[dim], own[dim]
        )
        for dim, tensor in found
    )
    nowhere = (0,) * len(common)
    return GatherSpec(source, around(common, source.dims), around(nowhere, own), picked)


def index_picks(args: Args) -> GatherSpec:
    return fancy_picks(args, args.tensor("self"), args.tensors("indices"))


def run_index(args: Args) -> Array:
    arrays = args.arrays("indices")
    return args.array("self")[tuple(slice(None) if a is None else a for a in arrays)]


def select_picks(args: Args) -> GatherSpec:
    source, index = args.tensor("self"), args.tensor("index")
    if index.rank > 1:
        raise GraphError(f"{args.call}: indices have rank {index.rank}, at most 1 is allowed")
    dim = normalize_dim(args.integer("dim"), source.rank)
    if source.rank == 0:
        return GatherSpec(source, (), (), (IndexOperand(check_indices(args, index), (), 1, 0),))
    listed = index.with_dims((index.numel,))
    return fancy_picks(args, source, [None] * dim + [listed])


def run_select(args: Args) -> Array:
    x, index = args.array("self"), args.array("index")
    if x.ndim == 0:
        return np.take(x.reshape(1), index.reshape(()))
    return np.take(x, index.reshape(-1), axis=normalize_dim(args.integer("dim"), x.ndim))


def embedding_picks(args: Args) -> GatherSpec:
    weight = args.tensor("weight")
    if weight.rank != 2:
        raise GraphError(f"{args.call}: the table has rank {weight.rank}, not 2")
    return fancy_picks(args, weight, [args.tensor("indices")])


INDEXING = (
    Indexing(
        "aten.gather.default",
        "self: tensor, dim: int, index: tensor, sparse_grad: any = None -> tensor",
        gather_picks,
        run_gather,
    ),
    Indexing(
        "aten.index.Tensor",
        "self: tensor, indices: tensors -> tensor",
        index_picks,
        run_index,
        wraps=True,
    ),
    Indexing(
        "aten.index_select.default",
        "self: tensor, dim: int, index: tensor -> tensor",
        select_picks,
        run_select,
    ),
    Indexing(
        "aten.embedding.default",
        "weight: tensor, indices: tensor, padding_idx: any = None, scale_grad: any = None, "
        "sparse: any = None -> tensor",
        embedding_picks,
        lambda args: args.array("weight")[args.array("indices")],
    ),
)


@dataclass(frozen=True)
class RowPart:
    """The rows of a large table in a single buffer: `rows` of them, starting at `first`."""

    tensor: TensorArg
    first: int

    @property
    def rows(self) -> int:
        return self.tensor.dims[0] if self.tensor.rank else 1

    @property
    def params(self) -> bytes:
        """The last three params of a kernel that takes tables in parts."""
        return pack("2iI", self.first, self.rows, self.first > 0)


def lower_indexing(op: Indexing, args: Args, parts: Sequence[RowPart] = ()) -> list[Dispatch]:
    """Lower a gather, with a dispatch for each of the `parts` of its source, if it has parts."""
    picks, out = op.picks(args), args.out
    check_same_type(args, picks.source.dtype)
    if out.numel == 0:
        return []
    if len(picks.indices) > MAX_INDICES:
        raise UnsupportedError(
            f"{args.call}: {len(picks.indices)} index tensors; the kernel takes {MAX_INDICES}"
        )
    sizes, (strides, *places) = collapse(
        picks.dims, picks.strides, *(picked.strides for picked in picks.indices)
    )
    fixed = (*strides[:-1], *(picked.stride for picked in picks.indices))

    def divides(n: int) -> bool:
        """Return whether runs of n elements are contiguous in the source and share an index."""
        run = bool(sizes) and strides[-1] == 1 and not any(place[-1] for place in places)
        return run and all(step % n == 0 for step in (sizes[-1], *fixed))

    unit = widest_unit(out.dtype, divides)
    n = unit.elements
    rows = [(size, stride // n) for size, stride in zip(sizes, strides, strict=True)]
    if sizes:
        rows[-1] = (sizes[-1] // n, strides[-1])
    absent = MAX_INDICES - len(picks.indices)
    listed = ((picked.tensor, picked.size) for picked in picks.indices)
    flag = args.index_flag(*listed, wraps=op.wraps)
    params = pack(
        "2I8i",
        *(len(rows), flag.number),
        *(*(picked.size for picked in picks.indices), *[1] * absent),
        *(*(picked.stride // n for picked in picks.indices), *[0] * absent),
    )
    tables = pack_rows(args, rows) + pack_rows(args, list(zip(*places, strict=True)))
    ids = tuple(picked.tensor.id for picked in picks.indices)
    bindings = (*ids, *[None] * absent, out.id, flag)
    whole = RowPart(picks.source, 0)
    dispatches = []
    for part in parts or [whole]:
        block = params + tables + part.params
        dispatch = move("indexing", (part.tensor.id, *bindings), unit, out.numel, block)
        overrides = (*dispatch.overrides, ("INDICES", len(ids)))
        overrides += () if op.wraps else (("WRAPS", False),)
        overrides += (("IN_PARTS", True),) if parts else ()
        dispatches.append(replace(dispatch, overrides=overrides))
    return dispatches


def run_indexing(op: Indexing, args: Args) -> Array:
    if not op.wraps:
        refuse_negative(args, args.array("indices" if "indices: " in op.signature else "index"))
    try:
        return op.numpy(args)
    except IndexError as error:
        raise IndexRangeError(f"{args.call}: {error}") from error


for _op in INDEXING:
    register(
        _op.name,
        _op.signature,
        shape=lambda args, op=_op: (op.picks(args).dims,),  # type: ignore[misc]
        lower=lambda args, op=_op: lower_indexing(op, args),  # type: ignore[misc]
        reference=lambda args, op=_op: run_indexing(op, args),  # type: ignore[misc]
    )

"""Embeddings from a table in several buffers, because a single buffer cannot hold it.

`rewrite.split` replaces a call that looks up rows by such a call: `tables` has, for each part of
the table, the original call's `table_arguments`, and `indices` the index tensor. The original call
is the only part, for its shape and its other arguments.

Each dispatch writes the elements with rows in its part of the table.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from webpte.engine.ops.core.args import Args, TensorArg
from webpte.engine.ops.core.fused_call import fused_shape, parts_of
from webpte.engine.ops.core.records import Dispatch
from webpte.engine.ops.core.registry import OpDef, register_fused
from webpte.engine.ops.core.signature import parse_signature
from webpte.engine.ops.move.indexing import INDEXING, Indexing, RowPart, lower_indexing
from webpte.engine.ops.quant.embedding_quantized import (
    EMBEDDINGS,
    Embedding,
    TablePart,
    lower_embedding,
)

IN_PARTS = "embedding in parts"

# Arguments with a row per row of the table, or a single row; the first is the table itself.
QUANTIZED = ("weight", "scales", "zero_points")
TABLES = {
    "aten.embedding.default": ("weight",),
    "aten.index_select.default": ("self",),
    "aten.index.Tensor": ("self",),
    **{op.name: QUANTIZED if op.zero_points else QUANTIZED[:2] for op in EMBEDDINGS},
}


def table_arguments(args: Args) -> list[tuple[str, TensorArg]]:
    """Return the arguments of an original call that are split by rows, with their names."""
    names = TABLES[_name(args)]
    found = [(name, args.optional_tensor(name)) for name in names]
    return [(name, tensor) for name, tensor in found if tensor is not None]


def _name(args: Args) -> str:
    """Return the registered name of the operator, which files may write without a namespace."""
    return next(name for name in TABLES if name.endswith(args.call.name))


def _read_parts(args: Args, original: Args) -> list[tuple[RowPart, dict[str, TensorArg]]]:
    names = [name for name, _ in table_arguments(original)]
    tensors = [tensor for tensor in args.tensors("tables") if tensor is not None]
    parts, first = [], 0
    for at in range(0, len(tensors), len(names)):
        named = dict(zip(names, tensors[at : at + len(names)], strict=True))
        parts.append((RowPart(tensors[at], first), named))
        first += tensors[at].dims[0]
    return parts


def _lower_rows(op: Indexing, args: Args, original: Args) -> list[Dispatch]:
    return lower_indexing(op, original, [rows for rows, _ in _read_parts(args, original)])


def _lower_quantized(op: Embedding, args: Args, original: Args) -> list[Dispatch]:
    parts = [
        TablePart(rows, named["scales"], named.get("zero_points"))
        for rows, named in _read_parts(args, original)
    ]
    return lower_embedding(op, original, parts)


LOWERINGS: dict[str, Callable[[Args, Args], list[Dispatch]]] = {
    **{op.name: partial(_lower_rows, op) for op in INDEXING if op.name in TABLES},
    **{op.name: partial(_lower_quantized, op) for op in EMBEDDINGS},
}


def lower_in_parts(args: Args) -> list[Dispatch]:
    """Lower to one dispatch per part of the table."""
    ((_, original),) = parts_of(args)
    return LOWERINGS[_name(original)](args, original)


def run_in_parts(args: Args) -> np.ndarray:
    """Run the original call's reference on the whole table."""
    arrays = dict(args.all_arrays)
    ((op, original),) = parts_of(args, arrays)
    parts = [named for _, named in _read_parts(args, original)]
    for name, whole in table_arguments(original):
        ids = [named[name].id for named in parts]
        shared = len(set(ids)) == 1 and len(ids) > 1
        found = [arrays[i] for i in (ids[:1] if shared else ids)]
        arrays[whole.id] = np.concatenate(found).reshape(whole.dims)
    result = op.reference(original)
    assert isinstance(result, np.ndarray)
    return result


register_fused(
    IN_PARTS,
    OpDef(
        IN_PARTS,
        parse_signature("tables: tensors, indices: tensor -> tensor"),
        shape=fused_shape,
        lower=lower_in_parts,
        reference=run_in_parts,
    ),
)

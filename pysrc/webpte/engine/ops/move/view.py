"""Views: the same elements under another shape, without a kernel or a copy where memory allows.

Every tensor is dense and row-major, so a view is its source under another id. If the source's
memory would be overwritten while the view is still read, the planner uses a copy: `lower_copy`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from webpte.engine.ops.core.args import Args
from webpte.engine.ops.core.quads import quad_grid, same_shape
from webpte.engine.ops.core.records import Dispatch, ceil_div, pack
from webpte.engine.ops.core.registry import ShapeFunction, register
from webpte.engine.ops.move.strided import permutation, permuted_shape
from webpte.engine.shapes import Dims, normalize_dim, numel
from webpte.errors import GraphError

PERMUTED_VIEW = "webpte.permuted_view"  # a permutation that moves only dims of size 1
BYTES_PER_QUAD = 16  # also in wgsl/move/view.wgsl


@dataclass(frozen=True)
class View:
    """A single op: its arguments and its shape function."""

    name: str
    signature: str
    shape: ShapeFunction


def view_shape(args: Args) -> tuple[Dims]:
    """Return the given sizes; a size of -1 follows from the number of elements."""
    count, sizes = args.tensor("self").numel, args.integers("size")
    if sizes.count(-1) > 1 or any(size < -1 for size in sizes):
        raise GraphError(f"{args.call}: {sizes} is not a shape")
    if -1 in sizes:
        rest = numel([size for size in sizes if size != -1])
        if rest == 0 or count % rest:
            raise GraphError(f"{args.call}: {count} elements do not fill {sizes}")
        sizes = [count // rest if size == -1 else size for size in sizes]
    if numel(sizes) != count:
        raise GraphError(f"{args.call}: {count} elements cannot be viewed as {sizes}")
    return (tuple(sizes),)


def squeeze_shape(args: Args) -> tuple[Dims]:
    """Drop the named dims of maximum size 1; a dim that is only now 1 stays."""
    source = args.tensor("self")
    named = {normalize_dim(dim, source.rank) for dim in args.integers("dims")}
    dropped = {dim for dim in named if source.rank and source.maximum[dim] == 1}
    for dim in sorted(dropped):
        if source.dims[dim] != 1:
            raise GraphError(f"dim {dim} of {list(source.dims)} must be 1, as it was exported")
    return (tuple(size for dim, size in enumerate(source.dims) if dim not in dropped),)


def unsqueeze_shape(args: Args) -> tuple[Dims]:
    dims = args.tensor("self").dims
    at = normalize_dim(args.integer("dim"), len(dims) + 1)
    return ((*dims[:at], 1, *dims[at:]),)


VIEWS = (
    View("aten.view_copy.default", "self: tensor, size: ints -> tensor", view_shape),
    View("aten.squeeze_copy.dims", "self: tensor, dims: ints -> tensor", squeeze_shape),
    View("aten.unsqueeze_copy.default", "self: tensor, dim: int -> tensor", unsqueeze_shape),
    View(
        PERMUTED_VIEW,
        "self: tensor, dims: ints -> tensor",
        lambda args: permuted_shape(args, permutation(args)),
    ),
    View("aten.alias_copy.default", "self: tensor -> tensor", same_shape),
    View("aten.clone.default", "self: tensor, memory_format: any = None -> tensor", same_shape),
    View(
        "dim_order_ops._clone_dim_order.default",
        "self: tensor, non_blocking: any = None, dim_order: any = None -> tensor",
        same_shape,
    ),
)


def lower_copy(args: Args) -> list[Dispatch]:
    source, out = args.tensor("self"), args.out
    if source.dtype.stored != out.dtype.stored:
        raise GraphError(
            f"{args.call}: a view keeps the element type, "
            f"but its output is {out.dtype.name} and its source {source.dtype.name}"
        )
    quads = ceil_div(out.numel * out.dtype.storage.itemsize, BYTES_PER_QUAD)
    if quads == 0:
        return []
    return [
        Dispatch(
            kernel="view",
            bindings=(source.id, out.id),
            params=pack("I", quads),
            grid=quad_grid(quads),
        )
    ]


def run_view(shape: Callable[[Args], tuple[Dims]], args: Args) -> np.ndarray:
    return args.array("self").reshape(shape(args)[0])


for _view in VIEWS:
    register(
        _view.name,
        _view.signature,
        shape=_view.shape,
        lower=lower_copy,
        reference=lambda args, shape=_view.shape: run_view(shape, args),  # type: ignore[misc]
        alias_of="self",
    )

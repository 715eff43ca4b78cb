"""A scatter whose indices name each place at most once, so that all writes run at the same time.

    et_vk.scatter_src_unique(self, dim, index, src)   out[.., index[.., i]] = src[.., i]

Elsewhere `out` is `self`. The exporter has made sure that no place is named twice: the kernel does
not look, while the reference and the general kernel of scatter.py keep the last value. `dim` is the
last dim.
"""

from __future__ import annotations

from dataclasses import replace

from webpte.engine.ops.core.args import Args
from webpte.engine.ops.core.quads import WORKGROUP_SIZE, float_type
from webpte.engine.ops.core.records import Dispatch, ceil_div, fold_grid, pack
from webpte.engine.ops.core.registry import register
from webpte.engine.ops.move.scatter import (
    SCATTERS,
    along_dim,
    lower_scatter,
    run_scatter,
)
from webpte.engine.ops.move.view import lower_copy
from webpte.engine.shapes import Dims, normalize_dim
from webpte.errors import GraphError, UnsupportedError

UNIQUE = replace(SCATTERS[0], name="et_vk.scatter_src_unique.default")


def unique_shape(args: Args) -> tuple[Dims]:
    x, dim = args.tensor("self"), args.integer("dim")
    if normalize_dim(dim, x.rank) != max(x.rank - 1, 0):
        raise GraphError(f"{args.call}: dim {dim} of {list(x.dims)} is not the last one")
    along_dim(args)
    return (x.dims,)


def lower_unique(args: Args) -> list[Dispatch]:
    x, index, source, out = (*map(args.tensor, ("self", "index", "src")), args.out)
    same_rows = x.rank > 0 and index.dims[:-1] == x.dims[:-1] and source.dims == index.dims
    if not same_rows:
        return lower_scatter(UNIQUE, args)
    if not all(tensor.dtype.is_float for tensor in (x, source, out)):
        raise UnsupportedError(f"{args.call}: its kernel takes and returns floats only")
    if out.numel == 0 or index.numel == 0:
        return lower_copy(args)
    flag = args.index_flag((index, x.dims[-1]), wraps=False)
    return [
        *lower_copy(args),
        Dispatch(
            kernel="scatter_unique",
            bindings=(source.id, index.id, out.id, flag),
            params=pack("3Ii", index.numel, index.dims[-1], flag.number, x.dims[-1]),
            grid=fold_grid(ceil_div(index.numel, WORKGROUP_SIZE)),
            types=(("FLOAT", float_type(args, x, source, out)),),
            overrides=(("WRAPS", False),),
        ),
    ]


register(
    UNIQUE.name,
    UNIQUE.signature,
    shape=unique_shape,
    lower=lower_unique,
    reference=lambda args: run_scatter(UNIQUE, args),
)

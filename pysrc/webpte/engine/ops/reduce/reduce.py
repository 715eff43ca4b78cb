"""Reductions over any dims: sum, mean, amax, amin, any and all.

    aten.sum.dim_IntList(self, dims, keepdim, dtype) -> out

`dims` may be in any order and need not be adjacent; null or empty means all dims. Sums and means
are computed in the output's type, so integers stay exact (and wrap on overflow).

The kept dims, merged where possible, locate a row, the reduced ones its items. Few long rows are
split into parts, and a second dispatch reduces the parts' results.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from webpte.engine.dtypes import DType
from webpte.engine.ops.core.args import Args, TensorArg
from webpte.engine.ops.core.quads import INT32_MAX, INT32_MIN, common_type, quad_count, quad_grid
from webpte.engine.ops.core.records import Binding, Dispatch, Scratch, ceil_div, pack
from webpte.engine.ops.core.registry import register
from webpte.engine.ops.core.row_reduction import RowThreads, contiguous_layout, strided_layout
from webpte.engine.ops.core.target import GPU, Target
from webpte.engine.shapes import Dims, collapse, contiguous_strides, normalize_dim, numel
from webpte.errors import GraphError, UnsupportedError

Array = np.ndarray

TABLE_AXES = 24  # MAX_AXES of wgsl/lib/reduce/walk.wgsl


@dataclass(frozen=True)
class Reduction:
    """A single op. `combine` joins `a` and `b`, elements or quads; {type} is f32 or vec4f.

    `identity` is the neutral element, for floats and for integers; without `empty`, a row without
    elements is an error. `finish` computes the result from the combined `total`, for floats.
    """

    name: str
    combine: str
    integer: str
    identity: tuple[float, int]
    numpy: Callable[[Array, tuple[int, ...]], Array]
    empty: bool = False
    finish: str = "total"
    logical: bool = False  # bools only
    signature: str = "self: tensor, dims: ints? = None, keepdim: bool = False -> tensor"


WITH_DTYPE = "self: tensor, dims: ints?, keepdim: bool = False, dtype: any = None -> tensor"


def np_sum(x: Array, axes: tuple[int, ...]) -> Array:
    wide = np.float64 if x.dtype.kind == "f" else np.int64
    return np.asarray(np.sum(x, axis=axes, keepdims=True, dtype=wide))


def np_mean(x: Array, axes: tuple[int, ...]) -> Array:
    return np_sum(x, axes) / np.float64(numel([x.shape[axis] for axis in axes]))


SUM = Reduction(
    "aten.sum.dim_IntList", "a + b", "a + b", (0.0, 0), np_sum, empty=True, signature=WITH_DTYPE
)

MEAN = replace(SUM, name="aten.mean.dim", numpy=np_mean, finish="total / params.count")
LARGEST = Reduction(
    "aten.amax.default",
    "larger_{type}(a, b)",
    "max(a, b)",
    (-math.inf, INT32_MIN),
    lambda x, axes: np.max(x, axis=axes, keepdims=True),
)
SMALLEST = Reduction(
    "aten.amin.default",
    "smaller_{type}(a, b)",
    "min(a, b)",
    (math.inf, INT32_MAX),
    lambda x, axes: np.min(x, axis=axes, keepdims=True),
)

REDUCTIONS = (
    SUM,
    MEAN,
    LARGEST,
    SMALLEST,
    Reduction(
        "aten.any.dims",
        "max(a, b)",
        "max(a, b)",
        (0.0, 0),
        lambda x, axes: np.any(x, axis=axes, keepdims=True),
        empty=True,
        logical=True,
    ),
    Reduction(
        "aten.all.dims",
        "min(a, b)",
        "min(a, b)",
        (1.0, 1),
        lambda x, axes: np.all(x, axis=axes, keepdims=True),
        empty=True,
        logical=True,
    ),
)


def reduced_axes(args: Args) -> tuple[int, ...]:
    return listed_axes(args, args.optional_integers("dims"))


def listed_axes(args: Args, given: Sequence[int] | None) -> tuple[int, ...]:
    """Return the listed dims of `self`, sorted; all dims for an empty list."""
    rank = args.tensor("self").rank
    if not given:
        return tuple(range(rank))
    axes = [normalize_dim(dim, rank) for dim in given]
    if len(set(axes)) != len(axes):
        raise GraphError(f"{args.call}: dims {given} name a dim twice")
    return tuple(sorted(axes)) if rank else ()


def kept_shape(dims: Dims, axes: Sequence[int], keepdim: bool) -> Dims:
    if keepdim:
        return tuple(1 if axis in axes else size for axis, size in enumerate(dims))
    return tuple(size for axis, size in enumerate(dims) if axis not in axes)


def reduced_shape(op: Reduction, args: Args) -> tuple[Dims]:
    dims, axes = args.tensor("self").dims, reduced_axes(args)
    if op.finish != "total" and not args.out.dtype.is_float:
        raise GraphError(f"{args.call}: the result is a float, not {args.out.dtype.name}")
    if not op.empty and any(dims[axis] == 0 for axis in axes):
        raise GraphError(
            f"{args.call}: {list(dims)} has no elements along dims {list(axes)}, "
            "and so no largest or smallest one"
        )
    return (kept_shape(dims, axes, args.flag("keepdim")),)


@dataclass(frozen=True)
class Axes:
    """Sizes and strides, outermost first, without axes of size 1."""

    sizes: Dims
    strides: Dims

    @classmethod
    def of(cls, dims: Dims, chosen: Sequence[int]) -> Axes:
        strides = contiguous_strides(dims)
        sizes, (steps,) = collapse([dims[i] for i in chosen], [strides[i] for i in chosen])
        return cls(sizes, steps) if sizes else cls((1,), (1,))

    @property
    def count(self) -> int:
        return numel(self.sizes)

    @property
    def adjacent(self) -> bool:
        return self.strides[-1] == 1

    def words(self) -> list[int]:
        axes = zip(self.sizes, self.strides, strict=True)
        return [word for axis in axes for word in (*axis, 0, 0)]


@dataclass(frozen=True)
class ReduceWalk:
    """The walk through a tensor: its rows, a row's items, and the elements per item."""

    kept: Axes
    reduced: Axes
    elements: int = 1
    target: Target = GPU

    @property
    def layout(self) -> RowThreads:
        if self.reduced.adjacent or not self.kept.adjacent:
            return contiguous_layout(self.reduced.count, self.target)
        kept = self.kept
        return strided_layout(kept.count, self.reduced.count, kept.sizes[-1], self.target)

    def by_quads(self) -> ReduceWalk:
        """Return the walk in quads if the innermost reduced axis is contiguous whole quads."""
        sizes, strides = self.reduced.sizes, self.reduced.strides
        if not self.reduced.adjacent or sizes[-1] % 4 or self.reduced.count == 0:
            return self
        # The strides of all outer axes have to be multiples of 4, too.
        reduced = Axes((*sizes[:-1], sizes[-1] // 4), (*(s // 4 for s in strides[:-1]), 1))
        kept = Axes(self.kept.sizes, tuple(s // 4 for s in self.kept.strides))
        return replace(self, kept=kept, reduced=reduced, elements=4)

    def words(self) -> list[int]:
        """Return `axes` of the shaders: the kept axes, then the reduced axes."""
        words = self.kept.words() + self.reduced.words()
        return words + [0] * (4 * TABLE_AXES - len(words))

    def item(self, stored: str, acc: str) -> tuple[str, str, str]:
        """Return the WGSL type of an item, its type in memory, and the expression that loads item
        i.
        """
        if self.elements == 4:
            return f"vec4{acc[0]}", f"quad_{stored}", f"load_{stored}_as_{acc}(input[i])"
        return acc, f"word_{stored}", element_load(stored, acc)


def element_load(stored: str, acc: str) -> str:
    return f"{acc}(pick_{stored}(input[i / per_word_{stored}], i))"


def rows_walk(rows: int, length: int, target: Target) -> ReduceWalk:
    """Return the walk over contiguous rows."""
    return ReduceWalk(Axes((rows,), (length,)), Axes((length,), (1,)), target=target).by_quads()


@dataclass(frozen=True)
class ReduceOperand:
    """An operand of a dispatch: a tensor or scratch memory, and its stored type in WGSL."""

    binding: Binding
    stored: str


def lower_reduction(op: Reduction, args: Args) -> list[Dispatch]:
    source, out = args.tensor("self"), args.out
    if out.numel == 0:
        return []
    if op.logical and {source.dtype.name, out.dtype.name} != {"bool"}:
        raise UnsupportedError(f"{args.call}: its kernel takes and returns bools only")
    return reduce_tensor(op, args, source, out, reduced_axes(args))


def walk_of(args: Args, source: TensorArg, axes: Sequence[int]) -> ReduceWalk:
    kept = [axis for axis in range(source.rank) if axis not in axes]
    walk = ReduceWalk(Axes.of(source.dims, kept), Axes.of(source.dims, axes), target=args.target)
    walk = walk.by_quads()
    if len(walk.kept.sizes) + len(walk.reduced.sizes) > TABLE_AXES:
        raise UnsupportedError(f"{args.call}: more than {TABLE_AXES} axes are left after merging")
    return walk


def reduce_tensor(
    op: Reduction, args: Args, source: TensorArg, out: TensorArg, axes: Sequence[int]
) -> list[Dispatch]:
    """Lower the reduction of `source` along `axes` into `out`."""
    walk = walk_of(args, source, axes)
    operand, result = (ReduceOperand(tensor.id, tensor.dtype.wgsl) for tensor in (source, out))
    acc = common_type(out.dtype)
    if out.dtype.storage.itemsize > 1:
        return reduce(op, walk, operand, result, acc)
    # Byte results go through scratch memory: the kernel cannot write four rows into one word.
    wide = Scratch("reduce wide", 4 * out.numel)
    return [
        *reduce(op, walk, operand, ReduceOperand(wide, acc), acc),
        narrow(wide, acc, out.id, out.dtype, out.numel),
    ]


def reduce(
    op: Reduction, walk: ReduceWalk, source: ReduceOperand, out: ReduceOperand, acc: str
) -> list[Dispatch]:
    """Return a dispatch, or two with the parts' results between them; `acc` is f32 or i32."""
    rows, length = walk.kept.count, walk.reduced.count
    parts = walk.layout.parts(rows, length, walk.target)
    count = length * walk.elements
    if parts == 1:
        return [step(op, walk, source, out, acc, count)]
    between = ReduceOperand(Scratch("reduce parts", 4 * rows * parts), acc)
    return [
        step(replace(op, finish="total"), walk, source, between, acc, count, parts),
        step(op, rows_walk(rows, parts, walk.target), between, out, acc, count),
    ]


def step(
    op: Reduction,
    walk: ReduceWalk,
    source: ReduceOperand,
    out: ReduceOperand,
    acc: str,
    count: int,
    parts: int = 1,
) -> Dispatch:
    """Return a dispatch; `count` is the number of elements in a finished result."""
    rows, length, layout, axes = walk.kept.count, walk.reduced.count, walk.layout, walk.words()
    letter, identity, combine = (
        ("f", op.identity[0], op.combine) if acc == "f32" else ("i", op.identity[1], op.integer)
    )
    item, memory, load = walk.item(source.stored, acc)
    across = "combine(combine(x.x, x.y), combine(x.z, x.w))" if walk.elements == 4 else "x"
    return Dispatch(
        kernel="reduce",
        bindings=(source.binding, out.binding),
        params=pack(
            f"5If{letter}4x{len(axes)}I",
            *(rows, length, parts, ceil_div(length, parts), len(walk.kept.sizes)),
            *(count, identity, *axes),
        ),
        grid=layout.grid(rows * parts),
        types=(
            ("ACC", acc),
            ("ACROSS", across),
            ("COMBINE", combine.format(type=acc)),
            ("FINISH", op.finish),
            ("ITEM", item),
            ("LOAD", load),
            ("MERGE", combine.format(type=item)),
            ("OUT", out.stored),
            ("STORED", memory),
        ),
        overrides=(*layout.overrides, ("REDUCED_AXES", len(walk.reduced.sizes))),
    )


def narrow(source: Binding, acc: str, out: int, dtype: DType, count: int) -> Dispatch:
    """Return the dispatch that casts scratch results to bytes, with the unary kernel."""
    quads = quad_count(count)
    return Dispatch(
        kernel="unary",
        bindings=(source, out),
        params=pack("I3i", quads, 0, 0, 0),
        grid=quad_grid(quads),
        types=(
            ("COMPUTE", acc),
            ("FORMULA", "x"),
            ("IN", acc),
            ("OUT", dtype.wgsl),
            ("RESULT", acc),
            ("SCALAR", acc),
        ),
    )


def run_reduction(op: Reduction, args: Args) -> Array:
    x, dtype = args.array("self"), args.out.dtype.computed
    if (x.dtype.kind == "f") != (dtype.kind == "f"):
        x = x.astype(dtype)  # torch casts before it reduces
    return op.numpy(x, reduced_axes(args)).reshape(reduced_shape(op, args)[0])


for _op in REDUCTIONS:
    register(
        _op.name,
        _op.signature,
        shape=lambda args, op=_op: reduced_shape(op, args),  # type: ignore[misc]
        lower=lambda args, op=_op: lower_reduction(op, args),  # type: ignore[misc]
        reference=lambda args, op=_op: run_reduction(op, args),  # type: ignore[misc]
    )

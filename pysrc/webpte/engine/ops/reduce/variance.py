"""Variances and standard deviations over any dims.

    aten.var.correction(self, dim, correction, keepdim) -> out
    aten.std.correction(self, dim, correction, keepdim) -> out
    aten.var_mean.correction(self, dim, correction, keepdim) -> (variance, mean)

The sum of squared deviations is divided by max(count - correction, 0); `correction` is 1 unless
given. Rows are read twice, as in reduce.py.
"""

from __future__ import annotations

import math

import numpy as np

from webpte.engine.ops.core.args import Args, TensorArg
from webpte.engine.ops.core.records import Dispatch, pack
from webpte.engine.ops.core.registry import register
from webpte.engine.ops.core.row_reduction import check_floats
from webpte.engine.ops.reduce.reduce import MEAN, kept_shape, listed_axes, reduce_tensor, walk_of
from webpte.engine.shapes import Dims

Array = np.ndarray

SIGNATURE = (
    "self: tensor, dim: ints? = None, correction: number? = None, keepdim: bool = False -> {outs}"
)
VARIANCE, DEVIATION, WITH_MEAN = (f"aten.{name}.correction" for name in ("var", "std", "var_mean"))
OUTPUTS = {VARIANCE: "tensor", DEVIATION: "tensor", WITH_MEAN: "tensors"}


def axes_of(args: Args) -> tuple[int, ...]:
    return listed_axes(args, args.optional_integers("dim"))


def variance_shape(args: Args) -> tuple[Dims, ...]:
    check_floats(args, args.tensor("self"), *args.outs)
    shape = kept_shape(args.tensor("self").dims, axes_of(args), args.flag("keepdim"))
    return (shape,) * len(args.outs)


def count_and_divisor(args: Args) -> tuple[int, float]:
    correction = args.optional_number("correction")
    count = math.prod(args.tensor("self").dims[axis] for axis in axes_of(args))
    return count, max(count - (1 if correction is None else correction), 0)


def lower_variance(name: str, args: Args) -> list[Dispatch]:
    source, out = args.tensor("self"), args.outs[0]
    if out.numel == 0:
        return []
    dispatches = [vary(args, source, out, "sqrt(variance)" if name == DEVIATION else "variance")]
    if name == WITH_MEAN:
        dispatches += reduce_tensor(MEAN, args, source, args.outs[1], axes_of(args))
    return dispatches


def vary(args: Args, source: TensorArg, out: TensorArg, finish: str) -> Dispatch:
    walk = walk_of(args, source, axes_of(args))
    rows, layout, axes = walk.kept.count, walk.layout, walk.words()
    item, memory, load = walk.item(source.dtype.wgsl, "f32")
    count, divisor = count_and_divisor(args)
    return Dispatch(
        kernel="variance",
        bindings=(source.id, out.id),
        params=pack(
            f"3I2f12x{len(axes)}I",
            *(rows, walk.reduced.count, len(walk.kept.sizes)),
            *(float(count), float(divisor), *axes),
        ),
        grid=layout.grid(rows),
        types=(
            ("ACROSS", "(x.x + x.y) + (x.z + x.w)" if walk.elements == 4 else "x"),
            ("FINISH", finish),
            ("ITEM", item),
            ("LOAD", load),
            ("OUT", out.dtype.wgsl),
            ("STORED", memory),
        ),
        overrides=(*layout.overrides, ("REDUCED_AXES", len(walk.reduced.sizes))),
    )


def run_variance(name: str, args: Args) -> list[Array]:
    axes, x = axes_of(args), args.array("self").astype(np.float64)
    count, divisor = (np.float64(number) for number in count_and_divisor(args))
    with np.errstate(all="ignore"):
        mean = np.sum(x, axis=axes, keepdims=True) / count
        result = np.sum((x - mean) ** 2, axis=axes, keepdims=True) / divisor
    results = [np.sqrt(result) if name == DEVIATION else result, mean][: len(args.outs)]
    shapes = variance_shape(args)
    return [np.reshape(each, shape) for each, shape in zip(results, shapes, strict=True)]


for _name, _outs in OUTPUTS.items():
    register(
        _name,
        SIGNATURE.format(outs=_outs),
        shape=variance_shape,
        lower=lambda args, name=_name: lower_variance(name, args),  # type: ignore[misc]
        reference=lambda args, name=_name: run_variance(name, args),  # type: ignore[misc]
    )

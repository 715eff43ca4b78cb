"""Normalizations: layer, group, batch and root mean square.

aten.native_layer_norm.default(input, normalized_shape, weight, bias, eps) -> [out, mean, rstd]
    over the trailing dims named by normalized_shape; mean and rstd have 1 in their place
aten.native_group_norm.default(input [N, C, ...], weight, bias, N, C, HxW, group, eps)
    -> [out, mean, rstd]: over groups of channels; mean and rstd are [N, group]
aten._native_batch_norm_legit_no_training.default(input [N, C, ...], weight, bias, mean, var,
    momentum, eps) -> [out, nothing, nothing]: with the given statistics
aten._native_batch_norm_legit.no_stats(input [N, C, ...], weight, bias, training, momentum, eps)
    -> [out, mean, rstd]: with the batch's statistics; the kernel takes a batch of 1 (instance norm)
et_vk.rms_norm.default(input, weight, eps) -> out: over the last dim, without a mean; the weight is
    a vector of that dim's size (`rewrite.passes.scale_after_norms` replaces other weights by a
    product)
webpte.unscaled_rms_norm(input, eps) -> out: an rms_norm without a weight

out = (x - mean) * rstd * weight + bias,  rstd = 1 / sqrt(variance + eps)
"""

from __future__ import annotations

import numpy as np

from webpte.engine.ops.core.args import Args, TensorArg
from webpte.engine.ops.core.quads import float_type, quad_count, quad_grid
from webpte.engine.ops.core.records import Dispatch, pack
from webpte.engine.ops.core.registry import register
from webpte.engine.ops.core.row_reduction import check_floats, contiguous_layout, float_item
from webpte.engine.shapes import Dims, numel
from webpte.errors import GraphError, UnsupportedError

Array = np.ndarray

UNSCALED_RMS_NORM = "webpte.unscaled_rms_norm"


def check_dims(args: Args, name: str, *dims: int) -> TensorArg | None:
    """Return an optional tensor after checking its dims."""
    tensor = args.optional_tensor(name)
    if tensor is not None and tensor.dims != dims:
        raise GraphError(f"{args.call}: {name} {list(tensor.dims)} should be {list(dims)}")
    return tensor


def optional_id(tensor: TensorArg | None) -> int | None:
    return None if tensor is None else tensor.id


def affine_overrides(
    weight: TensorArg | None, bias: TensorArg | None
) -> tuple[tuple[str, float], ...]:
    return (("HAS_BIAS", int(bias is not None)), ("HAS_WEIGHT", int(weight is not None)))


def np_normalize(x: Array, eps: float, axes: tuple[int, ...]) -> tuple[Array, Array, Array]:
    """Return the normalized array, its means and its reciprocal deviations, in float64."""
    wide = x.astype(np.float64)
    count = np.float64(numel([x.shape[axis] for axis in axes]))
    mean = np.sum(wide, axis=axes, keepdims=True) / count
    variance = np.sum((wide - mean) ** 2, axis=axes, keepdims=True) / count
    rstd = 1 / np.sqrt(variance + eps)
    return (wide - mean) * rstd, mean, rstd


def np_affine(x: Array, weight: Array | None, bias: Array | None, shape: Dims) -> Array:
    if weight is not None:
        x = x * weight.reshape(shape)
    return x if bias is None else x + bias.reshape(shape)


# Layer and group normalization


def lower_centered(args: Args, rows: int, groups: int, channel: int | None) -> list[Dispatch]:
    """Lower a normalization of `rows` of equal length.

    With `channel`, a row is a group of channels with `channel` elements each.
    """
    source, (out, mean, rstd) = args.tensor("input"), args.outs
    if rows == 0:
        return []
    weight, bias = args.optional_tensor("weight"), args.optional_tensor("bias")
    count = source.numel // rows
    item, elements = float_item(count if channel is None else channel)
    layout = contiguous_layout(count // elements, args.target)
    return [
        Dispatch(
            kernel="norm_centered",
            bindings=(
                *(source.id, optional_id(weight), optional_id(bias)),
                *(out.id, mean.id, rstd.id),
            ),
            params=pack(
                "2I2f2I",
                *(rows, count // elements, count, args.number("eps")),
                *(groups, (channel or elements) // elements),
            ),
            grid=layout.grid(rows),
            types=(
                ("AFFINE", item if channel is None else "f32"),
                ("FLOAT", float_type(args, source, weight, bias, *args.outs)),
                ("ITEM", item),
            ),
            overrides=(
                ("CHANNELS", int(channel is not None)),
                *affine_overrides(weight, bias),
                *layout.overrides,
            ),
        )
    ]


def leading_dims(args: Args) -> Dims:
    """Check the arguments of a layer normalization; return the dims outside of the norm."""
    source, shape = args.tensor("input"), tuple(args.integers("normalized_shape"))
    kept = source.rank - len(shape)
    if not shape or kept < 0 or source.dims[kept:] != shape:
        raise GraphError(
            f"{args.call}: {list(source.dims)} does not end with normalized_shape {list(shape)}"
        )
    weight, bias = (check_dims(args, name, *shape) for name in ("weight", "bias"))
    check_floats(args, source, weight, bias)
    return source.dims[:kept]


def layer_norm_shape(args: Args) -> tuple[Dims, Dims, Dims]:
    dims, leading = args.tensor("input").dims, leading_dims(args)
    statistics = leading + (1,) * (len(dims) - len(leading))
    return dims, statistics, statistics


def lower_layer_norm(args: Args) -> list[Dispatch]:
    return lower_centered(args, numel(leading_dims(args)), groups=1, channel=None)


def run_layer_norm(args: Args) -> tuple[Array, Array, Array]:
    x, kept = args.array("input"), len(leading_dims(args))
    normal, mean, rstd = np_normalize(x, args.number("eps"), tuple(range(kept, x.ndim)))
    weight, bias = args.optional_array("weight"), args.optional_array("bias")
    return np_affine(normal, weight, bias, x.shape[kept:]), mean, rstd


def group_norm_shape(args: Args) -> tuple[Dims, Dims, Dims]:
    source, group = args.tensor("input"), args.integer("group")
    if source.rank < 2 or group < 1 or source.dims[1] % group:
        raise GraphError(
            f"{args.call}: the channels of {list(source.dims)} do not divide into {group} groups"
        )
    weight, bias = (check_dims(args, name, source.dims[1]) for name in ("weight", "bias"))
    check_floats(args, source, weight, bias)
    statistics = (source.dims[0], group)
    return source.dims, statistics, statistics


def lower_group_norm(args: Args) -> list[Dispatch]:
    dims, group = args.tensor("input").dims, args.integer("group")
    return lower_centered(args, dims[0] * group, groups=group, channel=numel(dims[2:]))


def run_group_norm(args: Args) -> tuple[Array, Array, Array]:
    x, group = args.array("input"), args.integer("group")
    batch, channels = x.shape[:2]
    grouped = x.reshape(batch, group, channels // group * numel(x.shape[2:]))
    normal, mean, rstd = np_normalize(grouped, args.number("eps"), (2,))
    weight, bias = args.optional_array("weight"), args.optional_array("bias")
    out = np_affine(normal.reshape(x.shape), weight, bias, (channels,) + (1,) * (x.ndim - 2))
    return out, mean.reshape(batch, group), rstd.reshape(batch, group)


# Batch normalization


def batch_norm_shape(args: Args) -> tuple[Dims, ...]:
    source, (_, *rest) = args.tensor("input"), args.outs
    if source.rank < 2:
        raise GraphError(f"{args.call}: {list(source.dims)} has no dim of channels")
    named = [check_dims(args, name, source.dims[1]) for name in ("weight", "bias", "mean", "var")]
    check_floats(args, source, *named)
    if any(numel(out.maximum) for out in rest):
        raise UnsupportedError(
            f"{args.call}: saved statistics are not supported; without training only the first "
            "output has elements"
        )
    return (source.dims, *(out.maximum for out in rest))


def lower_batch_norm(
    args: Args,
    given: TensorArg | None = None,
    formula: str = "x",
    scalars: tuple[float, ...] = (),
) -> list[Dispatch]:
    """Lower batch normalization of the input, or of an element-wise formula of `given`."""
    source, out = given or args.tensor("input"), args.outs[0]
    if out.numel == 0:
        return []
    weight, bias = args.optional_tensor("weight"), args.optional_tensor("bias")
    mean, var = args.tensor("mean"), args.tensor("var")
    quads = quad_count(out.numel)
    return [
        Dispatch(
            kernel="norm_batch",
            bindings=(
                *(source.id, optional_id(weight), optional_id(bias)),
                *(mean.id, var.id, out.id),
            ),
            params=pack(
                "3I4f",
                *(quads, source.dims[1], numel(source.dims[2:]), args.number("eps")),
                *[*scalars, 0.0, 0.0, 0.0][:3],
            ),
            grid=quad_grid(quads),
            types=(
                ("FLOAT", float_type(args, source, weight, bias, mean, var, out)),
                ("FORMULA", formula),
            ),
            overrides=affine_overrides(weight, bias),
        )
    ]


def run_batch_norm(args: Args) -> list[Array]:
    x = args.array("input").astype(np.float64)
    shape = (x.shape[1],) + (1,) * (x.ndim - 2)
    mean, var = (args.array(name).astype(np.float64).reshape(shape) for name in ("mean", "var"))
    normal = (x - mean) / np.sqrt(var + args.number("eps"))
    weight, bias = args.optional_array("weight"), args.optional_array("bias")
    rest = [np.zeros(out.maximum, np.float32) for out in args.outs[1:]]
    return [np_affine(normal, weight, bias, shape), *rest]


def own_batch_norm_shape(args: Args) -> tuple[Dims, Dims, Dims]:
    source = args.tensor("input")
    if source.rank < 2:
        raise GraphError(f"{args.call}: {list(source.dims)} has no dim of channels")
    named = [check_dims(args, name, source.dims[1]) for name in ("weight", "bias")]
    check_floats(args, source, *named)
    return source.dims, (source.dims[1],), (source.dims[1],)


def lower_own_batch_norm(args: Args) -> list[Dispatch]:
    """Lower instance normalization: with a batch of 1, each channel is a group."""
    batch, channels, *sizes = args.tensor("input").dims
    if batch != 1:
        raise UnsupportedError(f"{args.call}: its kernel takes a batch of 1, not of {batch}")
    return lower_centered(args, channels, groups=channels, channel=numel(sizes))


def run_own_batch_norm(args: Args) -> tuple[Array, Array, Array]:
    x = args.array("input")
    normal, mean, rstd = np_normalize(x, args.number("eps"), (0, *range(2, x.ndim)))
    weight, bias = args.optional_array("weight"), args.optional_array("bias")
    out = np_affine(normal, weight, bias, (x.shape[1],) + (1,) * (x.ndim - 2))
    return out, mean.reshape(-1), rstd.reshape(-1)


# Root mean square normalization


def rms_norm_shape(args: Args) -> tuple[Dims]:
    source = args.tensor("input")
    if source.rank == 0:
        raise GraphError(f"{args.call}: a tensor of rank 0 has no last dim")
    weight = check_dims(args, "weight", source.dims[-1]) if is_scaled(args) else None
    check_floats(args, source, weight)
    return (source.dims,)


def is_scaled(args: Args) -> bool:
    return args.call.name != UNSCALED_RMS_NORM


def lower_rms_norm(
    args: Args, residual: TensorArg | None = None, out: TensorArg | None = None
) -> list[Dispatch]:
    """Lower an RMS norm; optionally add a residual, or write to another output."""
    source, out = args.tensor("input"), out or args.out
    if out.numel == 0:
        return []
    weight = args.tensor("weight") if is_scaled(args) else None
    rows, width = numel(source.dims[:-1]), source.dims[-1]
    item, elements = float_item(width)
    layout = contiguous_layout(width // elements, args.target)
    return [
        Dispatch(
            kernel="norm" if residual is None else "norm_add",
            bindings=(
                *(source.id, optional_id(weight)),
                *(() if residual is None else (residual.id,)),
                out.id,
            ),
            params=pack("2I2f", rows, width // elements, width, args.number("eps")),
            grid=layout.grid(rows),
            types=(("FLOAT", float_type(args, source, weight, residual, out)), ("ITEM", item)),
            overrides=(
                *((("HAS_WEIGHT", int(weight is not None)),) if residual is None else ()),
                *layout.overrides,
            ),
        )
    ]


def run_rms_norm(args: Args) -> Array:
    x = args.array("input").astype(np.float64)
    if x.size == 0:
        return x
    mean_square = np.mean(x * x, axis=-1, keepdims=True)
    normal: Array = x / np.sqrt(mean_square + args.number("eps"))
    return normal * args.array("weight") if is_scaled(args) else normal


register(
    "aten.native_layer_norm.default",
    "input: tensor, normalized_shape: ints, weight: tensor?, bias: tensor?, eps: number -> tensors",
    shape=layer_norm_shape,
    lower=lower_layer_norm,
    reference=run_layer_norm,
)

# N, C and HxW repeat the input's live dims, which are used instead.
register(
    "aten.native_group_norm.default",
    "input: tensor, weight: tensor?, bias: tensor?, n: any, c: any, hxw: any, "
    "group: int, eps: number -> tensors",
    shape=group_norm_shape,
    lower=lower_group_norm,
    reference=run_group_norm,
)

register(
    "aten._native_batch_norm_legit_no_training.default",
    "input: tensor, weight: tensor?, bias: tensor?, mean: tensor, var: tensor, momentum: any, "
    "eps: number -> tensors",
    shape=batch_norm_shape,
    lower=lower_batch_norm,
    reference=run_batch_norm,
)

register(
    "aten._native_batch_norm_legit.no_stats",
    "input: tensor, weight: tensor?, bias: tensor?, training: any, momentum: any, eps: number "
    "-> tensors",
    shape=own_batch_norm_shape,
    lower=lower_own_batch_norm,
    reference=run_own_batch_norm,
)

for _name, _weight in (("et_vk.rms_norm.default", "weight: tensor, "), (UNSCALED_RMS_NORM, "")):
    register(
        _name,
        f"input: tensor, {_weight}eps: number -> tensor",
        shape=rms_norm_shape,
        lower=lower_rms_norm,
        reference=run_rms_norm,
    )

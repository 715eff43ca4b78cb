"""Quantization and dequantization: q = clamp(round(x / scale) + zero, low, high).

    quantize_*     x (floats) -> integers; x / scale is x * (1 / scale), rounded half to even
    dequantize_*   q (integers) -> floats: (q - zero) * scale

    per_tensor     a single scale and zero, numbers or tensors of an element
    per_channel    scales [dims[axis]]
    per_token      scales per row; the zero is added before rounding
    affine         scales per block of `block_size`, in the order of the blocks
    images         scales per element of the first dim, given as their inverses

Without zeros (null, or a tensor without elements) every zero is 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from webpte.engine.dtypes import DTYPES
from webpte.engine.ops.core.args import Args, TensorArg
from webpte.engine.ops.core.quads import clamp_int32, quad_count, quad_grid
from webpte.engine.ops.core.records import Binding, Dispatch, Scratch, ceil_div, pack
from webpte.engine.ops.core.registry import register
from webpte.engine.shapes import Dims, collapse, contiguous_strides, normalize_dim, numel
from webpte.errors import GraphError, UnsupportedError

Array = np.ndarray

MAX_AXES = 16  # also in wgsl/quant/quantize.wgsl
INTEGERS = ("int8", "uint8", "int16", "int32", "int64")


@dataclass(frozen=True)
class QuantBlocks:
    """The blocks of elements that share a scale."""

    size: Dims
    padded: bool = False  # the exporter may have padded the scales to a multiple of four


class RowParams(NamedTuple):
    """The scales of the rows of x, or with `inverted` their inverses, and the zeros."""

    scale: TensorArg
    zero: TensorArg
    inverted: bool = False

    @property
    def overrides(self) -> tuple[tuple[str, float], ...]:
        """The override constant of wgsl/lib/quant/scale_pair.wgsl."""
        return (("INVERTED", True),) if self.inverted else ()


def scale_pair(given: Array, inverted: bool) -> tuple[Array, Array]:
    """Return scales and their inverses, of which either is given, in float32."""
    given = given.astype(np.float32)
    with np.errstate(divide="ignore"):
        found = np.float32(1) / given
    return (found, given) if inverted else (given, found)


@dataclass(frozen=True)
class Granularity:
    """A pair of ops: their blocks, and their arguments between x and the bounds."""

    name: str
    overload: str
    arguments: str
    blocks: Callable[[Args], QuantBlocks]
    tensors: bool = True
    zero_first: bool = False
    inverted: bool = False  # the inverses of scales are given
    namespace: str = "quantized_decomposed"
    bounds: str = "quant_min: int, quant_max: int, dtype: any = None"

    def op(self, verb: str) -> str:
        return f"{self.namespace}.{verb}_{self.name}.{self.overload}"


def one_block(args: Args) -> QuantBlocks:
    return QuantBlocks(args.tensor("x").dims)


def channel_blocks(args: Args) -> QuantBlocks:
    dims = args.tensor("x").dims
    axis = normalize_dim(args.integer("axis"), len(dims))
    if args.tensor("scale").numel == 1:
        return QuantBlocks(dims)
    return QuantBlocks((*dims[:axis], 1, *dims[axis + 1 :]), padded=True)


def token_blocks(args: Args) -> QuantBlocks:
    dims = args.tensor("x").dims
    if not dims:
        raise GraphError(f"{args.call}: a scalar has no rows")
    return QuantBlocks((*(1 for _ in dims[:-1]), dims[-1]))


def image_blocks(args: Args) -> QuantBlocks:
    dims = args.tensor("x").dims
    if not dims:
        raise GraphError(f"{args.call}: a scalar has no images")
    return QuantBlocks((1, *dims[1:]))


def affine_blocks(args: Args) -> QuantBlocks:
    dims, size = args.tensor("x").dims, args.integers("block_size")
    tiled = len(size) == len(dims) and all(
        block > 0 and dim % block == 0 for dim, block in zip(dims, size, strict=False)
    )
    # An empty tensor has no blocks, so their size does not matter.
    if not tiled and not (numel(dims) == 0 and len(size) == len(dims)):
        raise GraphError(f"{args.call}: blocks of {size} do not tile {list(dims)}")
    return QuantBlocks(tuple(size))


GRANULARITIES = (
    Granularity("per_tensor", "default", "scale: number, zero: int", one_block, tensors=False),
    Granularity("per_tensor", "tensor", "scale: tensor, zero: tensor?", one_block),
    Granularity(
        "per_channel", "default", "scale: tensor, zero: tensor?, axis: int", channel_blocks
    ),
    Granularity(
        "per_token", "default", "scale: tensor, zero: tensor?", token_blocks, zero_first=True
    ),
    Granularity(
        "affine",
        "default",
        "block_size: ints, scale: tensor, zero: tensor?, dtype: any = None",
        affine_blocks,
        namespace="torchao",
        bounds="quant_min: int? = None, quant_max: int? = None",
    ),
    Granularity(
        "images",
        "default",
        "scale: tensor, zero: tensor",
        image_blocks,
        inverted=True,
        namespace="webpte",
    ),
)


# Arguments, checked


def check_types(args: Args, floats: TensorArg, integers: TensorArg) -> None:
    if not floats.dtype.is_float or integers.dtype.name not in INTEGERS:
        raise UnsupportedError(
            f"{args.call}: {floats.dtype.name} and {integers.dtype.name} are not supported; "
            f"only floats and {', '.join(INTEGERS)} are"
        )


def scale_tensors(op: Granularity, args: Args) -> tuple[TensorArg, TensorArg | None]:
    """Return scales and zeros after checking that each block has both."""
    dims, blocks = args.tensor("x").dims, op.blocks(args)
    scale, zero = args.tensor("scale"), args.optional_tensor("zero")
    if numel(dims) == 0:
        return scale, None
    if zero is not None and zero.numel == 0:
        zero = None
    count = numel([dim // size for dim, size in zip(dims, blocks.size, strict=True)])
    enough = {count, 4 * ceil_div(count, 4)} if blocks.padded else {count}
    for tensor in (scale, *([zero] if zero else [])):
        if tensor.numel not in enough:
            raise GraphError(
                f"{args.call}: {list(tensor.dims)} scales or zeros for {count} blocks "
                f"of {list(dims)}"
            )
    if not scale.dtype.is_float:
        raise GraphError(f"{args.call}: scales are floats, not {scale.dtype.name}")
    return scale, zero


def bounds_of(args: Args) -> tuple[int, int]:
    """Return the integer range in the file, or the range of the output's dtype."""
    dtype = args.out.dtype.numpy
    limits = np.iinfo(dtype)
    low, high = args.optional_integer("quant_min"), args.optional_integer("quant_max")
    low, high = limits.min if low is None else low, limits.max if high is None else high
    if not limits.min <= low <= high <= limits.max:
        raise GraphError(f"{args.call}: {low} to {high} is not a range of {dtype}")
    return low, high


def inverse_of(args: Args, scale: float) -> float:
    if not math.isfinite(scale) or scale == 0:
        raise GraphError(f"{args.call}: {scale} is not a scale")
    return float(np.float32(1 / scale))


def quantize_shape(op: Granularity, args: Args) -> tuple[Dims]:
    """Check all arguments; return the shape of x."""
    x = args.tensor("x")
    check_types(args, x, args.out)
    bounds_of(args)
    if op.tensors:
        scale_tensors(op, args)
    else:
        inverse_of(args, args.number("scale"))
    return (x.dims,)


def dequantize_shape(op: Granularity, args: Args) -> tuple[Dims]:
    x = args.tensor("x")
    check_types(args, args.out, x)
    if op.tensors:
        scale_tensors(op, args)
    return (x.dims,)


# Lowering


@dataclass(frozen=True)
class Parameters:
    """Scale and zero of a dispatch: two numbers, or tensors with their strides."""

    scale: float | int  # the inverse if quantizing; or a value id
    zero: float | int | None
    scale_type: str = "f32"
    zero_type: str = "f32"
    sizes: Dims = ()
    steps: Dims = ()
    tensors: bool = False
    inverted: bool = False

    @property
    def shared(self) -> bool:
        """Whether the elements of a quad always share a scale."""
        return not self.sizes or (self.steps[-1] == 0 and self.sizes[-1] % 4 == 0)

    @property
    def bindings(self) -> tuple[Binding, Binding]:
        if not self.tensors:
            return None, None
        return int(self.scale), None if self.zero is None else int(self.zero)

    @property
    def numbers(self) -> tuple[float, float]:
        return (0.0, 0.0) if self.tensors else (self.scale, self.zero or 0)


def tensor_parameters(op: Granularity, args: Args) -> Parameters:
    """Split each axis into blocks and elements inside a block, and merge axes if possible."""
    dims, size = args.tensor("x").dims, op.blocks(args).size
    scale, zero = scale_tensors(op, args)
    counts = [dim // block for dim, block in zip(dims, size, strict=True)]
    split = [n for pair in zip(counts, size, strict=True) for n in pair]
    steps = [n for step in contiguous_strides(counts) for n in (step, 0)]
    sizes, (merged,) = collapse(split, steps)
    if not any(merged):
        sizes, merged = (), ()
    if len(sizes) > MAX_AXES:
        raise UnsupportedError(f"{args.call}: {len(sizes)} axes, more than {MAX_AXES}")
    return Parameters(
        scale=scale.id,
        zero=zero.id if zero else None,
        scale_type=scale.dtype.wgsl,
        zero_type=zero.dtype.wgsl if zero else "f32",
        sizes=sizes,
        steps=merged,
        tensors=True,
        inverted=op.inverted,
    )


def dispatch(
    source: Binding,
    source_type: str,
    out: TensorArg,
    parameters: Parameters,
    bounds: tuple[int, int] | None,
    zero_first: bool = False,
) -> Dispatch:
    """Return a dispatch over all quads; with `bounds` it quantizes."""
    quads = quad_count(out.numel)
    axes = [
        n for axis in zip(parameters.sizes, parameters.steps, strict=True) for n in (*axis, 0, 0)
    ]
    axes += [0] * (4 * MAX_AXES - len(axes))
    return Dispatch(
        kernel="quantize",
        bindings=(source, *parameters.bindings, out.id),
        params=pack(
            f"2I2f2i8x{len(axes)}I",
            *(quads, len(parameters.sizes)),
            *parameters.numbers,
            *map(clamp_int32, bounds or (0, 0)),
            *axes,
        ),
        grid=quad_grid(quads),
        types=(
            ("IN", source_type),
            ("OPERATION", "quantized" if bounds else "dequantized"),
            ("OUT", out.dtype.wgsl),
            ("RESULT", "i32" if bounds else "f32"),
            ("SCALE", parameters.scale_type),
            ("ZERO", parameters.zero_type),
        ),
        overrides=(
            ("HAS_ZEROS", parameters.bindings[1] is not None),
            ("SCALARS", not parameters.tensors),
            ("SHARED", parameters.shared),
            # Some compilers reject an override that the entry point does not use.
            *((("ZERO_FIRST", zero_first),) if bounds else ()),
            *((("INVERTED", True),) if parameters.inverted else ()),
        ),
    )


def requantize_dispatch(
    source: Binding,
    out: TensorArg,
    inverse: float,
    zero: int,
    bounds: tuple[int, int] = (-128, 127),
) -> Dispatch:
    """Quantize floats in `source` to bytes, for kernels that cannot write whole words of them."""
    return dispatch(source, "f32", out, Parameters(inverse, zero), bounds)


def quantize_rows(x: TensorArg, rows: RowParams, memory: Scratch) -> Dispatch:
    """Quantize floats to int8 in `memory`, with a scale and a zero per row."""
    parameters = Parameters(
        scale=rows.scale.id,
        zero=rows.zero.id,
        scale_type=rows.scale.dtype.wgsl,
        zero_type=rows.zero.dtype.wgsl,
        sizes=(numel(x.dims[:-1]), x.dims[-1]),
        steps=(1, 0),
        tensors=True,
        inverted=rows.inverted,
    )
    quantized = dispatch(
        x.id, x.dtype.wgsl, x._replace(dtype=DTYPES["int8"]), parameters, (-128, 127)
    )
    return replace(quantized, bindings=(*quantized.bindings[:-1], memory))


def int8_dispatch(x: TensorArg, target: Binding, inverse: float, zero: int) -> Dispatch:
    """Quantize the floats of `x` to int8 in `target`, for kernels that take only bytes."""
    made = dispatch(x.id, x.dtype.wgsl, x, Parameters(inverse, zero), (-128, 127))
    types = tuple((name, "i8" if name == "OUT" else stored) for name, stored in made.types)
    return replace(made, bindings=(*made.bindings[:-1], target), types=types)


def lower_quantize(op: Granularity, args: Args) -> list[Dispatch]:
    x, out = args.tensor("x"), args.out
    if out.numel == 0:
        return []
    if op.tensors:
        parameters = tensor_parameters(op, args)
    else:
        parameters = Parameters(inverse_of(args, args.number("scale")), args.integer("zero"))
    return [dispatch(x.id, x.dtype.wgsl, out, parameters, bounds_of(args), op.zero_first)]


def lower_dequantize(op: Granularity, args: Args) -> list[Dispatch]:
    x, out = args.tensor("x"), args.out
    if out.numel == 0:
        return []
    if op.tensors:
        parameters = tensor_parameters(op, args)
    else:
        parameters = Parameters(args.number("scale"), args.integer("zero"))
    return [dispatch(x.id, x.dtype.wgsl, out, parameters, None)]


# NumPy, in float32 as the ops are defined: a wider type could round ties differently.


def np_quantize(
    x: Array,
    inverse: Array | float,
    zero: Array | float,
    bounds: tuple[int, int],
    zero_first: bool = False,
) -> Array:
    offset = np.asarray(zero, np.float32)
    with np.errstate(invalid="ignore", over="ignore"):
        product = x.astype(np.float32) * np.float32(inverse)
        value = np.round(product + offset) if zero_first else np.round(product) + offset
        return np.clip(value.astype(np.float64), *bounds).astype(np.int64)


def np_dequantize(q: Array, scale: Array | float, zero: Array | float) -> Array:
    return (q.astype(np.float32) - np.asarray(zero, np.float32)) * np.float32(scale)


def np_requantize(x: Array, inverse: float, zero: int) -> Array:
    return np_quantize(x, inverse, zero, (-128, 127)).astype(np.int8)


def split_arrays(op: Granularity, args: Args) -> tuple[Array, Array, Array]:
    """Return x with each axis split into blocks, and scales and zeros that broadcast with it."""
    x, size = args.array("x"), op.blocks(args).size
    scale, zero = scale_tensors(op, args)
    if x.size == 0:
        return x, np.ones((), np.float32), np.zeros((), np.float32)
    counts = [dim // block for dim, block in zip(x.shape, size, strict=True)]
    split = [n for pair in zip(counts, size, strict=True) for n in pair]
    spread = [n for count in counts for n in (count, 1)]
    arrays = [args.array("scale"), np.zeros(scale.dims) if zero is None else args.array("zero")]
    flat = [array.reshape(-1)[: numel(counts)].reshape(spread) for array in arrays]
    return x.reshape(split), flat[0].astype(np.float32), flat[1].astype(np.float32)


def run_quantize(op: Granularity, args: Args) -> Array:
    bounds = bounds_of(args)
    if op.tensors:
        x, given, zero = split_arrays(op, args)
        _, inverses = scale_pair(given, op.inverted)
        result = np_quantize(x, inverses, zero, bounds, op.zero_first)
    else:
        inverse = inverse_of(args, args.number("scale"))
        result = np_quantize(args.array("x"), inverse, args.integer("zero"), bounds)
    return result.reshape(args.out.dims).astype(args.out.dtype.numpy)


def run_dequantize(op: Granularity, args: Args) -> Array:
    if op.tensors:
        x, given, zero = split_arrays(op, args)
        return np_dequantize(x, scale_pair(given, op.inverted)[0], zero).reshape(args.out.dims)
    return np_dequantize(args.array("x"), args.number("scale"), args.integer("zero"))


for _op in GRANULARITIES:
    register(
        _op.op("quantize"),
        f"x: tensor, {_op.arguments}, {_op.bounds} -> tensor",
        shape=lambda args, op=_op: quantize_shape(op, args),  # type: ignore[misc]
        lower=lambda args, op=_op: lower_quantize(op, args),  # type: ignore[misc]
        reference=lambda args, op=_op: run_quantize(op, args),  # type: ignore[misc]
    )
    register(
        _op.op("dequantize"),
        f"x: tensor, {_op.arguments}, {_op.bounds}, out_dtype: any = None -> tensor",
        shape=lambda args, op=_op: dequantize_shape(op, args),  # type: ignore[misc]
        lower=lambda args, op=_op: lower_dequantize(op, args),  # type: ignore[misc]
        reference=lambda args, op=_op: run_dequantize(op, args),  # type: ignore[misc]
    )

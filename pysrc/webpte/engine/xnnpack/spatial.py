"""Lowering of nodes on images: convolutions, pools, resizing. Images are held as NCHW."""

from __future__ import annotations

import math
from dataclasses import dataclass

from webpte.engine.dtypes import DTYPES
from webpte.engine.format.xnnpack import PerTensorQuant, XnnDataType, XnnNode, XnnTensor
from webpte.engine.graph.graph import Constant, Tensor
from webpte.engine.xnnpack.constants import relaid
from webpte.engine.xnnpack.elementwise import clamp, compute_clamped, limits
from webpte.engine.xnnpack.lowering import IMAGES, DynamicRows, Lowering, NodeLowering
from webpte.engine.xnnpack.quantized import params, quantized_limits
from webpte.engine.xnnpack.validate import ALIGN_CORNERS
from webpte.engine.xnnpack.weights import cast_constant, requantization, weight_zero
from webpte.errors import GraphError


@dataclass(frozen=True)
class Filter:
    """The sizes of a convolution's weights: [out, height, width, in] of `groups`."""

    out: int
    height: int
    width: int
    inner: int
    groups: int
    depthwise: bool
    transposed: bool


def filter_of(node: XnnNode, weight: XnnTensor) -> Filter:
    """Return the sizes of the weights, after checking them against the node."""
    numbers = node.integers
    groups, inner = numbers["groups"], numbers["group_input_channels"]
    out = groups * numbers["group_output_channels"]
    kernel = numbers["kernel_height"], numbers["kernel_width"]
    depthwise = node.kind == "DepthwiseConv2d"
    dims = (1, *kernel, out) if depthwise else (out, *kernel, inner)
    if weight.dims != dims or not groups or (depthwise and inner != 1):
        raise GraphError(f"weights {list(weight.dims)}, where the node has {list(dims)}")
    return Filter(out, *kernel, inner, groups, depthwise, node.kind == "ConvTranspose2d")


def window(node: XnnNode, name: str) -> list[int]:
    """Return a height and a width of a node."""
    return [node.integers[f"{name}_height"], node.integers[f"{name}_width"]]


def paddings(node: XnnNode) -> list[int]:
    """Return the paddings at the top, at the left, at the bottom and at the right."""
    return [node.integers[f"padding_{side}"] for side in ("top", "left", "bottom", "right")]


def padded(lowering: Lowering, node: XnnNode, x: Tensor, filler: float) -> tuple[Tensor, list[int]]:
    """Return an image and the symmetric paddings that are left after padding one side more."""
    top, left, bottom, right = paddings(node)
    if (top, left) == (bottom, right):
        return x, [top, left]
    *outer, height, width = x.dims
    out = lowering.writer.new_tensor(x.dtype, (*outer, height + top + bottom, width + left + right))
    pads = [left, right, top, bottom]
    lowering.writer.call("aten.constant_pad_nd.default", (x, pads, filler), out)
    return out, [0, 0]


def placed(
    lowering: Lowering, node: XnnNode, sizes: Filter, image: Tensor
) -> tuple[Tensor, list[int], list[int]]:
    """Return an image, and the paddings and output paddings of its convolution."""
    if not sizes.transposed:
        return *padded(lowering, node, image, 0.0), [0, 0]
    top, left, bottom, right = paddings(node)
    if (top, left) != (bottom, right):
        raise GraphError("a transposed convolution with other paddings at the end")
    return image, [top, left], window(node, "adjustment")


def lower_convolution(lowering: Lowering, node: XnnNode) -> None:
    x, weight = lowering.value(node, "input1_id"), lowering.value(node, "filter_id")
    bias, out = lowering.optional(node, "bias_id"), lowering.value(node, "output_id")
    sizes = filter_of(node, weight)
    if bias is not None and bias.dims != (sizes.out,):
        raise GraphError(f"a bias {list(bias.dims)} for {sizes.out} channels")
    if x.id in lowering.dynamic:
        _lower_dynamic(lowering, node, sizes, weight, bias, out)
    elif isinstance(x.quantization, PerTensorQuant):
        _lower_q8(lowering, node, sizes)
    elif weight.quantization is not None:
        lowering.refuse(node, "of floats with quantized weights")
    else:
        _lower_float(lowering, node, sizes, x, weight, bias, out)


def _lower_float(
    lowering: Lowering,
    node: XnnNode,
    sizes: Filter,
    x: XnnTensor,
    weight: XnnTensor,
    bias: XnnTensor | None,
    out: XnnTensor,
) -> None:
    image, pads, extra = placed(lowering, node, sizes, lowering.image(x))
    dtype = lowering.dtype(x)
    shape, constant = float_weights(lowering, sizes, weight, dtype.name)
    kernel = lowering.writer.new_tensor(dtype, shape, constant)
    addend = None if bias is None else cast_constant(lowering, bias, dtype.name)
    stride, dilation = window(node, "subsampling"), window(node, "dilation")
    args = (image, kernel, addend, stride, pads, dilation, sizes.transposed, extra, sizes.groups)
    least, most = limits(node)
    if sizes.transposed or (math.isinf(least) and math.isinf(most)):
        compute_clamped(lowering, node, out, "aten.convolution.default", args, IMAGES)
    else:
        ends = [None if math.isinf(limit) else limit for limit in (least, most)]
        lowering.compute(out, "et_vk.conv_with_clamp.default", (*args, *ends), IMAGES)


def float_weights(
    lowering: Lowering, sizes: Filter, weight: XnnTensor, dtype: str
) -> tuple[tuple[int, ...], Constant]:
    """Return the weights as PyTorch has them, and their dims."""
    constant, source = lowering.constant(weight), lowering.dtype(weight).name
    kernel = sizes.height, sizes.width
    if sizes.depthwise:
        taps = (*kernel, sizes.out)
        return (sizes.out, 1, *kernel), relaid(constant, taps, (2, 0, 1), source, dtype)
    if sizes.transposed:
        outs = sizes.out // sizes.groups
        blocks = (outs, *kernel, sizes.inner)
        whole = (sizes.inner * sizes.groups, outs, *kernel)
        return whole, relaid(constant, blocks, (3, 0, 1, 2), source, dtype, sizes.groups)
    file = (*kernel, sizes.inner)
    return (sizes.out, sizes.inner, *kernel), relaid(
        constant, file, (2, 0, 1), source, dtype, sizes.out
    )


def _lower_q8(lowering: Lowering, node: XnnNode, sizes: Filter) -> None:
    """Append a convolution of 8-bit values, which is requantized with XNNPACK's rounding."""
    x, weight = lowering.value(node, "input1_id"), lowering.value(node, "filter_id")
    bias, out = lowering.optional(node, "bias_id"), lowering.value(node, "output_id")
    axis = len(weight.dims) - 1 if sizes.depthwise else 0
    scale = requantization(lowering, x, weight, out, sizes.out, axis)
    name = "webpte.q8_conv_transposed.default" if sizes.transposed else "webpte.q8_conv.default"
    extra = (window(node, "adjustment"),) if sizes.transposed else ()
    kind = () if sizes.transposed else (sizes.depthwise,)
    lowering.compute(
        out,
        name,
        (
            *(lowering.image(x), params(x).zero_point),
            *(lowering.plain(weight), weight_zero(weight), scale),
            None if bias is None else lowering.plain(bias),
            *(params(out).zero_point, *quantized_limits(node, out)),
            *([sizes.height, sizes.width], window(node, "subsampling"), paddings(node), *extra),
            *(window(node, "dilation"), sizes.groups, *kind),
        ),
        IMAGES,
    )


def _lower_dynamic(
    lowering: Lowering,
    node: XnnNode,
    sizes: Filter,
    weight: XnnTensor,
    bias: XnnTensor | None,
    out: XnnTensor,
) -> None:
    """Append a convolution of an image that is rounded to int8 in each run, in floats.

    Weights are whole numbers as floats, so that their scales follow the sums of products.
    """
    rows = lowering.dynamic[lowering.value(node, "input1_id").id]
    if weight.datatype is not XnnDataType.QCINT8:
        lowering.refuse(node, f"quantized in each run, with {weight.datatype.name}")
        return
    image = lowering.image(rows.source)
    rounded, pads, extra = placed(lowering, node, sizes, _rounded(lowering, image, rows))
    shape, constant = float_weights(lowering, sizes, weight, image.dtype.name)
    kernel = lowering.writer.new_tensor(image.dtype, shape, constant)
    stride, dilation = window(node, "subsampling"), window(node, "dilation")
    wide = lowering.in_float32(out)
    made = lowering.new(wide, IMAGES)
    sums, scaled = (lowering.writer.new_tensor(image.dtype, made.tensor.dims) for _ in range(2))
    args = (rounded, kernel, None, stride, pads, dilation, sizes.transposed, extra, sizes.groups)
    lowering.writer.call("webpte.dq8_conv_in_floats.default", args, sums)
    scales = Constant.in_memory(lowering.scales(weight, sizes.out, 3 if sizes.depthwise else 0))
    factor = lowering.writer.new_tensor(image.dtype, (sizes.out, 1, 1), scales)
    lowering.writer.call("aten.mul.Tensor", (sums, factor), scaled)
    if bias is not None:
        addend = cast_constant(lowering, bias, image.dtype.name)
        channels = lowering.writer.new_tensor(image.dtype, (sizes.out, 1, 1))
        lowering.writer.call("aten.view_copy.default", (addend, [sizes.out, 1, 1]), channels)
        total = lowering.writer.new_tensor(image.dtype, made.tensor.dims)
        lowering.writer.call("aten.add.Tensor", (scaled, channels), total)
        scaled = total
    clamp(lowering, node, scaled, made.tensor)
    lowering.give(wide, made)
    lowering.cast(wide, out)


def _rounded(lowering: Lowering, image: Tensor, rows: DynamicRows) -> Tensor:
    """Return images rounded to the numbers of int8 that their scales and zero points stand for."""
    args = (rows.inverse, rows.zero, -128, 127)
    whole = lowering.writer.new_tensor(DTYPES["int8"], image.dims)
    lowering.writer.call("webpte.quantize_images.default", (image, *args), whole)
    rounded = lowering.writer.new_tensor(image.dtype, image.dims)
    lowering.writer.call("webpte.dequantize_images.default", (whole, *args), rounded)
    return rounded


def lower_max_pool(lowering: Lowering, node: XnnNode) -> None:
    x, out = lowering.value(node, "input_id"), lowering.value(node, "output_id")
    image = lowering.image(x)
    spans = [
        (size - 1) * step
        for size, step in zip(window(node, "pooling"), window(node, "dilation"), strict=True)
    ]
    if any(pad > span for pad, span in zip(paddings(node), [*spans, *spans], strict=True)):
        raise GraphError("a pool with windows outside of the image")
    filler = -math.inf
    if isinstance(x.quantization, PerTensorQuant):
        filler = 0 if lowering.dtype(x).name == "uint8" else -128
    image, pads = padded(lowering, node, image, filler)
    sizes = (window(node, "pooling"), window(node, "stride"), pads, window(node, "dilation"))
    if isinstance(out.quantization, PerTensorQuant) and node.clamp is not None:
        lowering.refuse(node, "of 8 bits with limits")
        return
    name = "aten.max_pool2d.default"
    compute_clamped(lowering, node, out, name, (image, *sizes, False), IMAGES)


def lower_average_pool(lowering: Lowering, node: XnnNode) -> None:
    """Append an average of the elements inside of the image."""
    x, out = lowering.value(node, "input_id"), lowering.value(node, "output_id")
    if isinstance(out.quantization, PerTensorQuant):
        lowering.refuse(node, "of 8 bits")
        return
    args = (lowering.image(x), window(node, "pooling"), window(node, "stride"))
    top, left, bottom, right = paddings(node)
    if (top, left) == (bottom, right):
        even = (*args, [top, left], False, False, None)
        compute_clamped(lowering, node, out, "aten.avg_pool2d.default", even, IMAGES)
    else:
        uneven = (*args, [top, left, bottom, right])
        compute_clamped(lowering, node, out, "webpte.avg_pool2d.default", uneven, IMAGES)


def lower_mean(lowering: Lowering, node: XnnNode) -> None:
    """Append the mean over height and width."""
    x, out = lowering.value(node, "input_id"), lowering.value(node, "output_id")
    image = lowering.image(x)
    if isinstance(out.quantization, PerTensorQuant):
        given, made = params(x), params(out)
        args = (given.scale, given.zero_point, made.scale, made.zero_point)
        limit = quantized_limits(node, out)
        lowering.compute(out, "webpte.q8_mean.default", (image, *args, *limit), IMAGES)
        return
    keeps = len(out.dims) == len(x.dims)
    order = IMAGES if keeps else None
    compute_clamped(lowering, node, out, "aten.mean.dim", (image, [2, 3], keeps), order)


def lower_resize(lowering: Lowering, node: XnnNode) -> None:
    x, out = lowering.value(node, "input_id"), lowering.value(node, "output_id")
    size, aligned = window(node, "new"), bool(node.integers["flags"] & ALIGN_CORNERS)
    if isinstance(out.quantization, PerTensorQuant):
        name = "webpte.q8_resize_bilinear2d.default"
        lowering.compute(out, name, (lowering.image(x), size, aligned), IMAGES)
        return
    name = "aten.upsample_bilinear2d.vec"
    lowering.compute(out, name, (lowering.image(x), size, aligned, None), IMAGES)


def lower_argmax_pool(lowering: Lowering, node: XnnNode) -> None:
    """Append the maxima of windows that do not overlap, and the places of the maxima.

    XNNPACK computes places as int32; exporters wrote the type of the maxima for them.
    """
    x = lowering.value(node, "input_id")
    if any(paddings(node)):
        raise GraphError("a pool of places with paddings is not supported")
    outs = [lowering.value(node, name) for name in ("output_value_id", "output_index_id")]
    if x.quantization is not None or outs[0].quantization is not None:
        lowering.refuse(node, "of 8 bits")
        return
    held = [lowering.new(outs[0], IMAGES), lowering.new(outs[1], IMAGES, DTYPES["int32"])]
    args = (lowering.image(x), window(node, "pooling"))
    lowering.writer.call("webpte.argmax_pool2d.default", args, [one.tensor for one in held])
    for out, made in zip(outs, held, strict=True):
        lowering.give(out, made)


NODES: dict[str, NodeLowering] = {
    "Conv2d": lower_convolution,
    "DepthwiseConv2d": lower_convolution,
    "ConvTranspose2d": lower_convolution,
    "MaxPooling2d": lower_max_pool,
    "AvgPooling2d": lower_average_pool,
    "GlobalAvgPooling2d": lower_mean,
    "StaticResizeBilinear2D": lower_resize,
    "ArgMaxPooling2d": lower_argmax_pool,
}

"""Convolutions with what is around them, as exporters write it: programs, with their inputs."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from support.graphs.fusion_graphs import Net
from support.write.pte_writer import GraphWriter

Array = np.ndarray

PLAIN, CLAMPED = "aten.convolution.default", "et_vk.conv_with_clamp.default"
PAD = "aten.constant_pad_nd.default"


@dataclass(frozen=True)
class Block:
    """One convolution: channels in and out, pixels, a side, and what is around it."""

    channels: tuple[int, int]
    pixels: tuple[int, int]
    side: int
    end: str  # an activation, "slope", "sum", "short sum", "sum, tanh", "clamped sum", or nothing
    groups: int = 1
    stride: int = 1
    border: tuple[int, ...] = ()  # left, right, above, below
    batch: int = 1
    value: float = field(default=0.0, kw_only=True)  # of the border

    def __str__(self) -> str:
        (c, o), (h, w) = self.channels, self.pixels
        border = "-".join(map(str, self.border))
        return f"{self.batch}x{c}to{o}-{h}x{w}-{self.side}-{self.groups}-{self.end}-{border}"


# Every kernel with every kind of end: directly (few channels), a product of one tap, windows where
# there are enough workgroups, tiles of one tap and of several, and sums that are split.
BLOCKS = (
    Block((6, 6), (9, 7), 3, "hardswish", groups=6, border=(0, 1, 2, 1)),
    Block((6, 6), (9, 7), 3, "slope", groups=6),
    Block((3, 5), (9, 7), 3, "short sum"),
    Block((8, 12), (4, 5), 1, "tanh", batch=2),
    Block((8, 12), (4, 5), 1, "slope", batch=2),
    Block((8, 13), (5, 5), 1, "short sum"),
    Block((20, 37), (7, 6), 1, "clamped sum"),
    Block((12, 36), (9, 14), 3, "slope", border=(1, 2, 0, 1)),
    Block((12, 20), (9, 14), 3, "short sum"),
    Block((98, 16), (5, 5), 3, "slope"),
    Block((98, 16), (5, 5), 3, "short sum"),
    Block((98, 16), (5, 5), 3, "sum, tanh"),
    Block((36, 20), (11, 19), 3, "sigmoid", stride=2, border=(0, 1, 0, 1)),
    Block((5, 9), (7, 6), 3, "clamped sum", border=(2, 2, 2, 2)),
    Block((5, 9), (7, 6), 5, "gelu", batch=2),
    Block((3, 17), (8, 6), 3, "", border=(1, 2, 1, 2)),
)


def conv_block(case: Block) -> tuple[GraphWriter, list[Array]]:
    net, (c, o) = Net(case.side), case.channels
    g, x = net.g, net.g.tensor((case.batch, c, *case.pixels))
    inputs: tuple[int, ...] = (x,)
    source, (h, w) = x, case.pixels
    if case.border:
        left, right, above, below = case.border
        h, w = h + above + below, w + left + right
        zeros = (g.int_list(case.border), g.double(case.value))
        source = g.op(PAD, x, *zeros, g.tensor((case.batch, c, h, w)))
    inside = case.side // 2
    dims = (case.batch, o, *((n + 2 * inside - case.side) // case.stride + 1 for n in (h, w)))
    weight = net.constant(net.floats(o, c // case.groups, case.side, case.side) / np.float32(c))
    sizes = [g.int_list([n, n]) for n in (case.stride, inside, 1)]
    rest = (g.bool_(False), g.int_list([0, 0]), g.int(case.groups))
    bias = net.constant(net.floats(o))
    clamped = case.end == "clamped sum"
    bounds = [g.double(-0.25), g.double(0.5)] if clamped else []
    name = CLAMPED if clamped else PLAIN
    out = g.op(name, source, weight, bias, *sizes, *rest, *bounds, g.tensor(dims))
    if case.end == "slope":
        out = prelu(net, out)
    elif "sum" in case.end:
        short = case.end == "short sum"
        residual = given = g.tensor((1, o - 3, *dims[2:]) if short else dims)
        if short:
            args = (g.int_list([0, 0, 0, 0, 0, 3]), g.double(0.0), g.tensor(dims))
            residual = g.op(PAD, given, *args)
        out, inputs = net.add(residual, out), (x, given)
    activation = case.end.removeprefix("sum, ")
    if activation == "gelu":
        out = g.op("aten.gelu.default", out, g.string("none"), net.like(out))
    elif activation in ("hardswish", "tanh", "sigmoid"):
        out = g.op(f"aten.{activation}.default", out, net.like(out))
    return g, net.finish(inputs, out)


def prelu(net: Net, x: int, threshold: float = 0.0) -> int:
    """where(x > 0, x, slope * x)"""
    g, dims = net.g, net.g.shapes[x][0]
    slope = net.constant(net.floats(1, dims[1], 1, 1))
    positive = g.op("aten.gt.Scalar", x, g.double(threshold), g.tensor(dims, "bool"))
    bent = g.op("aten.mul.Tensor", slope, x, g.tensor(dims))
    return g.op("aten.where.self", positive, x, bent, g.tensor(dims))


BATCH_NORM = "aten._native_batch_norm_legit_no_training.default"


def activation_norm(
    dims: tuple[int, ...], activation: str = "relu"
) -> tuple[Net, int, list[Array]]:
    """A batch normalization of what an op gives; also the value between them."""
    net = Net(len(dims))
    g, x, channels = net.g, net.g.tensor(dims), dims[1]
    scalars = [g.double(-0.75), g.double(0.5)] if activation == "clamp" else []
    between = g.op(f"aten.{activation}.default", x, *scalars, g.tensor(dims))
    affine = [net.constant(net.floats(channels)) for _ in range(3)]
    variance = net.constant(np.abs(net.floats(channels)) + np.float32(0.1))
    outs = [g.tensor(dims), g.tensor((0,)), g.tensor((0,))]
    args = (between, *affine, variance, g.double(0.1), g.double(1e-5))
    g.op(BATCH_NORM, *args, g.value_list(outs))
    return net, between, net.finish((x,), outs[0])

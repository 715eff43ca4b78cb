"""Reads and checks the call of a convolution, and derives its sizes.

Used by the lowering and the reference alike. One spatial dim is a height of 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

from webpte.engine.ops.core.args import Args
from webpte.engine.ops.core.records import ceil_div
from webpte.errors import GraphError, UnsupportedError


class Pair(NamedTuple):
    """Two numbers: for height and for width."""

    h: int
    w: int


@dataclass(frozen=True)
class Convolution:
    """A checked call; channels are counted per group."""

    batch: int
    groups: int
    in_channels: int
    out_channels: int
    in_size: Pair
    out_size: Pair
    kernel: Pair
    stride: Pair
    padding: Pair
    dilation: Pair
    transposed: bool

    @property
    def phases(self) -> Pair:
        """Plain convolutions in a transposed convolution: see wgsl/lib/conv/conv.wgsl."""
        if not self.transposed:
            return Pair(1, 1)
        return Pair(*map(min, self.stride, self.out_size))

    @property
    def tap_step(self) -> Pair:
        return Pair(*(s // math.gcd(s, d) for s, d in zip(self.stride, self.dilation, strict=True)))

    @property
    def phase_size(self) -> Pair:
        """The outputs of the largest phase."""
        return Pair(*map(ceil_div, self.out_size, self.phases))

    @property
    def phase_taps(self) -> int:
        """The most taps that a phase can have."""
        steps = self.tap_step if self.transposed else Pair(1, 1)
        return math.prod(map(ceil_div, self.kernel, steps))

    @property
    def has_one_tap(self) -> bool:
        """Whether the convolution is a GEMM: a 1 x 1 kernel, stride 1, no padding."""
        return (
            self.kernel == self.stride == (1, 1)
            and self.padding == (0, 0)
            and self.in_size == self.out_size
        )

    @property
    def has_nine_taps(self) -> bool:
        """Whether there is a single group of 3 x 3 taps, a pixel apart, at every pixel."""
        return (
            self.kernel == (3, 3)
            and self.stride == self.dilation == (1, 1)
            and self.groups == 1
            and not self.transposed
        )

    @property
    def is_pointwise(self) -> bool:
        """Whether there is a single tap, and H * W is a multiple of 4."""
        return self.has_one_tap and math.prod(self.in_size) % 4 == 0


def spatial(args: Args, name: str, rank: int) -> Pair:
    """Read an argument with an entry per spatial dim, or a single entry for all."""
    items = args.integers(name)
    if len(items) == 1:
        items = items * rank
    if len(items) != rank:
        raise GraphError(f"{args.call}: {name} {items} does not fit {rank} spatial dims")
    low = 0 if name.endswith("padding") else 1
    if min(items) < low:
        raise GraphError(f"{args.call}: {name} {items} is below {low}")
    if rank == 2:
        return Pair(*items)
    return Pair(low, items[0])  # a height of 1 has stride 1, dilation 1 and padding 0


def out_size(args: Args, conv: Convolution, extra: Pair, margins: Pair | None = None) -> Pair:
    """Return the spatial dims of the output; `extra` is the output padding.

    margins  the padding at both sides together; by default it is the same at each
    """
    sizes = []
    for axis in range(2):
        size, stride = conv.in_size[axis], conv.stride[axis]
        margin = 2 * conv.padding[axis] if margins is None else margins[axis]
        reach = conv.dilation[axis] * (conv.kernel[axis] - 1)
        if not conv.transposed:
            room = size + margin - reach - 1
            sizes.append(room // stride + 1 if room >= 0 else 0)
        elif extra[axis] >= max(stride, conv.dilation[axis]):
            raise GraphError(
                f"{args.call}: output_padding {extra[axis]} must be below stride or dilation"
            )
        else:
            sizes.append((size - 1) * stride - margin + reach + extra[axis] + 1)
    if min(sizes) < 1:
        raise GraphError(
            f"{args.call}: a kernel of {list(conv.kernel)} does not fit an input of "
            f"{list(conv.in_size)} (padding {list(args.integers('padding'))}, "
            f"dilation {list(conv.dilation)})"
        )
    return Pair(*sizes)


def read_call(args: Args) -> Convolution:
    x, weight, bias = args.tensor("input"), args.tensor("weight"), args.optional_tensor("bias")
    if x.rank not in (3, 4):
        raise UnsupportedError(
            f"{args.call}: an input of rank {x.rank}; convolutions have 1 to 3 spatial dims here"
        )
    if not all(t is None or t.dtype.is_float for t in (x, weight, bias, args.out)):
        raise UnsupportedError(
            f"{args.call}: {x.dtype.name} {weight.dtype.name}; only floats are supported"
        )
    if weight.rank != x.rank:
        raise GraphError(
            f"{args.call}: weight {list(weight.dims)} does not fit an input {list(x.dims)}"
        )
    rank, groups, transposed = x.rank - 2, args.integer("groups"), args.flag("transposed")
    out_channels = weight.dims[1] if transposed else weight.dims[0] // max(groups, 1)
    in_channels = weight.dims[0] // max(groups, 1) if transposed else weight.dims[1]
    if groups < 1 or weight.dims[0] % groups or in_channels * groups != x.dims[1]:
        raise GraphError(
            f"{args.call}: weight {list(weight.dims)} in {groups} groups does not fit "
            f"an input {list(x.dims)}"
        )
    if bias is not None and bias.dims != (out_channels * groups,):
        raise GraphError(
            f"{args.call}: bias {list(bias.dims)} for {out_channels * groups} channels"
        )
    flat = (1,) * (2 - rank)
    conv = Convolution(
        batch=x.dims[0],
        groups=groups,
        in_channels=in_channels,
        out_channels=out_channels,
        in_size=Pair(*flat, *x.dims[2:]),
        out_size=Pair(0, 0),
        kernel=Pair(*flat, *weight.dims[2:]),
        stride=spatial(args, "stride", rank),
        padding=spatial(args, "padding", rank),
        dilation=spatial(args, "dilation", rank),
        transposed=transposed,
    )
    extra = spatial(args, "output_padding", rank)
    return replace(conv, out_size=out_size(args, conv, extra))

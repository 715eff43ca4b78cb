"""3D pooling: averages, or maxima and their indices, over windows of depth, height and width.

    self (C, D, H, W) or (B, C, D, H, W); out has the same rank
    indices: (d * H + h) * W + w of the maximum in its channel

A window starts at o * stride - padding and has kernel elements, dilation apart; a single number
stands for all three dims. Padding never counts for a maximum.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from webpte.engine.ops.core.args import Args
from webpte.engine.ops.core.quads import WORKGROUP_SIZE, float_type
from webpte.engine.ops.core.records import Binding, Dispatch, Scratch, ceil_div, fold_grid, pack
from webpte.engine.ops.core.registry import register
from webpte.engine.ops.pool.pool import AVERAGE, MAXIMUM
from webpte.engine.shapes import Dims, window_count
from webpte.errors import GraphError, UnsupportedError

Array = np.ndarray
Three = tuple[int, int, int]


def three(numbers: Sequence[int]) -> Three:
    if len(numbers) not in (1, 3):
        raise ValueError(f"{list(numbers)} must be 1 or 3 numbers")
    return (numbers[0], numbers[len(numbers) // 2], numbers[-1])


@dataclass(frozen=True)
class Windows:
    """The windows of a call, dim by dim."""

    sizes: Three
    counts: Three
    kernel: Three
    stride: Three
    padding: Three
    dilation: Three

    def taps(self, x: Array, fill: float) -> Iterator[Array]:
        """Yield the elements at each tap of the windows, [..., *counts], with `fill` outside."""
        ends = [
            max((n - 1) * s + d * (k - 1) + 1 - size - p, 0)
            for n, s, d, k, size, p in zip(
                self.counts,
                self.stride,
                self.dilation,
                self.kernel,
                self.sizes,
                self.padding,
                strict=True,
            )
        ]
        widths = [(0, 0)] * (x.ndim - 3) + list(zip(self.padding, ends, strict=True))
        wide = np.pad(x, widths, constant_values=fill)
        for place in product(*map(range, self.kernel)):
            starts = [k * d for k, d in zip(place, self.dilation, strict=True)]
            cuts: Any = tuple(
                slice(start, start + (n - 1) * s + 1, s)
                for start, n, s in zip(starts, self.counts, self.stride, strict=True)
            )
            yield wide[(..., *cuts)]


def windows_of(
    dims: Dims,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
) -> Windows:
    sizes, window = three(dims[-3:]), three(kernel)
    steps, borders, apart = three(stride or kernel), three(padding), three(dilation)
    if min(*window, *steps, *apart) < 1 or min(borders) < 0:
        raise ValueError(
            f"windows of {list(window)} with strides {list(steps)}, dilations {list(apart)} and "
            f"padding {list(borders)} are not valid"
        )
    counts = [
        window_count(*along, ceil_mode)
        for along in zip(sizes, window, steps, borders, apart, strict=True)
    ]
    if min(counts) < 1:
        raise ValueError(f"windows of {list(window)} do not fit {list(dims)}")
    return Windows(sizes, three(counts), window, steps, borders, apart)


def windows_for(
    args: Args,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool = False,
) -> Windows:
    """Return the windows of a call over its first tensor; errors name the call."""
    x = args.tensor(args.given[0][0].name)
    try:
        return windows_of(x.dims, kernel, stride, padding, dilation, ceil_mode)
    except ValueError as error:
        raise GraphError(f"{args.call}: {error}") from error


def average(
    x: Array,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: int | None,
) -> Array:
    windows = windows_of(x.shape, kernel, stride, padding, [1], ceil_mode)
    total = sum(windows.taps(x.astype(np.float64), 0.0))
    counted = np.ones(x.shape[-3:])
    if count_include_pad:
        counted = np.pad(counted, [(p, p) for p in windows.padding], constant_values=1.0)
        grown = three(counted.shape)
        inside = Windows(
            grown, windows.counts, windows.kernel, windows.stride, (0, 0, 0), (1, 1, 1)
        )
        count = sum(inside.taps(counted, 0.0))
    else:
        count = sum(windows.taps(counted, 0.0))
    return np.asarray(total / (divisor or count)).astype(x.dtype)


def maximum(
    x: Array,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
) -> tuple[Array, Array]:
    """Return maxima and their flat indices through depth, height and width; a NaN wins."""
    windows = windows_of(x.shape, kernel, stride, padding, dilation, ceil_mode)
    volume = math.prod(windows.sizes)
    numbers = np.arange(volume, dtype=np.int64).reshape(windows.sizes)
    values = np.zeros((*x.shape[:-3], *windows.counts), x.dtype)
    places = np.full(values.shape, -1)
    for tap, where in zip(windows.taps(x, 0), windows.taps(numbers, -1), strict=True):
        better = (where >= 0) & ((tap > values) | (tap != tap) | (places < 0))
        values, places = np.where(better, tap, values), np.where(better, where, places)
    return values, places


# Calls


def read_call(args: Args, dilated: bool) -> Windows:
    x = args.tensor("self")
    if x.rank not in (4, 5):
        raise GraphError(f"{args.call}: takes (C, D, H, W) or (B, C, D, H, W), not {list(x.dims)}")
    return windows_for(
        args,
        args.integers("kernel_size"),
        args.optional_integers("stride") or [],
        args.optional_integers("padding") or [0],
        (args.optional_integers("dilation") if dilated else None) or [1],
        args.flag("ceil_mode"),
    )


def pool_shape(args: Args, dilated: bool) -> tuple[Dims, ...]:
    shape = (*args.tensor("self").dims[:-3], *read_call(args, dilated).counts)
    for indices in args.outs[1:]:
        if indices.dtype.stored != "int32":
            raise GraphError(f"{args.call}: indices are int32 or int64, not {indices.dtype.name}")
    return (shape,) * len(args.outs)


def lower_pool(args: Args, dilated: bool) -> list[Dispatch]:
    x, out = args.tensor("self"), args.outs[0]
    windows = read_call(args, dilated)
    if out.numel == 0:
        return []
    if not x.dtype.is_float:
        raise UnsupportedError(f"{args.call}: its kernel takes floats, not {x.dtype.name}")
    # The shader declares a binding for indices even for averages.
    indices: Binding = args.outs[1].id if dilated else Scratch("volumes_indices", 16)
    divisor = 0 if dilated else args.optional_integer("divisor_override") or 0
    counted = not dilated and args.flag("count_include_pad")
    return [
        Dispatch(
            kernel="pool3d",
            bindings=(x.id, out.id, indices),
            params=pack("I".join(["3i"] * 6) + "Ii", *interleaved(windows, out.numel, divisor)),
            grid=fold_grid(ceil_div(out.numel, WORKGROUP_SIZE)),
            types=(("FLOAT", float_type(args, x, out)),),
            overrides=(("COUNT_PADDING", int(counted)), ("MAXIMUM", int(dilated))),
        )
    ]


def interleaved(windows: Windows, elements: int, divisor: int) -> list[int]:
    """Return the params of wgsl/pool/pool3d.wgsl: a scalar follows each vec3."""
    vectors = (windows.sizes, windows.counts, windows.kernel, windows.stride, windows.padding)
    words = [word for vector in vectors for word in (*vector, 0)]
    return [*words, *windows.dilation, elements, divisor]


def run_average(args: Args) -> Array:
    return average(
        args.array("self"),
        args.integers("kernel_size"),
        args.optional_integers("stride") or [],
        args.optional_integers("padding") or [0],
        args.flag("ceil_mode"),
        args.flag("count_include_pad"),
        args.optional_integer("divisor_override"),
    )


def run_maximum(args: Args) -> tuple[Array, Array]:
    return maximum(
        args.array("self"),
        args.integers("kernel_size"),
        args.optional_integers("stride") or [],
        args.optional_integers("padding") or [0],
        args.optional_integers("dilation") or [1],
        args.flag("ceil_mode"),
    )


register(
    "aten.avg_pool3d.default",
    AVERAGE,
    shape=lambda args: pool_shape(args, dilated=False),
    lower=lambda args: lower_pool(args, dilated=False),
    reference=run_average,
)
register(
    "aten.max_pool3d_with_indices.default",
    f"{MAXIMUM} -> tensors",
    shape=lambda args: pool_shape(args, dilated=True),
    lower=lambda args: lower_pool(args, dilated=True),
    reference=run_maximum,
)

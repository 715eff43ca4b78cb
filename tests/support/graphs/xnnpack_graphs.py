"""Small XNNPACK delegates of a single node, and their results, in NHWC."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from support.graphs.graphs import read_graph, run_once, wait
from support.write.pte_writer import write_pte
from support.write.xnnpack_writer import XnnpackWriter
from webpte.engine.graph.graph import Graph

Array = np.ndarray[Any, Any]


def graph_of(g: XnnpackWriter) -> Graph:
    """Return the graph that a delegate becomes."""
    return read_graph(write_pte(g.method(), named_data=g.named or None))


def names_of(g: XnnpackWriter) -> list[str]:
    """Return the names of the operators that a delegate becomes."""
    return [call.name for call in graph_of(g).calls]


def computed(g: XnnpackWriter, *inputs: Any) -> Any:
    """Return the outputs of a delegate on NumPy; the only one itself."""
    found = tuple(np.asarray(out) for out in wait(run_once(g.method(), *inputs)))
    return found[0] if len(found) == 1 else found


def unary(
    kind: str, dims: Sequence[int], out: Sequence[int] | None = None, **options: Any
) -> XnnpackWriter:
    """Write a node with an input and an output; `types` are theirs."""
    first, last = options.pop("types", ("fp32", "fp32"))
    g = XnnpackWriter()
    x = g.value(dims, first, argument=0)
    g.node(kind, x, g.value(dims if out is None else out, last, argument=1, output=True), **options)
    return g


def binary(kind: str, a: Sequence[int], b: Sequence[int], **options: Any) -> XnnpackWriter:
    """Write a node with two inputs that broadcast, or with an output of the dims `out`."""
    out = options.pop("out", None)
    g = XnnpackWriter()
    x, y = g.value(a, argument=0), g.value(b, argument=1)
    dims = np.broadcast_shapes(tuple(a), tuple(b)) if out is None else out
    g.node(kind, x, y, g.value(dims, argument=2, output=True), **options)
    return g


def window(x: Array, sides: Sequence[int], filler: float = 0.0) -> Array:
    """Pad an NHWC image at the top, right, bottom and left."""
    top, right, bottom, left = sides
    pads = ((0, 0), (top, bottom), (left, right), (0, 0))
    return np.pad(x, pads, constant_values=filler)


def convolved(
    x: Array,
    w: Array,
    *,
    sides: Sequence[int] = (0, 0, 0, 0),
    stride: Sequence[int] = (1, 1),
    dilation: Sequence[int] = (1, 1),
    groups: int = 1,
) -> Array:
    """Convolve NHWC images with weights [out, height, width, in of a group]."""
    padded = window(x.astype(np.float64), sides)
    outs, height, width, inner = w.shape
    rows = (padded.shape[1] - (height - 1) * dilation[0] - 1) // stride[0] + 1
    columns = (padded.shape[2] - (width - 1) * dilation[1] - 1) // stride[1] + 1
    out = np.zeros((len(x), rows, columns, outs))
    each = outs // groups
    for channel in range(outs):
        first = channel // each * inner
        for i in range(rows):
            for j in range(columns):
                top, left = i * stride[0], j * stride[1]
                part = padded[
                    :,
                    top : top + (height - 1) * dilation[0] + 1 : dilation[0],
                    left : left + (width - 1) * dilation[1] + 1 : dilation[1],
                    first : first + inner,
                ]
                out[:, i, j, channel] = (part * w[channel]).sum((1, 2, 3))
    return out


def deconvolved(
    x: Array,
    w: Array,
    *,
    padding: int = 0,
    stride: Sequence[int] = (1, 1),
    dilation: Sequence[int] = (1, 1),
    adjustment: Sequence[int] = (0, 0),
    groups: int = 1,
) -> Array:
    """Convolve transposed; weights are [out, height, width, in of a group], as in the file."""
    outs, height, width, inner = w.shape
    each = outs // groups
    size = [
        (x.shape[1 + k] - 1) * stride[k] + (w.shape[1 + k] - 1) * dilation[k] + 1 + adjustment[k]
        for k in range(2)
    ]
    out = np.zeros((len(x), *size, outs))
    for channel in range(outs):
        first = channel // each * inner
        for i in range(x.shape[1]):
            for j in range(x.shape[2]):
                for a in range(height):
                    for b in range(width):
                        row, column = (
                            i * stride[0] + a * dilation[0],
                            j * stride[1] + b * dilation[1],
                        )
                        taps = x[:, i, j, first : first + inner] * w[channel, a, b]
                        out[:, row, column, channel] += taps.sum(1)
    return out[:, padding : size[0] - padding, padding : size[1] - padding]

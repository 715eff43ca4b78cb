"""Checks of an XNNPACK graph before it is lowered: XNNPACK itself refuses these graphs, too."""

from __future__ import annotations

import math

from webpte.engine.format.xnnpack import (
    PerBlockQuant,
    PerChannelQuant,
    PerRowQuant,
    PerTensorQuant,
    XnnDataType,
    XnnGraph,
    XnnNode,
    XnnTensor,
)
from webpte.errors import GraphError

# Kinds of quantization by the types that need them; other types are not quantized.
QUANTIZATIONS = {
    XnnDataType.QINT8: PerTensorQuant,
    XnnDataType.QUINT8: PerTensorQuant,
    XnnDataType.QINT32: PerTensorQuant,
    XnnDataType.QCINT8: PerChannelQuant,
    XnnDataType.QCINT4: PerChannelQuant,
    XnnDataType.QCINT32: PerChannelQuant,
    XnnDataType.QDINT8: PerRowQuant,
    XnnDataType.QPINT8: PerRowQuant,
    XnnDataType.QBINT4: PerBlockQuant,
}

# Flags that change results, by kind of node; the lowering reads them.
TRANSPOSE_WEIGHTS, ALIGN_CORNERS, KEEP_DIMS = 1, 8, 0x40
DEPTHWISE = 1
FLAGS = {
    "FullyConnected": TRANSPOSE_WEIGHTS,
    "BatchMatrixMultiply": TRANSPOSE_WEIGHTS,
    "DepthwiseConv2d": DEPTHWISE,
    "StaticResizeBilinear2D": ALIGN_CORNERS,
}
# Flags about speed, and KEEP_DIMS, which the dims of the output state as well.
IDLE_FLAGS = 0x10 | 0x20 | KEEP_DIMS | 0x1000 | 0x2000


def check_graph(graph: XnnGraph) -> None:
    places = list[int]()
    for value in graph.values:
        try:
            check_value(value)
        except GraphError as error:
            raise GraphError(f"value {value.id}: {error}") from error
        if value.is_input or value.is_output:
            places.append(-1 if value.external is None else value.external)
    if len(set(places)) < len(places):
        raise GraphError(f"two values are the same argument of the delegate: {sorted(places)}")
    for number, node in enumerate(graph.nodes):
        try:
            check_node(node)
        except GraphError as error:
            raise GraphError(f"node {number} ({node.kind}): {error}") from error


def check_value(value: XnnTensor) -> None:
    wanted = QUANTIZATIONS.get(value.datatype)
    found = None if value.quantization is None else type(value.quantization)
    if found is not wanted:
        kind = "no quantization" if found is None else f"the quantization {found.__name__}"
        raise GraphError(f"{value.datatype.name} with {kind}")
    if value.constant is not None and (value.is_input or value.is_output):
        raise GraphError("a constant that is an argument of the delegate")
    if value.is_input and value.is_output:
        raise GraphError("an input that is an output as well")
    if value.quantizes_input and not (value.is_input and found is None):
        raise GraphError("only inputs of floats are quantized in each run")


def check_node(node: XnnNode) -> None:
    flags = node.integers["flags"] & ~(FLAGS.get(node.kind, 0) | IDLE_FLAGS)
    if flags:
        raise GraphError(f"flags {flags:#x} are not supported")
    if node.clamp is None:
        return
    least, most = node.clamp
    if not least <= most or least == math.inf or most == -math.inf:  # NaN, too
        raise GraphError(f"results cannot be between {least} and {most}")

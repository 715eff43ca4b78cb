"""An ONNX graph as a PyTorch module, with the operators that the recipes need.

Three things are put more simply on the way, since the exporter knows the simple form: GELU that is
spelled out with erf, a bias that is added after a convolution, and nodes that do nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own habit
from torch import Tensor, nn

from webpte_models.networks.onnx_file import Graph, Node, read_onnx

Operator = Callable[[Sequence[Tensor], dict[str, Any]], Tensor]


class OnnxNetwork(nn.Module):
    """One output: the graph's first."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        graph = with_biases(with_gelu(without_identities(read_onnx(path))))
        unknown = sorted({node.op for node in graph.nodes} - set(_OPERATORS))
        if unknown:
            raise ValueError(f"{path.name} has operators with no row here: {', '.join(unknown)}")
        self._nodes = graph.nodes
        self._inputs, self._output = graph.inputs, graph.outputs[0]
        used = {name for node in graph.nodes for name in node.inputs}
        self._constants = {name: f"c{n}" for n, name in enumerate(graph.constants) if name in used}
        for name, attribute in self._constants.items():
            self.register_buffer(attribute, torch.from_numpy(graph.constants[name].copy()))

    def forward(self, *inputs: Tensor) -> Tensor:
        values = dict(zip(self._inputs, inputs, strict=True))
        values |= {name: getattr(self, place) for name, place in self._constants.items()}
        for node in self._nodes:
            arguments = [values[name] for name in node.inputs]
            values[node.outputs[0]] = _OPERATORS[node.op](arguments, node.attributes)
        return values[self._output]


def without_identities(graph: Graph) -> Graph:
    """What they pass on is read where it comes from."""
    names: dict[str, str] = {}
    nodes = []
    for node in graph.nodes:
        inputs = tuple(names.get(name, name) for name in node.inputs)
        if node.op == "Identity":
            names[node.outputs[0]] = inputs[0]
        else:
            nodes.append(replace(node, inputs=inputs))
    return replace(graph, nodes=nodes, outputs=[names.get(name, name) for name in graph.outputs])


def with_gelu(graph: Graph) -> Graph:
    """x * (erf(x / sqrt 2) + 1) * 0.5, five nodes in this order, as one."""
    readers = _readers(graph)
    makers = {node.outputs[0]: node for node in graph.nodes}
    dropped: set[str] = set()  # by what a node makes
    gelus: dict[str, Node] = {}
    for erf in (node for node in graph.nodes if node.op == "Erf"):
        scaled = makers[erf.inputs[0]]
        source = scaled.inputs[0]
        plus_one = _only(readers, erf)
        times_x = _only(readers, plus_one)
        halved = _only(readers, times_x)
        constants = [
            _other(graph, *pair) for pair in ((scaled, source), (plus_one, erf.outputs[0]))
        ]
        constants.append(_other(graph, halved, times_x.outputs[0]))
        ops = [scaled.op, plus_one.op, times_x.op, halved.op]
        if ops != ["Div", "Add", "Mul", "Mul"] or source not in times_x.inputs:
            raise ValueError(f"an Erf that is not GELU's: {erf.inputs[0]}")
        if not np.allclose(constants, [2**0.5, 1.0, 0.5]):
            raise ValueError(f"an Erf with other constants than GELU's: {constants}")
        dropped |= {node.outputs[0] for node in (scaled, erf, plus_one, times_x, halved)}
        gelus[halved.outputs[0]] = Node("Gelu", (source,), halved.outputs, {})
    nodes = []
    for node in graph.nodes:
        made = node.outputs[0]
        if made in gelus:
            nodes.append(gelus[made])
        elif made not in dropped:
            nodes.append(node)
    return replace(graph, nodes=nodes)


def with_biases(graph: Graph) -> Graph:
    """A constant of one value per channel, added to a convolution, is its bias."""
    readers = _readers(graph)
    constants = dict(graph.constants)
    joined: dict[str, Node] = {}
    dropped: set[str] = set()
    for conv in (node for node in graph.nodes if node.op == "Conv" and len(node.inputs) == 2):
        following = readers.get(conv.outputs[0], [])
        if len(following) != 1 or following[0].op != "Add":
            continue
        names = [name for name in following[0].inputs if name in constants]
        channels = constants[conv.inputs[1]].shape[0] if conv.inputs[1] in constants else -1
        if len(names) != 1 or constants[names[0]].size != channels:
            continue
        bias = f"{names[0]}.bias"
        constants[bias] = constants[names[0]].reshape(-1)
        dropped.add(conv.outputs[0])
        made = following[0].outputs
        joined[made[0]] = replace(conv, inputs=(*conv.inputs, bias), outputs=made)
    nodes = [
        joined.get(node.outputs[0], node) for node in graph.nodes if node.outputs[0] not in dropped
    ]
    return replace(graph, nodes=nodes, constants=constants)


def _readers(graph: Graph) -> dict[str, list[Node]]:
    found: dict[str, list[Node]] = {}
    for node in graph.nodes:
        for name in node.inputs:
            found.setdefault(name, []).append(node)
    return found


def _only(readers: dict[str, list[Node]], node: Node) -> Node:
    (reader,) = readers[node.outputs[0]]
    return reader


def _other(graph: Graph, node: Node, known: str) -> float:
    """The constant of an operator with two inputs, one of which is `known`."""
    (name,) = (name for name in node.inputs if name != known)
    return float(graph.constants[name].reshape(-1)[0])


def _conv(x: Sequence[Tensor], attributes: dict[str, Any]) -> Tensor:
    spatial = x[0].dim() - 2
    pads = attributes.get("pads", [0] * 2 * spatial)
    if pads[:spatial] != pads[spatial:]:
        raise ValueError(f"a convolution with uneven padding: {pads}")
    function = (F.conv1d, F.conv2d)[spatial - 1]
    bias = x[2] if len(x) > 2 else None
    strides, dilations = attributes["strides"], attributes["dilations"]
    return function(x[0], x[1], bias, strides, pads[:spatial], dilations, attributes["group"])


def _average_pool(x: Sequence[Tensor], attributes: dict[str, Any]) -> Tensor:
    if any(attributes["pads"]) or attributes["ceil_mode"]:
        raise ValueError("a pool with padding or with sizes rounded up")
    return F.avg_pool2d(x[0], attributes["kernel_shape"], attributes["strides"])


def _hard_sigmoid(x: Sequence[Tensor], attributes: dict[str, Any]) -> Tensor:
    if not np.allclose([attributes["alpha"], attributes["beta"]], [1 / 6, 0.5]):
        raise ValueError(f"a HardSigmoid of another slope than PyTorch's: {attributes}")
    return F.hardsigmoid(x[0])


def _squeeze(x: Sequence[Tensor], attributes: dict[str, Any]) -> Tensor:
    (axis,) = attributes["axes"]
    return x[0].squeeze(axis)


def _unsqueeze(x: Sequence[Tensor], attributes: dict[str, Any]) -> Tensor:
    (axis,) = attributes["axes"]
    return x[0].unsqueeze(axis)


_OPERATORS: dict[str, Operator] = {
    "Add": lambda x, _: x[0] + x[1],
    "AveragePool": _average_pool,
    "BatchNormalization": lambda x, a: F.batch_norm(
        x[0], x[3], x[4], x[1], x[2], False, 0.0, a["epsilon"]
    ),
    "Conv": _conv,
    "Gelu": lambda x, _: F.gelu(x[0]),
    "HardSigmoid": _hard_sigmoid,
    "MatMul": lambda x, _: torch.matmul(x[0], x[1]),
    "Mul": lambda x, _: x[0] * x[1],
    "ReduceMean": lambda x, a: x[0].mean(a["axes"], keepdim=bool(a["keepdims"])),
    "Relu": lambda x, _: F.relu(x[0]),
    "Softmax": lambda x, a: F.softmax(x[0], a["axis"]),
    "Squeeze": _squeeze,
    "Transpose": lambda x, a: x[0].permute(a["perm"]),
    "Unsqueeze": _unsqueeze,
}

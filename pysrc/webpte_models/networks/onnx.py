"""An ONNX graph as a PyTorch module, with the operators that the recipes need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own habit
from torch import Tensor, nn

from webpte_models.networks.onnx_file import read_onnx
from webpte_models.networks.onnx_rewrites import simplified

Operator = Callable[[Sequence[Tensor], dict[str, Any]], Tensor]


class OnnxNetwork(nn.Module):
    """A network of one input and one output."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        graph = simplified(read_onnx(path))
        unknown = sorted({node.op for node in graph.nodes} - set(_OPERATORS))
        if unknown:
            raise ValueError(f"{path.name} has unsupported operators: {', '.join(unknown)}")
        self._nodes = graph.nodes
        (self._input,), (self._output,) = graph.inputs, graph.outputs
        used = {name for node in graph.nodes for name in node.inputs}
        self._constants = {name: f"c{n}" for n, name in enumerate(graph.constants) if name in used}
        for name, attribute in self._constants.items():
            self.register_buffer(attribute, torch.from_numpy(graph.constants[name].copy()))

    def forward(self, x: Tensor) -> Tensor:
        values = {self._input: x}
        values |= {name: getattr(self, place) for name, place in self._constants.items()}
        for node in self._nodes:
            arguments = [values[name] for name in node.inputs]
            values[node.outputs[0]] = _OPERATORS[node.op](arguments, node.attributes)
        return values[self._output]


def _conv(x: Sequence[Tensor], attributes: dict[str, Any]) -> Tensor:
    spatial = x[0].dim() - 2
    pads = attributes.get("pads", [0] * 2 * spatial)
    if pads[:spatial] != pads[spatial:]:
        raise ValueError(f"a convolution has uneven padding: {pads}")
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

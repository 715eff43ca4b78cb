"""An ONNX graph as a PyTorch module, with the operators that the recipes need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own habit
from torch import Tensor, nn

from webpte_export.networks.onnx_file import read_onnx
from webpte_export.networks.onnx_rewrites import simplified
from webpte_export.networks.onnx_shapes import SHAPE_OPERATORS

Operator = Callable[[Sequence[Tensor], dict[str, Any]], Tensor]


class OnnxNetwork(nn.Module):
    """A network with a single input, and a single output or the named outputs.

    outputs   the names of the outputs of `forward`, which then is a tuple
    """

    def __init__(self, path: Path, outputs: Sequence[str] = ()) -> None:
        super().__init__()
        graph = simplified(read_onnx(path))
        known = {*_OPERATORS, *SHAPE_OPERATORS}
        unknown = sorted({node.op for node in graph.nodes} - known)
        if unknown:
            raise ValueError(f"{path.name} has unsupported operators: {', '.join(unknown)}")
        self._nodes = graph.nodes
        (self._input,) = graph.inputs
        missing = sorted(set(outputs) - set(graph.outputs))
        if missing or not (outputs or len(graph.outputs) == 1):
            raise ValueError(f"{path.name} has the outputs {', '.join(graph.outputs)}")
        self._outputs = tuple(outputs or graph.outputs)
        self._many = bool(outputs)
        # Shapes and scales are not tensors of the network.
        self._numbers = {
            name: graph.constants[name].reshape(-1).tolist()
            for node in graph.nodes
            if node.op in SHAPE_OPERATORS
            for at, name in enumerate(node.inputs)
            if name in graph.constants and (at > 0 or graph.constants[name].dtype.kind == "i")
        }
        used = {name for node in graph.nodes for name in node.inputs} - self._numbers.keys()
        self._constants = {name: f"c{n}" for n, name in enumerate(graph.constants) if name in used}
        for name, attribute in self._constants.items():
            self.register_buffer(attribute, torch.from_numpy(graph.constants[name].copy()))

    def forward(self, x: Tensor) -> Tensor | tuple[Tensor, ...]:
        values: dict[str, Any] = {self._input: x}
        values |= {name: getattr(self, place) for name, place in self._constants.items()}
        for node in self._nodes:
            if node.op in SHAPE_OPERATORS:
                known = [self._numbers.get(name, values.get(name)) for name in node.inputs]
                found = SHAPE_OPERATORS[node.op](known, node.attributes)
            else:
                arguments = [values[name] for name in node.inputs]
                found = _OPERATORS[node.op](arguments, node.attributes)
            values[node.outputs[0]] = found
        results: tuple[Tensor, ...] = tuple(values[name] for name in self._outputs)
        return results if self._many else results[0]


def _conv(x: Sequence[Tensor], attributes: dict[str, Any]) -> Tensor:
    spatial = x[0].dim() - 2
    pads = attributes.get("pads", [0] * 2 * spatial)
    if attributes.get("auto_pad", "NOTSET") == "SAME_UPPER":
        return _conv([_padded_after(x[0], attributes), *x[1:]], {**attributes, "auto_pad": ""})
    if pads[:spatial] != pads[spatial:]:
        raise ValueError(f"a convolution has uneven padding: {pads}")
    function = (F.conv1d, F.conv2d)[spatial - 1]
    bias = x[2] if len(x) > 2 else None
    strides, dilations = attributes["strides"], attributes["dilations"]
    return function(x[0], x[1], bias, strides, pads[:spatial], dilations, attributes["group"])


def _padded_after(x: Tensor, attributes: dict[str, Any]) -> Tensor:
    """Return a picture with an additional row and column of zeros, for an even kernel of 2."""
    if attributes["kernel_shape"] != [2, 2] or attributes["strides"] != [1, 1]:
        raise ValueError(f"padding to the same size of another kernel than 2 by 2: {attributes}")
    return F.pad(x, (0, 1, 0, 1))


def _max_pool(x: Sequence[Tensor], attributes: dict[str, Any]) -> Tensor:
    given = x[0]
    if attributes.get("auto_pad", "NOTSET") == "SAME_UPPER":
        given = _padded_after(given, attributes)  # zeros: the values before it are positive
    elif any(attributes.get("pads", ())) or attributes["ceil_mode"]:
        raise ValueError("a pool with padding or with sizes rounded up")
    return F.max_pool2d(given, attributes["kernel_shape"], attributes["strides"])


def _conv_transpose(x: Sequence[Tensor], attributes: dict[str, Any]) -> Tensor:
    bias = x[2] if len(x) > 2 else None
    strides, dilations = attributes["strides"], attributes["dilations"]
    if any(attributes["pads"]) or attributes.get("output_padding"):
        raise ValueError("a transposed convolution with padding")
    return F.conv_transpose2d(
        x[0], x[1], bias, strides, groups=attributes["group"], dilation=dilations
    )


def _average_pool(x: Sequence[Tensor], attributes: dict[str, Any]) -> Tensor:
    if any(attributes["pads"]) or attributes["ceil_mode"]:
        raise ValueError("a pool with padding or with sizes rounded up")
    return F.avg_pool2d(x[0], attributes["kernel_shape"], attributes["strides"])


def _hard_sigmoid(x: Sequence[Tensor], attributes: dict[str, Any]) -> Tensor:
    if not np.allclose([attributes["alpha"], attributes["beta"]], [1 / 6, 0.5]):
        return (x[0] * attributes["alpha"] + attributes["beta"]).clamp(0.0, 1.0)
    return F.hardsigmoid(x[0])


_OPERATORS: dict[str, Operator] = {
    "Add": lambda x, _: x[0] + x[1],
    "AveragePool": _average_pool,
    "BatchNormalization": lambda x, a: F.batch_norm(
        x[0], x[3], x[4], x[1], x[2], False, 0.0, a["epsilon"]
    ),
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "Div": lambda x, _: x[0] / x[1],
    "Equal": lambda x, _: x[0] == x[1],
    "Gelu": lambda x, _: F.gelu(x[0]),
    "GlobalAveragePool": lambda x, _: x[0].mean((2, 3), keepdim=True),
    "HardSigmoid": _hard_sigmoid,
    "LayerNorm": lambda x, a: F.layer_norm(x[0], x[1].shape, x[1], x[2], a["epsilon"]),
    "Log": lambda x, _: torch.log(x[0]),
    "MatMul": lambda x, _: torch.matmul(x[0], x[1]),
    "MaxPool": _max_pool,
    "Mul": lambda x, _: x[0] * x[1],
    "Neg": lambda x, _: -x[0],
    "ReduceMean": lambda x, a: x[0].mean(a["axes"], keepdim=bool(a.get("keepdims", 1))),
    "Relu": lambda x, _: F.relu(x[0]),
    "Sigmoid": lambda x, _: torch.sigmoid(x[0]),
    "Softmax": lambda x, a: F.softmax(x[0], a["axis"]),
    "Sqrt": lambda x, _: torch.sqrt(x[0]),
    "Sub": lambda x, _: x[0] - x[1],
    "Transpose": lambda x, a: x[0].permute(a["perm"]),
    "Where": lambda x, _: torch.where(x[0], x[1], x[2]),
}

"""Reads a float TFLite model as a PyTorch module, with the operators that the recipes need.

TFLite's pictures are (1, height, width, channels). Here they are (1, channels, height, width), as
in PyTorch and the GPU's kernels, also for the input and outputs.

The file is a FlatBuffer; numbers of slots, operators and enumerations come from its schema.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own habit
from torch import Tensor, nn

from webpte.engine.format.flat import I32, FlatBuffer, FlatTable

Array = np.ndarray[Any, np.dtype[Any]]

_DTYPES = {0: "<f4", 1: "<f2", 2: "<i4"}
_NAMES = {
    0: "add",
    1: "average_pool",
    2: "concatenation",
    3: "conv",
    4: "depthwise_conv",
    6: "dequantize",
    14: "sigmoid",
    17: "max_pool",
    18: "mul",
    19: "relu",
    22: "reshape",
    23: "resize_bilinear",
    34: "pad",
    117: "hard_swish",
}
_CUSTOM = 32
_CUSTOM_NAMES = {"Convolution2DTransposeBias": "transposed_conv"}
_ACTIVATIONS: dict[int, Callable[[Tensor], Tensor]] = {0: lambda x: x, 1: F.relu, 3: F.relu6}
_TO_NCHW = (0, 3, 1, 2)
_AXES = {0: 0, 1: 2, 2: 3, 3: 1, -1: 1}  # from (1, height, width, channels) to PyTorch's


@dataclass(frozen=True)
class _Operator:
    name: str
    inputs: tuple[int, ...]
    output: int
    options: FlatTable | None
    custom: bytes


class TfliteNetwork(nn.Module):
    """A network with a single input; its outputs are a tuple."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        model = FlatBuffer(path.read_bytes()).root("Model")
        (graph,) = model.tables(2, "subgraphs")
        buffers = [table.octets(0, "data") for table in model.tables(4, "buffers")]
        tensors = list(graph.tables(0, "tensors"))
        self._shapes = [tensor.integers(0, "shape", I32) for tensor in tensors]
        self._constants: dict[int, Array] = {}
        for index, tensor in enumerate(tensors):
            data = buffers[tensor.u32(2, "buffer")]
            if data:
                array = np.frombuffer(data, _DTYPES[tensor.i8(1, "type")])
                self._constants[index] = array.reshape(self._shapes[index])
        (self._input,) = graph.integers(1, "inputs", I32)
        self._outputs = graph.integers(2, "outputs", I32)
        self._calls: list[_Operator] = []
        for call in _calls(model, graph):
            if call.name == "dequantize":  # weights stored as f16
                self._constants[call.output] = self._constants[call.inputs[0]].astype(np.float32)
            else:
                self._calls.append(call)
                self._keep_weights(call)

    def _keep_weights(self, call: _Operator) -> None:
        """Register the weights in PyTorch's order of dims."""
        for place, index in enumerate(call.inputs):
            array = self._constants.get(index)
            if array is None or array.dtype.kind != "f":
                continue
            if array.ndim == 4:
                # A depthwise kernel is (1, height, width, channels): its channels are outputs.
                depthwise = call.name in ("depthwise_conv", "transposed_conv") and place == 1
                array = array.transpose((3, 0, 1, 2) if depthwise else _TO_NCHW)
            elif array.ndim == 1 and call.name in ("add", "mul"):
                array = array.reshape(-1, 1, 1)
            if not hasattr(self, f"w{index}"):
                values = torch.from_numpy(np.ascontiguousarray(array, np.float32))
                self.register_buffer(f"w{index}", values)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        values = {self._input: x}
        for call in self._calls:
            arguments = [
                values[index] if index in values else getattr(self, f"w{index}", None)
                for index in call.inputs
            ]
            values[call.output] = getattr(self, f"_{call.name}")(arguments, call)
        return tuple(values[index] for index in self._outputs)

    def _add(self, x: Sequence[Tensor], call: _Operator) -> Tensor:
        return _activated(x[0] + x[1], call, 0)

    def _mul(self, x: Sequence[Tensor], call: _Operator) -> Tensor:
        return _activated(x[0] * x[1], call, 0)

    def _sigmoid(self, x: Sequence[Tensor], _call: _Operator) -> Tensor:
        return torch.sigmoid(x[0])

    def _relu(self, x: Sequence[Tensor], _call: _Operator) -> Tensor:
        return F.relu(x[0])

    def _hard_swish(self, x: Sequence[Tensor], _call: _Operator) -> Tensor:
        return F.hardswish(x[0])

    def _conv(self, x: Sequence[Tensor], call: _Operator, groups: int = 1) -> Tensor:
        options = _options(call)
        factor_at = 5 if groups > 1 else 4  # depthwise convolutions have a multiplier before
        dilation = (
            options.i32(factor_at + 1, "dilation_h_factor", 1),
            options.i32(factor_at, "dilation_w_factor", 1),
        )
        if dilation != (1, 1):
            raise ValueError(f"a convolution with dilation {dilation}")
        strides, kernel = _strides(options), tuple(x[1].shape[2:])
        padded, padding = _padded(x[0], options, kernel, strides)
        made = F.conv2d(padded, x[1], x[2], strides, padding, groups=groups)
        return _activated(made, call, factor_at - 1)

    def _depthwise_conv(self, x: Sequence[Tensor], call: _Operator) -> Tensor:
        return self._conv(x, call, groups=x[0].shape[1])

    def _transposed_conv(self, x: Sequence[Tensor], call: _Operator) -> Tensor:
        _padding, stride_w, stride_h = struct.unpack("<3i", call.custom[:12])
        if tuple(x[1].shape[2:]) != (stride_h, stride_w):
            raise ValueError("a transposed convolution whose kernel overlaps itself")
        return F.conv_transpose2d(x[0], x[1], x[2], (stride_h, stride_w))

    def _max_pool(self, x: Sequence[Tensor], call: _Operator) -> Tensor:
        options = _options(call)
        kernel, strides = _kernel(options), _strides(options)
        padded, padding = _padded(x[0], options, kernel, strides)
        if any(padding) or padded is not x[0]:
            raise ValueError("a pool with padding")
        return _activated(F.max_pool2d(padded, kernel, strides), call, 5)

    def _average_pool(self, x: Sequence[Tensor], call: _Operator) -> Tensor:
        if _kernel(_options(call)) != tuple(x[0].shape[2:]):
            raise ValueError("an average over less than the whole picture")
        return _activated(x[0].mean((2, 3), keepdim=True), call, 5)

    def _pad(self, x: Sequence[Tensor], call: _Operator) -> Tensor:
        _batch, height, width, channels = self._constants[call.inputs[1]].tolist()
        return F.pad(x[0], [*width, *height, *channels])

    def _resize_bilinear(self, x: Sequence[Tensor], call: _Operator) -> Tensor:
        options = _options(call)
        corners, centres = options.boolean(2, "align_corners"), options.boolean(3, "half_pixel")
        if not corners and not centres:
            raise ValueError("a resize from the corner of pixels, which PyTorch does not have")
        size = self._constants[call.inputs[1]].tolist()
        return F.interpolate(x[0], size=size, mode="bilinear", align_corners=corners)

    def _reshape(self, x: Sequence[Tensor], call: _Operator) -> Tensor:
        last = x[0].permute(0, 2, 3, 1) if x[0].dim() == 4 else x[0]
        made = last.reshape(self._shapes[call.output])
        return made.permute(_TO_NCHW) if made.dim() == 4 else made

    def _concatenation(self, x: Sequence[Tensor], call: _Operator) -> Tensor:
        axis = _options(call).i32(0, "axis")
        return torch.cat(list(x), _AXES[axis] if x[0].dim() == 4 else axis)


def _calls(model: FlatTable, graph: FlatTable) -> list[_Operator]:
    codes = [
        (max(code.i8(0, "deprecated"), code.i32(3, "builtin_code")), code.text(1, "custom_code"))
        for code in model.tables(1, "operator_codes")
    ]
    found = []
    for operator in graph.tables(3, "operators"):
        number, custom = codes[operator.u32(0, "opcode_index")]
        name = _CUSTOM_NAMES.get(custom) if number == _CUSTOM else _NAMES.get(number)
        if name is None:
            raise ValueError(f"operator {number} {custom} is not supported")
        (output,) = operator.integers(2, "outputs", I32)
        inputs = operator.integers(1, "inputs", I32)
        options = operator.table(4, "builtin_options")
        found.append(_Operator(name, inputs, output, options, operator.octets(5, "custom_options")))
    return found


def _options(call: _Operator) -> FlatTable:
    if call.options is None:
        raise ValueError(f"{call.name} without its options")
    return call.options


def _activated(x: Tensor, call: _Operator, slot: int) -> Tensor:
    """Apply the activation that an operator's options name."""
    number = call.options.i8(slot, "fused_activation_function") if call.options else 0
    return _ACTIVATIONS[number](x)


def _strides(options: FlatTable) -> tuple[int, int]:
    return options.i32(2, "stride_h"), options.i32(1, "stride_w")


def _kernel(options: FlatTable) -> tuple[int, int]:
    return options.i32(4, "filter_height"), options.i32(3, "filter_width")


def _padded(
    x: Tensor, options: FlatTable, kernel: Sequence[int], strides: Sequence[int]
) -> tuple[Tensor, tuple[int, int]]:
    """Return the input and the padding for PyTorch; uneven padding is added here."""
    if options.i8(0, "padding") == 1:  # VALID
        return x, (0, 0)
    sides = []
    for size, width, step in zip(x.shape[2:], kernel, strides, strict=True):
        total = max((-(-size // step) - 1) * step + width - size, 0)
        sides.append((total // 2, total - total // 2))
    (top, bottom), (left, right) = sides
    if top == bottom and left == right:
        return x, (top, left)
    return F.pad(x, (left, right, top, bottom)), (0, 0)

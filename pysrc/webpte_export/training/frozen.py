"""Linear layers that are not trained, in each quantization, with the gradient of their input."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from webpte_export.errors import ExportError
from webpte_export.quantize import GROUP_SIZE


def frozen_layer(linear: Any) -> FloatLayer | GroupLayer:
    """Wrap a layer of floats, or a layer that `webpte_export.quantize` quantized."""
    if hasattr(linear, "scales"):
        return RowLayer(linear)
    if not hasattr(linear, "parametrizations"):
        return FloatLayer(linear)
    weight = linear.weight
    if getattr(weight, "activation_quantization", None) is not None:
        raise ExportError("8da4w cannot be trained on: choose 8w, 4w or none.")
    return GroupLayer(weight.qdata, weight.scale, linear.bias)


class FloatLayer(nn.Module):
    """x Wᵀ + bias"""

    def __init__(self, linear: Any) -> None:
        super().__init__()
        self.linear = linear

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.linear(x)
        return y

    def backward(self, dy: Tensor) -> Tensor:
        return torch.mm(dy, self.weights())

    def weights(self) -> Tensor:
        """Return the weights in floats, (outputs, inputs)."""
        found: Tensor = self.linear.weight
        return found


class RowLayer(FloatLayer):
    """A layer of 8-bit weights with a scale for each row.

    Its backward pass has no operator, so the weights become floats for it, a layer at a time.
    """

    def weights(self) -> Tensor:
        own = self.linear
        found: Tensor = torch.ops.quantized_decomposed.dequantize_per_channel(
            own.weight, own.scales, own.zeros, 0, -127, 127, torch.int8
        )
        return found


class GroupLayer(nn.Module):
    """A layer of 4-bit weights with a scale for each group, in the partitioner's packing.

    So this method and `forward` share the weights in the file.
    """

    def __init__(self, numbers: Tensor, scales: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        from executorch.backends.vulkan.patterns.weight_packing_utils import (
            pack_4bit_weight_tensor,
        )

        self.register_buffer("weight", pack_4bit_weight_tensor(numbers))
        self.register_buffer("scale", scales.transpose(0, 1).contiguous())
        self.bias = bias

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = torch.ops.et_vk.linear_q4gsw(x, self.weight, self.scale, GROUP_SIZE, self.bias)
        return y

    def backward(self, dy: Tensor) -> Tensor:
        dx: Tensor = torch.ops.et_vk.linear_q4gsw_backward(dy, self.weight, self.scale, GROUP_SIZE)
        return dx

"""Quantizes weights, in the forms that the Vulkan partitioner turns into a single kernel per layer.

    4w      linear layers: 4 bits in groups of 32, scales per group
    8w      linear layers: 8 bits, a scale per row
    8da4w   like 4w, and activations dynamically quantized to 8 bits per row

Weights of 4 bits are rounded to nearest, with the scale of the least error, unless a calibration
has rounded them (`gptq.py`).

Layers whose width does not fit (a multiple of 4; of the group's size for 4 bits) are left alone,
and so are layers whose weights other modules read, such as the last layer of `MultiheadAttention`.
Layers whose rows are not a multiple of 4 get 8 bits instead of 4.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from webpte_export.gptq import RoundedWeights

QUANTIZATIONS = ("4w", "8w", "8da4w")
GROUP_SIZE = 32
_WIDTH_STEP = 4  # the kernels' rows are words of four values
_ROW_STEP = 4  # in groups


def quantize_weights(
    model: Any,
    how: str,
    rounded: Mapping[str, RoundedWeights] | None = None,
    apart: Collection[str] = (),
) -> int:
    """Quantize linear layers in place; return the number of layers.

    rounded  weights of 4-bit layers from a calibration, by the names of the layers
    apart    names of layers to leave alone: see `webpte_export.weight_readers`
    """
    if how == "8w":
        return _quantize_rows(model, apart)
    return _quantize_groups(model, how, rounded or {}, apart)


def _quantize_groups(
    model: Any, how: str, rounded: Mapping[str, RoundedWeights], apart: Collection[str]
) -> int:
    from torchao.utils import unwrap_tensor_subclass

    layers = grouped_layers(model, apart)
    for name, layer in layers.items():
        _set_groups(layer, how, rounded.get(name))
    unwrap_tensor_subclass(model)
    # The exporter pads the scales of such layers, but not their weights, and then fails.
    fitting = _linear_layers(model, GROUP_SIZE, apart)
    odd = [name for name, layer in fitting.items() if layer.out_features % _ROW_STEP]
    for name in odd:
        use_8_bits(model, name)
    return len(layers) + len(odd)


def use_8_bits(model: Any, name: str) -> None:
    """Replace a linear layer by a layer with 8-bit weights, in place."""
    owner, _, last = name.rpartition(".")
    setattr(model.get_submodule(owner), last, row_quantized(model.get_submodule(name)))


def grouped_layers(model: Any, apart: Collection[str] = ()) -> dict[str, Any]:
    """Return the linear layers that fit groups of 4 bits, by name."""
    layers = _linear_layers(model, GROUP_SIZE, apart)
    return {name: it for name, it in layers.items() if it.out_features % _ROW_STEP == 0}


def _linear_layers(model: Any, step: int, apart: Collection[str]) -> dict[str, Any]:
    """Return the linear layers whose width is a multiple of `step`, by name, each once.

    A layer counts only if no other module uses its weights, and it computes like a linear layer.
    """
    from torch.nn import Linear, MultiheadAttention

    read = {
        id(inner)
        for module in model.modules()
        if isinstance(module, MultiheadAttention)
        for inner in module.modules()
    }
    return {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, Linear)
        and type(module).forward is Linear.forward
        and module.in_features % step == 0
        and id(module) not in read
        and name not in apart
    }


def _set_groups(layer: Any, how: str, found: RoundedWeights | None) -> None:
    """Give a linear layer torchao's weights in groups, with the calibrated numbers."""
    from torchao.quantization import quantize_

    from webpte_export.gptq import round_to_nearest

    found = found or round_to_nearest(layer.weight, GROUP_SIZE)
    quantize_(layer, _groups_of(how))
    # torchao takes the scale from a group's largest weight, which costs small models much.
    layer.weight.qdata, layer.weight.scale = found.numbers, found.scales


def _groups_of(how: str) -> Any:
    """Return torchao's description of weights in groups of 4 bits."""
    import torch
    from torchao.quantization import Int8DynamicActivationIntxWeightConfig, IntxWeightOnlyConfig
    from torchao.quantization.granularity import PerGroup

    kind = IntxWeightOnlyConfig if how == "4w" else Int8DynamicActivationIntxWeightConfig
    return kind(torch.int4, PerGroup(GROUP_SIZE))


@contextmanager
def rounded_to_nearest(model: Any, how: str) -> Iterator[None]:
    """Let linear layers compute as `quantize_weights` would make them, inside the context."""
    import torch

    def compute(layer: Any, given: Any, _result: Any) -> Any:
        other = torch.nn.Linear(*layer.weight.shape[::-1], bias=False, device="meta")
        other.weight, other.bias = torch.nn.Parameter(layer.weight, False), layer.bias
        _set_groups(other, how, None)
        return other(*given)

    hooks = [layer.register_forward_hook(compute) for layer in grouped_layers(model).values()]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _quantize_rows(model: Any, apart: Collection[str]) -> int:
    """Replace every fitting `Linear` by a layer with 8-bit weights, in place; return the number.

    The layers are webpte's: torchao's layers dequantize the whole weight in every call; the
    exporter's quantizer calibrates, which writes to KV caches, and turns scalars into tensors,
    after which its rule for rms_norm fails.
    """
    layers = _linear_layers(model, _WIDTH_STEP, apart)
    names = {id(layer): name for name, layer in layers.items()}
    made = {name: row_quantized(layer) for name, layer in layers.items()}
    for name, module in list(model.named_modules(remove_duplicate=False)):
        if id(module) in names:  # by each of its names, if it has several
            owner, _, last = name.rpartition(".")
            setattr(model.get_submodule(owner), last, made[names[id(module)]])
    return len(made)


def row_scales(weight: Any) -> Any:
    """Return the scale of each row of 8-bit weights: (rows, width) -> (rows,)."""
    return weight.abs().amax(1).clamp(min=1e-12) / 127


def row_quantized(linear: Any) -> Any:
    """Build a layer with the weights of `linear` in 8 bits, with a scale per row."""
    import torch
    from torch.ao.quantization.fx._decomposed import quantized_decomposed_lib  # noqa: F401

    class RowQuantizedLinear(torch.nn.Module):
        """(..., width) -> (..., rows)"""

        def __init__(self, weight: Any, bias: Any) -> None:
            super().__init__()
            scales = row_scales(weight)
            rounded = (weight / scales[:, None]).round().clamp(-127, 127)
            self.register_buffer("weight", rounded.to(torch.int8))
            self.register_buffer("scales", scales)
            self.register_buffer("zeros", torch.zeros_like(scales, dtype=torch.int64))
            self.bias = bias

        def forward(self, x: Any) -> Any:
            weight = torch.ops.quantized_decomposed.dequantize_per_channel(
                self.weight, self.scales, self.zeros, 0, -127, 127, torch.int8
            )
            return torch.nn.functional.linear(x, weight, self.bias)

    return RowQuantizedLinear(linear.weight.detach().float(), linear.bias)

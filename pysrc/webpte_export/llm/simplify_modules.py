"""Replaces modules of a language model by equivalent modules with fewer operators.

- RMS norms, of any class and with any weights, become the partitioner's operator;
- layer norms and GELUs that are written out become PyTorch's;
- factors that only scale a linear layer's result (of queries, of a residual) go into its weights.

A module is replaced only if the results for random inputs agree.
"""

from __future__ import annotations

import inspect
import math
from typing import Any

import torch
from torch import Tensor, nn

_EPSILONS = ("variance_epsilon", "eps", "epsilon")


class RMSNorm(nn.Module):
    """An RMS norm over the last dim, by the partitioner's operator."""

    def __init__(self, weight: Tensor, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight.detach().clone(), requires_grad=False)
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        # Heads before tokens are transposed tokens before heads: the norm comes before the
        # transposition, which is then next to its inverse, so that both can be removed.
        if x.dim() == 4 and x.stride(1) < x.stride(2):
            return self._normed(x.transpose(1, 2)).transpose(1, 2)
        return self._normed(x)

    def _normed(self, x: Tensor) -> Tensor:
        result: Tensor = torch.ops.et_vk.rms_norm(x, self.weight, self.eps)
        return result


def simplify_modules(model: Any) -> None:
    """Replace modules and fold factors, in place."""
    import executorch.backends.vulkan.custom_ops_lib  # noqa: F401

    for owner in list(model.modules()):
        for name, child in list(owner.named_children()):
            simpler = _simpler(child)
            if simpler is not None:
                setattr(owner, name, simpler)
    for module in model.modules():
        _fold_attention_scale(module)
        _fold_residual_multiplier(module)
    # LoRAs were trained for the original layers, so they need these factors, too.
    model.scaled_layers = {
        name: module.scaled_by
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and hasattr(module, "scaled_by")
    }


def _simpler(module: nn.Module) -> nn.Module | None:
    """Return an equivalent module with fewer operators, or None."""
    if type(module).__name__ in ("NewGELUActivation", "FastGELUActivation", "PytorchGELUTanh"):
        return _if_equal(module, [nn.GELU(approximate="tanh")], 8)
    weight = getattr(module, "weight", None)
    if "Norm" not in type(module).__name__ or not isinstance(weight, Tensor) or weight.dim() != 1:
        return None
    eps = next((e for n in _EPSILONS if isinstance(e := getattr(module, n, None), float)), None)
    if eps is None or isinstance(module, nn.LayerNorm | RMSNorm):
        return None
    if len(inspect.signature(module.forward).parameters) != 1 or not _uses_width(module, weight):
        return None  # such as a norm with a gate, or with an unused weight
    return _if_equal(module, _norms(weight.detach(), eps), weight.numel())


def _uses_width(module: nn.Module, weight: Tensor) -> bool:
    """Return whether a norm refuses inputs of another width than its weight."""
    try:
        with torch.no_grad():
            module(torch.zeros(1, 1, weight.numel() + 1))
    except Exception:
        return True
    return False


def _norms(weight: Tensor, eps: float) -> list[nn.Module]:
    centered = nn.LayerNorm(weight.numel(), eps=eps, bias=False)
    centered.weight = nn.Parameter(weight.clone(), requires_grad=False)
    return [RMSNorm(weight, eps), RMSNorm(1 + weight, eps), centered]


def _if_equal(module: nn.Module, others: list[nn.Module], width: int) -> nn.Module | None:
    """Return the first of `others` with the results of a module, or None."""
    generator = torch.Generator().manual_seed(0)
    inputs = [torch.randn(2, 3, width, generator=generator) * scale for scale in (1.0, 1e-3)]
    with torch.no_grad():
        try:
            wanted = [module(x) for x in inputs]
        except Exception:
            return None
        for other in others:
            found = [other(x) for x in inputs]
            pairs = list(zip(found, wanted, strict=True))
            if all(
                isinstance(b, Tensor) and a.shape == b.shape and _is_close(a, b) for a, b in pairs
            ):
                return other
    return None


def _is_close(a: Tensor, b: Tensor) -> bool:
    return torch.allclose(a, b, rtol=1e-5, atol=1e-6 * max(float(b.abs().max()), 1e-12))


def _fold_attention_scale(attention: Any) -> None:
    """Give an attention the usual scale, and move the remaining factor to its queries' weights."""
    scaling, width = getattr(attention, "scaling", None), getattr(attention, "head_dim", None)
    linear, norm = getattr(attention, "q_proj", None), getattr(attention, "q_norm", None)
    if not isinstance(scaling, float) or not isinstance(width, int) or scaling <= 0:
        return
    if not isinstance(linear, nn.Linear) or not hasattr(attention, "layer_idx"):
        return
    if norm is not None and not isinstance(norm, RMSNorm):
        return
    factor = scaling * math.sqrt(width)
    if not math.isclose(factor, 1.0, rel_tol=1e-6):
        _multiply(linear if norm is None else norm, factor)
        attention.scaling = width**-0.5


def _fold_residual_multiplier(layer: Any) -> None:
    """Give the last linear layers of a decoder layer the factor of its residuals."""
    factor = getattr(layer, "residual_multiplier", None)
    attention, mlp = getattr(layer, "self_attn", None), getattr(layer, "mlp", None)
    linears = [getattr(attention, "o_proj", None), getattr(mlp, "down_proj", None)]
    if isinstance(factor, float) and all(isinstance(linear, nn.Linear) for linear in linears):
        for linear in linears:
            _multiply(linear, factor)
        layer.residual_multiplier = 1.0


def _multiply(module: Any, factor: float) -> None:
    """Scale the result of a linear layer or a norm; `scaled_by` records the product of factors."""
    module.scaled_by = getattr(module, "scaled_by", 1.0) * factor
    with torch.no_grad():
        for name in ("weight", "bias"):
            old = getattr(module, name, None)
            if old is not None:
                new = nn.Parameter(old.detach() * factor, requires_grad=False)
                setattr(module, name, new)

"""Mixtures of experts, in a form that exports to few large operators.

A model runs each token by a few of its experts, which are chosen at run time. The library sorts the
tokens, or copies the weights of every token's experts. Here all experts run as a single wide layer,
and the results of experts that were not chosen are multiplied by zero: more arithmetic, but the
weights are ordinary linear layers, which can be quantized.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

_MOST_CANDIDATES = 512
_MOST_COMPARISONS = 1 << 24
# An attribute of indices from `SmallTopK`: which candidate has which place, (..., k, n). Experts
# that get it need no 64-bit integers, which would split the program.
_PLACES = "_webpte_places"


def replace_experts(model: Any) -> int:
    """Replace the experts of the transformers library's models, in place; return the number."""
    count = 0
    for name, module in list(model.named_modules()):
        if _are_experts(module):
            owner, _, last = name.rpartition(".")
            setattr(model.get_submodule(owner), last, WideExperts(module))
            count += 1
    return count


def has_experts(model: Any) -> bool:
    """Return whether a model has experts that `replace_experts` would replace."""
    return any(_are_experts(module) for module in model.modules())


def _are_experts(module: Any) -> bool:
    """Return whether a module has the attributes that the library gives to experts."""
    weights = (getattr(module, name, None) for name in ("gate_up_proj", "up_proj"))
    return (
        hasattr(module, "_apply_gate")
        and not getattr(module, "has_post_expert_norm", False)
        and any(isinstance(weight, Tensor) and weight.dim() == 3 for weight in weights)
        and isinstance(getattr(module, "down_proj", None), Tensor)
    )


class WideExperts(nn.Module):
    """All experts side by side: tokens (n, width), numbers and weights (n, k) -> (n, width).

    `original` is the library's module. The function between its two layers is used; the library's
    default, an activation times a linear layer, becomes two layers.
    """

    def __init__(self, original: Any) -> None:
        super().__init__()
        self.experts = original.down_proj.shape[0]
        enter = _weights(original, "gate_up_proj" if original.has_gate else "up_proj")
        self.gate: nn.Linear | None = None
        if original.has_gate and _has_usual_gate(original):
            (gate, bias), (up, up_bias) = _halves(*enter, original.is_concatenated)
            self.gate = _linear(gate, bias)
            self.enter = _linear(up, up_bias)
            self.between = original.act_fn
        else:
            self.enter = _linear(*enter)
            self.between = original._apply_gate if original.has_gate else original.act_fn
        self.entering = self.enter.out_features
        down, down_bias = _weights(original, "down_proj")  # (experts, width, hidden)
        _, width, self.hidden = down.shape
        self.leave = _linear(down.transpose(0, 1).reshape(1, width, -1), None)
        self.bias = None if down_bias is None else _linear(down_bias.T.unsqueeze(0), None)

    def forward(self, tokens: Tensor, numbers: Tensor, weights: Tensor) -> Tensor:
        places = getattr(numbers, _PLACES, None)
        if places is None:
            places = numbers.unsqueeze(-1) == torch.arange(self.experts)
        shares = torch.where(places, weights.unsqueeze(-1), 0.0).sum(1)  # (n, experts)
        if self.gate is not None:
            hidden = self.between(self.gate(tokens)) * self.enter(tokens)
        else:
            each = self.enter(tokens).reshape(-1, self.entering // self.experts)
            hidden = self.between(each)
        hidden = hidden.reshape(-1, self.experts, self.hidden) * shares.unsqueeze(-1)
        result = self.leave(hidden.reshape(-1, self.experts * self.hidden))
        return result if self.bias is None else result + self.bias(shares)


def _has_usual_gate(original: Any) -> bool:
    from transformers.integrations.moe import _default_apply_gate

    return getattr(type(original), "_apply_gate", None) is _default_apply_gate


def _weights(original: Any, name: str) -> tuple[Tensor, Tensor | None]:
    """Return weights (experts, outputs, inputs) and biases (experts, outputs) of a layer."""
    weight = getattr(original, name).detach()
    bias = getattr(original, f"{name}_bias").detach() if original.has_bias else None
    return weight.transpose(1, 2) if original.is_transposed else weight, bias


def _halves(weight: Tensor, bias: Tensor | None, concatenated: bool) -> tuple[Any, Any]:
    """Return gate and up from weights that have them one after the other, or alternating."""
    half = weight.shape[1] // 2
    parts = (
        (slice(half), slice(half, None)) if concatenated else (slice(0, None, 2), slice(1, None, 2))
    )
    gate, up = ((weight[:, p], None if bias is None else bias[:, p]) for p in parts)
    return gate, up


def _linear(weight: Tensor, bias: Tensor | None) -> nn.Linear:
    """Build a layer from the experts' layers: weights (experts, outputs, inputs)."""
    rows = weight.reshape(-1, weight.shape[-1]).contiguous()
    layer = nn.Linear(rows.shape[1], rows.shape[0], bias=bias is not None)
    layer.weight = nn.Parameter(rows, requires_grad=False)
    if bias is not None:
        layer.bias = nn.Parameter(bias.reshape(-1).contiguous(), requires_grad=False)
    return layer


class SmallTopK(TorchFunctionMode):
    """A context in which the largest of a few values are found by comparing all pairs.

    Routers choose experts so. The result equals a sort's, but this way runs on the GPU. A place in
    a buffer, `buffer[position] = x`, is an index here, not a number.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in (torch.topk, Tensor.topk):
            found = _small_topk(*args, **kwargs)
            if found is not None:
                return found
        if func in (Tensor.__getitem__, Tensor.__setitem__) and _is_place(args[1]):
            rows = args[1].reshape(1)
            if func is Tensor.__setitem__:
                return func(args[0], rows, args[2])
            return args[0].index_select(0, rows).squeeze(0)
        return func(*args, **kwargs)


def _is_place(index: Any) -> bool:
    """Return whether an index is a tensor without dims, whose value torch.export would need."""
    whole = isinstance(index, Tensor) and index.dtype in (torch.int32, torch.int64)
    return whole and index.dim() == 0


def _small_topk(x: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """Return values and indices as torch.topk does; None if there are too many values."""
    if dim not in (-1, x.dim() - 1) or not isinstance(k, int) or not x.dtype.is_floating_point:
        return None
    count = x.shape[-1]
    if not isinstance(count, int) or not 0 < k <= count <= _MOST_CANDIDATES:
        return None
    rows = [size for size in x.shape[:-1] if isinstance(size, int)]
    if math.prod(rows) * count**2 > _MOST_COMPARISONS:
        return None
    own, other = x.unsqueeze(-1), x.unsqueeze(-2)
    numbers = torch.arange(count)
    earlier = (numbers.unsqueeze(0) < numbers.unsqueeze(1)).to(x.dtype)
    better = (other > own if largest else other < own).to(x.dtype)
    ranks = (better + (other == own).to(x.dtype) * earlier).sum(-1)  # 0: the first
    places = ranks.unsqueeze(-2) == torch.arange(k).to(x.dtype).unsqueeze(-1)  # (..., k, count)
    values = torch.where(places, other, 0.0).sum(-1)
    indices = torch.where(places, numbers.to(x.dtype), 0.0).sum(-1).to(torch.int64)
    setattr(indices, _PLACES, places)
    return torch.return_types.topk((values, indices))

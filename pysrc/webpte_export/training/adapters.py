"""The LoRA that a program trains: its settings, and its matrices' places in a flat vector."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from webpte.training.lora_form import FACTS, TrainedLayer
from webpte_export.errors import ExportError
from webpte_export.llm.huggingface import llama_layer
from webpte_export.llm.source import Shape

BETAS, EPSILON = (0.9, 0.999), 1e-8  # AdamW's, with PyTorch's defaults
_KINDS = {  # linear layers of ExecuTorch's Llama, by PEFT's names
    "q_proj": "attention.wq",
    "k_proj": "attention.wk",
    "v_proj": "attention.wv",
    "o_proj": "attention.wo",
    "gate_proj": "feed_forward.w1",
    "up_proj": "feed_forward.w3",
    "down_proj": "feed_forward.w2",
}
_LARGEST = {"rank": 256, "batch": 1024, "length": 1 << 16}


@dataclass(frozen=True)
class LoraOptions:
    """Settings of a LoRA and of its training batches.

    rank, alpha  for every layer; the change of a weight is alpha / rank * B A
    targets      linear layers by the last part of their names, as PEFT's target_modules
    batch        lines in a step
    length       tokens in a line, and so in one example
    """

    rank: int = 8
    alpha: float = 16.0
    targets: Sequence[str] = tuple(_KINDS)
    batch: int = 4
    length: int = 128

    def check(self, shape: Shape) -> None:
        """Raise ExportError for settings that a model does not allow."""
        for name, most in _LARGEST.items():
            size = getattr(self, name)
            if not 1 <= size <= most:
                raise ExportError(f"{name} is {size} for training; from 1 to {most} is possible.")
        if not 0 < self.alpha < 1e6:
            raise ExportError(f"alpha is {self.alpha} for training; it must be above 0.")
        if not 2 <= self.length <= shape.max_context:
            raise ExportError(
                f"length is {self.length} for training; from 2 to {shape.max_context}, the "
                "model's context, is possible."
            )
        unknown = [name for name in self.targets if name not in _KINDS]
        if unknown or not self.targets:
            known = ", ".join(_KINDS)
            raise ExportError(
                f"{unknown[0] if unknown else 'no layer'!r} cannot be trained; layers are {known}."
            )


@dataclass(frozen=True)
class Adapter(TrainedLayer):
    """A layer of the model with its place in the flat vector.

    kind  its name in ExecuTorch's Llama, without the number of its block
    """

    kind: str = ""


def layout(shape: Shape, options: LoraOptions) -> list[Adapter]:
    """Return the adapters of a model, block by block, in the order of the flat vector."""
    dim, hidden = shape.dim, shape.hidden_dim
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    sizes = {
        "attention.wq": (dim, queries),
        "attention.wk": (dim, keys),
        "attention.wv": (dim, keys),
        "attention.wo": (queries, dim),
        "feed_forward.w1": (dim, hidden),
        "feed_forward.w3": (dim, hidden),
        "feed_forward.w2": (hidden, dim),
    }
    chosen = [kind for name, kind in _KINDS.items() if name in options.targets]
    found: list[Adapter] = []
    start = 0
    for block in range(shape.layers):
        for kind in chosen:
            named = llama_layer(shape, f"model.layers.{block}.{kind}")
            assert named is not None
            adapter = Adapter(named.name, *sizes[kind], named.pairs, start, options.rank, kind)
            found.append(adapter)
            start = adapter.end
    return found


def facts(adapters: Sequence[Adapter], options: LoraOptions) -> dict[str, str]:
    """Return the constant method that describes the flat vector for `webpte.training`."""
    layers: dict[str, Any] = {
        adapter.name: {
            "inputs": adapter.inputs,
            "outputs": adapter.outputs,
            **({} if adapter.pairs is None else {"pairs": list(adapter.pairs)}),
        }
        for adapter in adapters
    }
    said = {"rank": options.rank, "alpha": options.alpha, "betas": list(BETAS), "layers": layers}
    return {FACTS: json.dumps(said, separators=(",", ":"))}

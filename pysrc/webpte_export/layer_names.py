"""Names the linear layers of a program, so that LoRAs find their weights in it.

Constants of a program have hashes for names. While a model is lowered, the hash of each weight is
recorded with its name in the model; the constant method `get_linear_layers` then returns JSON:

    {"model.layers.0.self_attn.q_proj": {"weight": HASH, "pairs": [HEADS, SIZE]}, ...}

`pairs` is there if the exporter permuted the rows (see `webpte_export.llm.source`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

METHOD = "get_linear_layers"
_ENDS = (".parametrizations.weight.original0", ".weight")  # the first: torchao's 4 bits


class NamedLayer(NamedTuple):
    """A layer's name in the model, and (heads, size of a head) if its rows are permuted."""

    name: str
    pairs: tuple[int, int] | None = None


# From a layer's name in the module that is exported to that in the model; None: not a layer of it.
LayerNames = Callable[[str], NamedLayer | None]


@contextmanager
def recorded_weights() -> Iterator[dict[str, str]]:
    """Record the names of constants with their hashes, while something is lowered."""
    from executorch.backends.vulkan.serialization.vulkan_graph_builder import VkGraphBuilder

    found: dict[str, str] = {}
    original = VkGraphBuilder.maybe_add_constant_tensor

    def recording(builder: Any, node: Any) -> int:
        number: int = original(builder, node)
        signature = builder.program.graph_signature
        name = signature.inputs_to_parameters.get(node.name)
        name = name or signature.inputs_to_buffers.get(node.name)
        if number >= 0 and name is not None and builder.const_tensors[number] is not None:
            found[name] = builder.const_tensors[number][0]
        return number

    VkGraphBuilder.maybe_add_constant_tensor = recording
    try:
        yield found
    finally:
        VkGraphBuilder.maybe_add_constant_tensor = original


def described(weights: Mapping[str, str], names: LayerNames) -> dict[str, str]:
    """Return the constant method for recorded weights; none if no layer has a name."""
    layers = {}
    for weight, key in sorted(weights.items()):
        end = next((end for end in _ENDS if weight.endswith(end)), None)
        layer = None if end is None else names(weight.removesuffix(end))
        if layer is not None:
            pairs = {} if layer.pairs is None else {"pairs": list(layer.pairs)}
            layers[layer.name] = {"weight": key, **pairs}
    return {METHOD: json.dumps(layers)} if layers else {}

"""Names the linear layers of a program, so that LoRAs find their weights in it.

Constants of a program have hashes for names. While a model is lowered, the hash of each weight is
recorded with its name in the model; the constant method `get_linear_layers` then returns JSON:

    {"layers": {"model.layers.0.self_attn.q_proj": [{"weight": HASH, "pairs": [HEADS, SIZE]}], ...},
     "shifts": [...]}

A layer has several parts if the exporter split it. The exporter's changes are listed, too:

    pairs   the two rows of each rotated pair are next to each other (`webpte_export.llm.source`)
    rows    [groups, begin, end]: rows from `begin` to `end` of each of these groups of rows
    scale   a factor that was multiplied into the weights
    shift   the number of the vector (base64 of float32) that the layer's input lacks: the bias of
            the norm before it, which was moved into the layer's bias
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

METHOD = "get_linear_layers"
_ENDS = (".parametrizations.weight.original0", ".weight")  # the first is torchao's 4 bits
_META = "weight_changes"


class NamedLayer(NamedTuple):
    """A layer's name in the model, and the changes of its weights before the export."""

    name: str
    pairs: tuple[int, int] | None = None
    scale: float = 1.0


# From a layer's name in the exported module to its name in the model; None: not a layer of the
# model.
LayerNames = Callable[[str], NamedLayer | None]


@dataclass
class WeightChanges:
    """Changes of weights by a graph's rewrite, by their names in the rewritten module.

    rows    the weight before a cut, and (groups, begin, end) of the rows
    shifts  the vector that was taken from the input of the layer
    """

    rows: dict[str, tuple[str, tuple[int, int, int]]] = field(default_factory=dict)
    shifts: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, module: Any) -> WeightChanges:
        """Return the changes of a graph module, which keeps them."""
        found: WeightChanges = module.meta.setdefault(_META, cls())
        return found

    def keep(self, module: Any) -> Any:
        """Pass the changes on to the module that a pass returned; return that module."""
        module.meta[_META] = self
        return module


@contextmanager
def recorded_weights() -> Iterator[dict[str, str]]:
    """Record the names of constants with their hashes while a program is lowered."""
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


def described(
    weights: Mapping[str, str], names: LayerNames, changes: WeightChanges
) -> dict[str, str]:
    """Return the constant method for recorded weights; an empty dict if no layer has a name."""
    layers: dict[str, list[dict[str, Any]]] = {}
    shifts: dict[str, int] = {}
    for weight, key in sorted(weights.items()):
        whole, rows = changes.rows.get(weight, (weight, None))
        end = next((end for end in _ENDS if whole.endswith(end)), None)
        layer = None if end is None else names(whole.removesuffix(end))
        if layer is None:
            continue
        part: dict[str, Any] = {"weight": key}
        if layer.pairs is not None:
            part["pairs"] = list(layer.pairs)
        if rows is not None:
            part["rows"] = list(rows)
        if layer.scale != 1:
            part["scale"] = layer.scale
        if weight in changes.shifts:
            data = changes.shifts[weight].detach().float().contiguous().numpy().tobytes()
            text = base64.b64encode(data).decode()
            part["shift"] = shifts.setdefault(text, len(shifts))
        layers.setdefault(layer.name, []).append(part)
    said = {"layers": layers, "shifts": list(shifts)}
    return {METHOD: json.dumps(said)} if layers else {}

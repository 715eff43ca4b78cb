"""Checks that the GPU can bind every buffer of a plan; errors name the buffer."""

from __future__ import annotations

from webpte.engine.graph.graph import Call, Graph, Tensor
from webpte.engine.ops import definition_of
from webpte.engine.ops.core.records import Dispatch, Scratch
from webpte.engine.plan.memory_plan import MemoryPlan
from webpte.engine.rewrite.dataflow import Dataflow
from webpte.errors import OutOfMemoryError

_SMALLER_SHAPES = (
    "export with smaller shapes (upper bounds of dynamic ones count), or in several parts"
)
_SMALLER_WEIGHTS = (
    "export with weights of fewer bits, or with a layer that can be bound in parts: a linear, "
    "an embedding, a convolution without groups"
)


_SMALLER_CACHE = (
    'load it with max_context=..., or with kv_cache="f16" or "int8", for a smaller KV cache'
)
_CACHES = ("k_cache", "v_cache", "cache")  # parameters of operators


def check_bindable(graph: Graph, plan: MemoryPlan, most_bytes: int) -> None:
    """Raise OutOfMemoryError for the largest tensor over the limit."""
    large = [
        graph.tensor(value_id)
        for value_id, slot in plan.slot_of.items()
        if plan.slots[slot].nbytes > most_bytes
    ]
    large = [tensor for tensor in large if tensor.storage_bytes > most_bytes]
    if large:
        raise OutOfMemoryError(_message(graph, max(large, key=_size), most_bytes))


def check_scratch(dispatch: Dispatch, most_bytes: int) -> None:
    """Raise OutOfMemoryError for scratch memory over the limit."""
    for binding in dispatch.bindings:
        if isinstance(binding, Scratch) and binding.nbytes > most_bytes:
            raise OutOfMemoryError(
                f"scratch memory ({binding.key}) of {binding.nbytes:,} bytes is over this GPU's "
                f"limit of {most_bytes:,} bytes for one buffer; {_SMALLER_SHAPES}"
            )


def _size(tensor: Tensor) -> int:
    return tensor.storage_bytes


def _message(graph: Graph, tensor: Tensor, most_bytes: int) -> str:
    flow = Dataflow.of(graph)
    described = (
        f"value {tensor.id} ({tensor.dtype.name} {list(tensor.dims)}, "
        f"{tensor.storage_bytes:,} bytes)"
    )
    over = f"is over this GPU's limit of {most_bytes:,} bytes for one buffer"
    stored = tensor.id in flow.stored
    users = flow.readers.get(tensor.id, ()) if stored else flow.writers.get(tensor.id, ())
    calls = [_name(graph.calls[index], tensor.id) for index in users]
    named = f", which {calls[0]} {'reads' if stored else 'writes'}," if calls else ""
    if tensor.id in flow.state:
        advice = _SMALLER_CACHE if _is_cache(graph, tensor.id) else _SMALLER_SHAPES
        return f"{described}{named} {over}: state cannot be in parts; {advice}"
    return f"{described}{named} {over}; {_SMALLER_WEIGHTS if stored else _SMALLER_SHAPES}"


def _is_cache(graph: Graph, value_id: int) -> bool:
    """Return whether a call uses a value as a KV cache."""
    calls = [part for call in graph.calls for part in (call.parts or (call,))]
    for call in calls:
        op = definition_of(call)
        named = zip(op.signature.parameters, call.args[:-1], strict=False) if op else ()
        if any(i == value_id and parameter.name in _CACHES for parameter, i in named):
            return True
    return False


def _name(call: Call, value_id: int) -> str:
    """Return the name of the original call that uses a value, not of the fused call."""
    return next((str(part) for part in call.parts if value_id in part.args), str(call))

"""Whether decode steps of a language model can be discarded after they have run.

A discarded step has written to the caches. That does no harm if the step wrote at its own positions
only, and if no step reads a position after its own: then those positions are written again before a
later step reads them. The ops in `_USES` are known to work so.
"""

from __future__ import annotations

from dataclasses import dataclass

from webpte.engine.format.vulkan import BoolValue, NullValue
from webpte.engine.graph.graph import Call, Graph
from webpte.engine.ops import OpDef, lookup
from webpte.engine.ops.attention.quantized_attention import QUANTIZED_SDPA
from webpte.engine.ops.move.symint import SELECT_AS_SYMINT
from webpte.engine.rewrite.dataflow import Dataflow
from webpte.errors import DeviceError


@dataclass(frozen=True)
class _CacheUse:
    """The arguments of an op that are caches, and the mask by which it may read all positions.

    Each of these ops has an `input_pos`, the position of the first token. With the flag
    `heads_before`, the positions are a different dim from the dim along which updates write.
    """

    caches: tuple[str, ...]
    mask: str | None = None
    heads_before: str | None = None


_USES = {
    "sdpa_with_kv_cache.default": _CacheUse(("k_cache", "v_cache"), "attn_mask"),
    "custom_sdpa.default": _CacheUse(("k_cache", "v_cache"), "attn_mask"),
    QUANTIZED_SDPA: _CacheUse(
        ("key", "value", "k_zero_points", "k_scales", "v_zero_points", "v_scales"),
        "attn_mask",
        "is_seq_at_dim_2",
    ),
    "update_cache.default": _CacheUse(("cache",)),
}


def unsafe_state(graph: Graph) -> str | None:
    """Return the reason why steps that have run cannot be discarded, or None if they can."""
    flow = Dataflow.of(graph)
    # A fused call uses state as its parts do.
    for call in (part for whole in flow.computing for part in whole.parts or (whole,)):
        touched = flow.state.intersection((*flow.reads(call), *flow.writes(call)))
        if touched and (reason := _reason(graph, call, touched)):
            return f"{call}: {reason}"
    return None


def _is_given(graph: Graph, position: int) -> bool:
    """Return whether a position is an input of the graph, not computed."""
    writers = Dataflow.of(graph).writers.get(position, ())
    names = {graph.calls[index].name for index in writers}
    return graph.is_symint(position) and (position in graph.inputs or names == {SELECT_AS_SYMINT})


def _reason(graph: Graph, call: Call, touched: frozenset[int]) -> str | None:
    op = lookup(call.name)
    use = _USES.get(op.name) if op is not None else None
    if op is None or use is None:
        return "it uses state in a way that is not known to follow the position"
    positions = op.signature.positions
    caches = {call.args[positions[name]] for name in use.caches}
    if not touched <= caches | set(call.args[-1:]):
        return "it uses state for something else than a cache"
    if not _is_given(graph, call.args[positions["input_pos"]]):
        return "where it writes is computed, and may be where earlier tokens are"
    if _is_set(graph, call, op, use.mask):
        return "its mask says which positions of the cache count"
    if _is_set(graph, call, op, use.heads_before):
        return "its caches have heads before positions"
    return None


def _is_set(graph: Graph, call: Call, op: OpDef, name: str | None) -> bool:
    """Return whether an argument of a call is neither null nor false."""
    place = len(call.args) if name is None else op.signature.positions[name]
    if place >= len(call.args) - 1:
        return False
    return graph.value(call.args[place]) not in (NullValue(), BoolValue(False))


def leaves_traces(error: BaseException, calls: int) -> bool:
    """Return whether calls that were made before this error may have changed state.

    A call that fails leaves state unchanged, but a cancelled call runs to its end if it is on the
    GPU, and after a failure of the device its effect is unknown.
    """
    if calls == 0:
        return False
    return calls > 1 or not isinstance(error, Exception) or isinstance(error, DeviceError)

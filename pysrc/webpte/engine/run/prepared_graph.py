"""Preparation of a delegate's graph for a device: rewritten, with memory for each tensor."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from webpte.engine.gpu.device_info import DeviceInfo
from webpte.engine.graph.graph import Graph
from webpte.engine.ops import OpDef
from webpte.engine.plan.memory_plan import MemoryPlan, plan_memory
from webpte.engine.rewrite.fusion import fuse
from webpte.engine.rewrite.passes import (
    merge_duplicate_calls,
    round_bfloat16,
    separate_buffer_writes,
    store_f16,
    view_permuted_ones,
)
from webpte.engine.rewrite.split_rules import split_constants
from webpte.engine.rewrite.validate import (
    ConstantTransfer,
    check_arity,
    check_defined,
    constant_transfers,
    resolve_ops,
)


@dataclass(frozen=True, eq=False)
class PreparedGraph:
    """A rewritten graph with its operators, its memory plan, and the constants to upload."""

    graph: Graph
    ops: dict[int, OpDef]
    storage: MemoryPlan
    transfers: list[ConstantTransfer]


def prepare_graph(
    graph: Graph, info: DeviceInfo, fused: bool, borrowed: Container[int] = ()
) -> PreparedGraph:
    """Check a graph and rewrite it for a device; nothing is allocated or read.

    `borrowed` tensors get no memory: other owners hold it.
    """
    check_arity(graph)
    if info.has_f16:
        graph = store_f16(graph)
    graph = round_bfloat16(graph)
    graph = split_constants(graph, info.binding_bytes)
    transfers = constant_transfers(graph)
    graph = merge_duplicate_calls(separate_buffer_writes(graph))
    check_defined(graph)
    if fused:
        graph = fuse(view_permuted_ones(graph))
    ops = resolve_ops(graph)
    return PreparedGraph(graph, ops, plan_memory(graph, ops, borrowed), transfers)

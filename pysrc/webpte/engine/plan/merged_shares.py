"""Attention's shares are merged by the GEMV behind it, where that is faster than a dispatch.

Attention of a single token leaves a share for each split of the keys; `attention_flash_reduce`
adds them up. A GEMV that alone reads the result can do so itself, in each of its workgroups
(wgsl/lib/gemm/gemv_shares_row.wgsl). Attention says whether that is faster; the two are dispatches
of two calls, so that the GEMV is found after lowering, and left alone in graphs without fusion.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from webpte.engine.graph.graph import Call, Graph
from webpte.engine.ops.core.records import Dispatch, ceil_div, fold_grid
from webpte.engine.ops.core.target import Target
from webpte.engine.ops.gemm.gemv_q4 import GemvConfig
from webpte.engine.plan.memory_plan import MemoryPlan
from webpte.engine.rewrite.dataflow import Dataflow

MERGE, GEMV, MERGING = "attention_flash_reduce", "gemv_q4", "gemv_q4_shares"
MOST_WEIGHTS = 512  # in shared memory, a float for each split of each head
# Every workgroup adds up all shares. More invocations with as many slices are fewer workgroups,
# which saves 4 to 7 % of a step of Qwen3-0.6B and 3 to 4 % of SmolLM2-135M's.
WIDER = 256


class PlannedStep(Protocol):
    """A planned call."""

    @property
    def call(self) -> Call: ...


Step = TypeVar("Step", bound=PlannedStep)


class SharesMerger:
    """Finder of GEMVs that read attention's result alone, and of the shares that they add up."""

    def __init__(self, graph: Graph, plan: MemoryPlan) -> None:
        self._graph, self._plan = graph, plan
        self._read_once: frozenset[int] | None = None

    def merged(
        self, work: Sequence[tuple[Step, Dispatch | None]], target: Target
    ) -> list[tuple[Step, Dispatch | None]]:
        """Return the work of a plan with such GEMVs in place of a merge and a GEMV."""
        found = list(work)
        for index in range(len(work) - 2, -1, -1):
            (attention, merge), (step, gemv) = found[index : index + 2]
            if merge is None or gemv is None or (merge.kernel, gemv.kernel) != (MERGE, GEMV):
                continue
            if not (merge.mergeable and attention.call.parts):
                continue
            if (merging := self._merging(merge, gemv, target)) is not None:
                found[index : index + 2] = [(step, merging)]
        return found

    def _merging(self, merge: Dispatch, gemv: Dispatch, target: Target) -> Dispatch | None:
        """Return a GEMV that merges, or None if both dispatches are needed."""
        values, stats, output = merge.bindings
        x, gain, *rest = gemv.bindings
        if not (isinstance(x, int) and isinstance(output, int) and self._is_alone(output, x)):
            return None
        of_merge = dict(merge.types)
        if dict(gemv.types)["ROW"] != "floats" or dict(gemv.overrides).get("NORMED"):
            return None
        rows, tokens, heads, splits, _, stride, _, _ = struct.unpack("8I", merge.params)
        size = int(dict(merge.overrides)["VALUE_HEAD"])
        _, columns, inner = struct.unpack_from("3I", gemv.params)
        whole = tokens == 1 and rows == heads and stride == size and inner == heads * size
        fits = size % 4 == 0 and heads * splits <= MOST_WEIGHTS
        if not (whole and fits):
            return None
        types = {name: text for name, text in gemv.types if name != "ROW"}
        types |= {"SPLITS": of_merge["SPLITS"], "HEAD_QUADS": str(size // 4)}
        wider, grid = GemvConfig(WIDER, int(types["SLICES"])), gemv.grid
        staged = int(types["CHUNK"]) * wider.slices * int(types["X_QUADS"])
        shared = wider.float_bytes(staged, 1) + 4 * (heads * splits + 1)
        if int(types["THREADS"]) < WIDER and shared <= target.shared_bytes:
            types["THREADS"] = str(WIDER)
            grid = fold_grid(ceil_div(columns, wider.columns))
        return replace(
            gemv,
            kernel=MERGING,
            bindings=(values, stats, gain, *rest),
            types=tuple(types.items()),
            grid=grid,
        )

    def _is_alone(self, output: int, x: int) -> bool:
        """Return whether x is attention's output, and nothing else reads that."""
        root_of = self._plan.root_of
        if root_of.get(output, output) != root_of.get(x, x):
            return False
        if self._read_once is None:
            self._read_once = read_once(self._graph, self._plan)
        return root_of.get(x, x) in self._read_once


def read_once(graph: Graph, plan: MemoryPlan) -> frozenset[int]:
    """Return the tensors that a single call reads, itself or by a view, and the caller does not."""
    flow, readers = Dataflow.of(graph), dict[int, set[int]]()
    for call in flow.computing:
        if call.index not in plan.aliased_calls:
            for value_id in flow.reads(call):
                readers.setdefault(plan.root_of.get(value_id, value_id), set()).add(call.index)
    given = {plan.root_of.get(i, i) for i in graph.expand(tuple(graph.outputs))}
    kept = given | flow.stored | flow.mutated
    return frozenset(i for i, calls in readers.items() if len(calls) == 1 and i not in kept)

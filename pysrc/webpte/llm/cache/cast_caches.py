"""Lets attention read f16 caches that a program casts to float32 before each read.

export_llm writes such programs for f16: attention computes in float32, so each step would cast the
whole context. Rows of f16 that are packed in words hold the same numbers, and attention in float32
reads them as they are (ops/attention/cache_packing.py).
"""

from __future__ import annotations

from dataclasses import replace

from webpte.engine.format.program import (
    DelegateCall,
    Dynamism,
    ExecutionPlan,
    FreeCall,
    Instruction,
    JumpFalseCall,
    KernelCall,
    TensorMeta,
)
from webpte.engine.format.shared import ScalarType
from webpte.engine.portable import lookup_kernel
from webpte.llm.cache.plan_caches import READERS, WRITERS, plan_caches


def without_casts(plan: ExecutionPlan) -> ExecutionPlan:
    """Return a plan whose attention takes f16 caches in place of their casts to float32.

    Kernels do not take both types, so such caches have to be packed. Without any, return the plan.
    """
    if any(isinstance(one, JumpFalseCall) for one in plan.instructions):
        return plan
    sources = _casts(plan)
    chains = tuple(
        tuple(_taking(plan, one, sources) for one in chain if not _is_of(plan, one, sources))
        for chain in plan.chains
    )
    changed = replace(plan, chains=chains)
    found = plan_caches(changed, masked=True, types=(ScalarType.HALF,))
    return changed if sources and found.keys() >= {*sources.values()} else plan


def _casts(plan: ExecutionPlan) -> dict[int, int]:
    """Map casts of f16 tensors that nothing but attention reads, as caches, to the tensors."""
    found: dict[int, int] = {}
    others = {*plan.inputs, *plan.outputs}
    for one in plan.instructions:
        if isinstance(one, DelegateCall):
            others |= {*one.args}
        if not isinstance(one, KernelCall):
            continue
        name, args = plan.operators[one.op_index].full_name, one.args
        if _is_cast(plan, one):
            found[args[-1]] = args[0]
            continue
        # A cast has the rows that were there before later writes.
        written = {args[at] for at in WRITERS.get(name, ())}
        others |= {cast for cast, source in found.items() if source in written}
        places = READERS.get(name, ())
        others |= {index for at, index in enumerate(args) if at not in places}
    return {cast: source for cast, source in found.items() if cast not in others}


def _is_cast(plan: ExecutionPlan, call: KernelCall) -> bool:
    """Return whether a call casts a tensor of f16 to float32."""
    kernel = lookup_kernel(plan.operators[call.op_index].full_name)
    ends = [plan.values[call.args[at]] for at in (0, -1)] if kernel and kernel.casts else []
    metas = [one for one in ends if isinstance(one, TensorMeta) and one.dynamism == Dynamism.STATIC]
    return [one.scalar_type for one in metas] == [ScalarType.HALF, ScalarType.FLOAT]


def _is_of(plan: ExecutionPlan, one: Instruction, sources: dict[int, int]) -> bool:
    """Return whether an instruction makes or frees a cast that is not needed."""
    if isinstance(one, FreeCall):
        return one.value_index in sources
    return isinstance(one, KernelCall) and _is_cast(plan, one) and one.args[-1] in sources


def _taking(plan: ExecutionPlan, one: Instruction, sources: dict[int, int]) -> Instruction:
    if not isinstance(one, KernelCall):
        return one
    return replace(one, args=tuple(sources.get(index, index) for index in one.args))

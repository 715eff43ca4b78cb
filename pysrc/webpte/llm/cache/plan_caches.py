"""KV caches beside the delegates of a method: tensors of its plan that kernels write and read."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from webpte.engine.call.info import MethodInfo, TensorInfo
from webpte.engine.format.program import Dynamism, ExecutionPlan, KernelCall, TensorMeta
from webpte.engine.format.shared import ScalarType
from webpte.engine.load.program_file import Contents

# The places of caches among the arguments of kernels that write caches, and of other kernels.
WRITERS = {
    "llama::update_cache.out": (1,),
    "llama::sdpa_with_kv_cache.out": (3, 4),
}
# Of int8 caches, the scales and zero points of rows are caches, too.
READERS = {
    "llama::custom_sdpa.out": (1, 2),
    "llama::custom_quantized_sdpa.out": (1, 2, 10, 11, 12, 13),
}
_MASK = {
    "llama::custom_sdpa.out": 4,
    "llama::custom_quantized_sdpa.out": 4,
    "llama::sdpa_with_kv_cache.out": 7,
}
ALL = frozenset(ScalarType)


def plan_caches(
    plan: ExecutionPlan, *, masked: bool = False, types: Collection[ScalarType] = ALL
) -> dict[int, TensorMeta]:
    """Return the caches [1, positions, heads, size] that nothing but these kernels use.

    The caches of an attention are all there or none. Those of attention with a mask, whose last dim
    is the number of positions, are there with `masked` alone.
    """
    written, others = set[int](), {*plan.inputs, *plan.outputs}
    for name, args in _calls(plan):
        own = {args[at] for at in _places(name)}
        written |= {args[at] for at in WRITERS.get(name, ())}
        mask = args[_MASK[name]] if name in _MASK and not masked else None
        others |= own if mask is not None and plan.values[mask] is not None else set()
        others |= set(args) - own
    metas = {index: plan.values[index] for index in sorted(written - others)}
    found = {
        index: meta
        for index, meta in metas.items()
        if isinstance(meta, TensorMeta) and meta.scalar_type in types and _lasts(meta)
    }
    together = [{args[at] for at in _places(name)} for name, args in _calls(plan)]
    while any(own & found.keys() and not own <= found.keys() for own in together):
        alone = set().union(*(own for own in together if not own <= found.keys()))
        found = {index: meta for index, meta in found.items() if index not in alone}
    return found


def _places(name: str) -> tuple[int, ...]:
    """Return the places of caches among the arguments of a kernel."""
    return *WRITERS.get(name, ()), *READERS.get(name, ())


def _calls(plan: ExecutionPlan) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the operator and the arguments of each instruction; delegates have no operator."""
    for one in plan.instructions:
        name = plan.operators[one.op_index].full_name if isinstance(one, KernelCall) else ""
        yield name, tuple(getattr(one, "args", ()))


def _lasts(meta: TensorMeta) -> bool:
    """Return whether a tensor can be state: it has no contents in the file, and a fixed size."""
    fixed = meta.dynamism == Dynamism.STATIC and len(meta.sizes) == 4 and meta.sizes[0] == 1
    return fixed and meta.data_buffer_idx == 0


def free_inputs(plan: ExecutionPlan) -> set[int]:
    """Return the inputs of the plan that no delegate takes, whose sizes are kernels' affair."""
    taken = {index for name, args in _calls(plan) if not name for index in args}
    return set(plan.inputs) - taken


def _passes_caches(info: MethodInfo) -> bool:
    """Return whether a method gives tensors of the sizes of its inputs after its first output."""
    given = [(one.dtype, one.shape) for one in info.outputs[1:] if isinstance(one, TensorInfo)]
    tensors = [one for one in info.inputs if isinstance(one, TensorInfo)]
    return any(len(one.shape) > 2 and (one.dtype, one.shape) in given for one in tensors)


def where_caches_are(contents: Contents) -> str:
    """Tell why the caches of a file cannot be changed; "" if there seem to be none."""
    methods = list(contents.methods.values())
    if any(_passes_caches(method.info) for method in methods):
        return ": its methods take and give back their caches, in the sizes and types of the file"
    caches = [meta for method in methods for meta in plan_caches(method.plan).values()]
    if caches:
        sizes = sorted({f"{meta.sizes[1]} of {meta.scalar_type.name}" for meta in caches})
        return f": kernels beside its delegates use its caches, of positions {', '.join(sizes)}"
    if any(method.info.keeps_state for method in methods):
        return ": its state is used by operators other than attention with a KV cache"
    return ""

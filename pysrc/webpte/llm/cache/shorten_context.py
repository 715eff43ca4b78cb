"""Makes the context of a language model shorter than in its file, to save memory.

The KV caches are allocated here, with the sizes in the file: [1, positions, heads, head size].
Their first positions are their first bytes, and every kernel takes the number of positions from the
cache, so a shorter cache needs nothing but smaller sizes. Inputs of tokens become at most as long,
and the sizes of all values computed from them follow. For caches beside delegates, the sizes of the
plan's values change, and the sizes of inputs that callers may give.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from webpte.engine.call.info import ScalarInfo, TensorInfo
from webpte.engine.format.program import (
    DelegateCall,
    Dynamism,
    EValue,
    ExecutionPlan,
    KernelCall,
    TensorMeta,
)
from webpte.engine.format.vulkan import SymIntValue
from webpte.engine.graph.graph import PREPACK, Graph, Tensor, Value
from webpte.engine.graph.live_state import LiveState
from webpte.engine.load.program_file import Contents, MethodContents, described
from webpte.engine.ops import definition_of
from webpte.engine.plan.planner import resize_outputs
from webpte.engine.rewrite.dataflow import Dataflow
from webpte.engine.shapes import Dims
from webpte.errors import InputError, WebpteError
from webpte.llm.cache.plan_caches import free_inputs, plan_caches, where_caches_are

# Constant methods with the length that a conversation may have.
LENGTHS = ("get_max_context_len", "get_max_seq_len")
CACHES = ("k_cache", "v_cache", "cache")


def shorten_context(contents: Contents, most: int) -> Contents:
    """Return a file whose caches have at most `most` positions; raise if that is not possible."""
    if most < 1:
        raise InputError(f"max_context={most}: a context has at least one token")
    methods, found = dict(contents.methods), False
    for name, method in methods.items():
        if name in LENGTHS and method.info.is_constant:
            methods[name] = _with_length(method, most)
            continue
        shorter = _shortened(method, most)
        found |= shorter is not None
        methods[name] = shorter or method
    if not found:
        raise InputError(
            f"max_context={most}: {contents.source.name} has no KV cache with more positions that "
            f"could be made shorter{where_caches_are(contents)}; load it without max_context"
        )
    return replace(contents, methods=methods)


def _with_length(method: MethodContents, most: int) -> MethodContents:
    values = list(method.plan.values)
    for index in method.plan.outputs:
        length = values[index]
        if isinstance(length, int) and not isinstance(length, bool):
            values[index] = min(length, most)
    return _described(method, values, method.graphs)


def _described(
    method: MethodContents, values: list[EValue], graphs: tuple[Graph | None, ...]
) -> MethodContents:
    plan = replace(method.plan, values=tuple(values))
    return replace(method, plan=plan, graphs=graphs, info=described(plan, graphs))


def _shortened(method: MethodContents, most: int) -> MethodContents | None:
    """Return a method with shorter caches; None if it has no caches, or several delegates.

    Kernels outside of the delegate, such as the embedding of a quantized model, take as many
    tokens.
    """
    plan = method.plan
    if beside := {i: one for i, one in plan_caches(plan).items() if one.sizes[1] > most}:
        return _shortened_beside(method, beside, most)
    delegates = [one for one in plan.instructions if isinstance(one, DelegateCall)]
    kernels = [one for one in plan.instructions if isinstance(one, KernelCall)]
    if len(delegates) != 1 or len(kernels) + 1 != len(plan.instructions):
        return None
    (call,) = delegates
    graph = method.graphs[call.delegate_index]
    if graph is None or not (caches := _caches(graph, most)):
        return None
    values, lengths = list(plan.values), _token_lengths(plan, most)
    for index in {*plan.inputs, *(arg for kernel in kernels for arg in kernel.args)}:
        meta = values[index]
        if isinstance(meta, TensorMeta) and _has_tokens(meta, lengths):
            values[index] = replace(meta, sizes=(1, most, *meta.sizes[2:]))
    inputs = dict(_token_inputs(plan, call, graph, lengths, most))
    shorter = resized(graph, dict.fromkeys(caches, most), inputs)
    for index, value_id in zip(call.args, (*graph.inputs, *graph.outputs), strict=True):
        meta, tensor = values[index], shorter.value(value_id)
        if isinstance(meta, TensorMeta) and isinstance(tensor, Tensor):
            values[index] = replace(meta, sizes=tensor.dims)
    graphs = list(method.graphs)
    graphs[call.delegate_index] = shorter
    return _described(method, values, tuple(graphs))


def _shortened_beside(
    method: MethodContents, caches: Mapping[int, TensorMeta], most: int
) -> MethodContents:
    """Return a method with shorter caches that are values of the plan, and with shorter inputs.

    All other values keep their sizes, which are bounds of the sizes in a call.
    """
    plan, values = method.plan, list(method.plan.values)
    for index, cache in caches.items():
        values[index] = replace(cache, sizes=(1, most, *cache.sizes[2:]))
    shorter = _described(method, values, method.graphs)
    lengths, free = _token_lengths(plan, most), free_inputs(plan)

    def given(index: int, info: TensorInfo | ScalarInfo) -> TensorInfo | ScalarInfo:
        meta = plan.values[index]
        if index not in free or not isinstance(meta, TensorMeta):
            return info
        assert isinstance(info, TensorInfo)
        if _has_tokens(meta, lengths):
            return replace(info, shape=(1, most, *info.shape[2:]))
        places = meta.dynamism != Dynamism.STATIC and len(meta.sizes) == 1  # of tokens
        return replace(info, shape=(most,)) if places and meta.sizes[0] in lengths else info

    inputs = tuple(map(given, plan.inputs, shorter.info.inputs))
    return replace(shorter, info=replace(shorter.info, inputs=inputs))


def _token_lengths(plan: ExecutionPlan, most: int) -> set[int]:
    """Return the numbers of tokens that inputs take, [1, tokens], as far as they are too large."""
    metas = [plan.values[index] for index in plan.inputs]
    return {
        meta.sizes[1]
        for meta in metas
        if isinstance(meta, TensorMeta)
        and meta.dynamism != Dynamism.STATIC
        and len(meta.sizes) == 2
        and meta.sizes[0] == 1
        and meta.sizes[1] > most
    }


def _has_tokens(meta: TensorMeta, lengths: set[int]) -> bool:
    """Return whether a tensor has a row per token: [1, tokens, ...]."""
    if meta.dynamism == Dynamism.STATIC or len(meta.sizes) < 2:
        return False
    return meta.sizes[0] == 1 and meta.sizes[1] in lengths


def _caches(graph: Graph, most: int) -> set[int]:
    """Return the caches with more positions, and the constants with their initial contents.

    A cache that a call reads in any other way is left out.
    """
    flow, found, otherwise = Dataflow.of(graph), set[int](), set(graph.outputs)
    for call in flow.computing:
        op = definition_of(call)
        named = zip(op.signature.parameters, call.args[:-1], strict=False) if op else ()
        used = {i for parameter, i in named if parameter.name in CACHES}
        found |= used
        otherwise |= set(flow.takes(call)) - used
    lasting = {
        i
        for i in found & flow.state - otherwise
        if len(dims := graph.tensor(i).dims) == 4 and dims[0] == 1 and dims[1] > most
    }
    sources = {c.args[0] for c in flow.prepacks if c.args[-1] in lasting}
    return lasting | sources


def _token_inputs(
    plan: ExecutionPlan, call: DelegateCall, graph: Graph, lengths: set[int], most: int
) -> Iterator[tuple[int, Dims]]:
    """Yield the delegate's inputs of more tokens than fit, with their new dims."""
    for index, value_id in zip(call.args, graph.inputs, strict=False):
        meta, tensor = plan.values[index], graph.value(value_id)
        if isinstance(meta, TensorMeta) and isinstance(tensor, Tensor):
            dims = tensor.dims
            if _has_tokens(meta, lengths) and dims[:2] == tuple(meta.sizes[:2]):
                yield value_id, (1, most, *dims[2:])


def resized(graph: Graph, caches: Mapping[int, int], inputs: Mapping[int, Dims]) -> Graph:
    """Return the graph with smaller caches and inputs, and with the sizes that follow from them.

    `caches` maps caches to their number of positions.
    """

    def cut(value: Value) -> Value:
        if isinstance(value, Tensor) and value.id in caches:
            return replace(value, dims=(1, caches[value.id], *value.dims[2:]))
        return value

    values = tuple(cut(value) for value in graph.values)
    smaller = Graph(values, graph.calls, graph.inputs, graph.outputs)
    live, flow = LiveState(smaller), Dataflow.of(smaller)
    for value_id, dims in inputs.items():
        live.set_cur_dims(value_id, dims)
    for call in smaller.calls:
        op = definition_of(call)
        if call.name == PREPACK or op is None:
            continue
        args = op.bind(call, smaller, live)
        try:
            resize_outputs(op, args, live)
            if op.scalar is not None:
                args.set_symint_out(op.scalar(args))
        except WebpteError:
            continue  # a position is not known yet: its outputs keep the sizes of the file

    def followed(value_id: int, value: Value) -> Value:
        if isinstance(value, SymIntValue):
            return replace(value, value=live.symint(value_id))
        if isinstance(value, Tensor) and value_id not in flow.stored:
            return replace(value, dims=live.cur_dims(value_id))
        return value

    values = tuple(followed(i, value) for i, value in enumerate(values))
    return Graph(values, graph.calls, graph.inputs, graph.outputs)

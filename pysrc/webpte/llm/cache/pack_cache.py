"""Keeps the KV caches of a language model in f16 or 8 bits, instead of the elements in the file.

A cache may be packed if nothing but attention with a KV cache and updates of a cache use it: these
operators pack when they write and unpack when they read (ops/attention/cache_packing.py). The
initial contents of the cache are packed while they are read from the file.

Kernels beside delegates, as in programs for XNNPACK, become delegates of a single call, which take
and give the packed cache. On a GPU they are joined like kernels that are moved there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from webpte.engine.dtypes import DTYPES, dtype_of_program
from webpte.engine.files.source import ConvertedSource, Region
from webpte.engine.format.program import (
    DelegateCall,
    ExecutionPlan,
    Instruction,
    KernelCall,
    TensorMeta,
)
from webpte.engine.format.shared import ScalarType
from webpte.engine.gpu.device_info import DeviceInfo
from webpte.engine.graph.graph import Call, Constant, Graph, Tensor, Value
from webpte.engine.load.offload_call import OffloadedCall, as_delegate
from webpte.engine.load.program_file import Contents, MethodContents
from webpte.engine.load.writes import Writes
from webpte.engine.ops import definition_of
from webpte.engine.ops.attention.cache_packing import PACKINGS, CachePacking, pack_rows
from webpte.engine.rewrite.dataflow import Dataflow
from webpte.engine.shapes import numel
from webpte.errors import InputError, UnsupportedError
from webpte.llm.cache.cast_caches import without_casts
from webpte.llm.cache.plan_caches import plan_caches, where_caches_are
from webpte.llm.cache.shorten_context import CACHES, shorten_context
from webpte.program import Program, contents_of

FLOAT32 = "f32"
HALF = "f16"
KV_CACHES = (FLOAT32, *PACKINGS)
FLOATS = (ScalarType.FLOAT, ScalarType.HALF, ScalarType.BFLOAT16)


def fit_caches(contents: Contents, max_context: int | None, kv_cache: str | None) -> Contents:
    """Return a file whose caches have the length and the elements given to `load`."""
    plans = {name: without_casts(method.plan) for name, method in contents.methods.items()}
    cast = {name for name, method in contents.methods.items() if plans[name] is not method.plan}
    methods = {name: replace(method, plan=plans[name]) for name, method in contents.methods.items()}
    contents = replace(contents, methods=methods)
    if max_context is not None:
        contents = shorten_context(contents, max_context)
    if kv_cache is not None:
        return pack_caches(contents, kv_cache)
    methods = {
        name: _packed_beside(method, _float_caches(method.plan, HALF), PACKINGS[HALF])
        if name in cast
        else method
        for name, method in contents.methods.items()
    }
    return replace(contents, methods=methods)


def pack_caches(contents: Contents, kv_cache: str) -> Contents:
    """Return a file whose caches have these elements; raise if they cannot have them."""
    if kv_cache not in KV_CACHES:
        raise InputError(f"kv_cache={kv_cache!r}: there are {', '.join(map(repr, KV_CACHES))}")
    methods, found = dict(contents.methods), 0
    for name, method in methods.items():
        graphs = list(method.graphs)
        for index, graph in enumerate(graphs):
            caches = [] if graph is None else _caches(graph, kv_cache)
            found += len(caches)
            if graph is not None and caches and kv_cache != FLOAT32:
                graphs[index] = _packed(graph, {one.id for one in caches}, PACKINGS[kv_cache])
        methods[name] = replace(method, graphs=tuple(graphs))
        beside = _float_caches(method.plan, kv_cache)
        found += len(beside)
        if beside and kv_cache != FLOAT32:
            methods[name] = _packed_beside(methods[name], beside, PACKINGS[kv_cache])
    if not found:
        raise InputError(
            f"kv_cache={kv_cache!r}: {contents.source.name} has no KV cache of floats that "
            f"attention alone uses{where_caches_are(contents)}; load it without kv_cache, and to "
            "save memory with max_context"
        )
    return replace(contents, methods=methods)


def cache_bytes(contents: Contents) -> dict[str, int]:
    """Count the bytes of the KV caches: as in the file ("file"), and packed, by `kv_cache`.

    Returns {} if there are no caches, or if they cannot be packed.
    """
    methods = contents.methods.values()
    graphs = [graph for one in methods for graph in one.graphs if graph]
    try:
        caches = [tensor for graph in graphs for tensor in _caches(graph, "int8")]
    except UnsupportedError:
        return {}
    beside = [meta for one in methods for meta in _float_caches(one.plan, "int8").values()]
    sizes = [*(tensor.dims for tensor in caches), *(meta.sizes for meta in beside)]
    stored = [tensor.dtype.storage for tensor in caches]
    stored += [dtype_of_program(meta.scalar_type, "a cache").storage for meta in beside]
    packed = {
        name: 4 * sum(numel(packing.packed_dims(dims)) for dims in sizes)
        for name, packing in PACKINGS.items()
    }
    held = sum(numel(dims) * dtype.itemsize for dims, dtype in zip(sizes, stored, strict=True))
    return {"file": held, **packed} if sizes else {}


def _caches(graph: Graph, kv_cache: str) -> list[Tensor]:
    """Return the caches; raise UnsupportedError for a cache that other operators use, too."""
    flow, found = Dataflow.of(graph), set[int]()
    others: dict[int, Call] = {}
    for call in flow.computing:
        op = definition_of(call)
        named = zip(op.signature.parameters, call.args[:-1], strict=False) if op else ()
        used = {i for parameter, i in named if parameter.name in CACHES}
        found |= used
        others |= {i: call for i in (*flow.takes(call), *flow.gives(call)) if i not in used}
    caches = [graph.tensor(i) for i in sorted(found)]
    for tensor in caches:
        which = f"kv_cache={kv_cache!r}: the cache {list(tensor.dims)} (value {tensor.id})"
        advice = "load the program without kv_cache"
        if tensor.id in others:
            raise UnsupportedError(f"{which} is also used by {others[tensor.id]}; {advice}")
        if tensor.id in (*graph.inputs, *graph.outputs) or tensor.id not in flow.state:
            raise UnsupportedError(f"{which} is not state of the program alone; {advice}")
        as_asked = kv_cache != FLOAT32 or tensor.dtype.name == "float32"
        if not tensor.dtype.is_float or not as_asked:
            raise UnsupportedError(f"{which} is of {tensor.dtype.name}; {advice}")
    return caches


def _float_caches(plan: ExecutionPlan, kv_cache: str) -> dict[int, TensorMeta]:
    """Return the caches beside delegates that can have these elements."""
    types = (ScalarType.FLOAT,) if kv_cache == FLOAT32 else FLOATS
    return plan_caches(plan, masked=True, types=types)


def _packed_beside(
    method: MethodContents, caches: Mapping[int, TensorMeta], packing: CachePacking
) -> MethodContents:
    """Return a method whose kernels that use these caches are delegates with packed caches."""
    plan, writes = method.plan, Writes(method)
    graphs, offloaded = list(method.graphs), dict(method.offloaded)

    def instruction(old: Instruction) -> Instruction:
        if not isinstance(old, KernelCall) or caches.keys().isdisjoint(old.args):
            return old
        call = as_delegate(_of_one_type(plan, old, caches), old, {}, writes, DeviceInfo("numpy"))
        if not isinstance(call, OffloadedCall):
            name = plan.operators[old.op_index].full_name
            raise UnsupportedError(f"{name} with a packed cache: {call}; load without kv_cache")
        args, ids = (*call.inputs, *call.outputs), (*call.graph.inputs, *call.graph.outputs)
        held = {value_id for index, value_id in zip(args, ids, strict=True) if index in caches}
        offloaded[len(graphs)] = call.kernel.name
        graphs.append(_packed(call.graph, held, packing))
        return DelegateCall(len(graphs) - 1, args)

    chains = tuple(tuple(map(instruction, chain)) for chain in plan.chains)
    values = list(plan.values)
    for index, meta in caches.items():
        dims = packing.packed_dims(meta.sizes)
        values[index] = replace(meta, scalar_type=ScalarType.INT, sizes=dims)
    plan = replace(plan, chains=chains, values=tuple(values))
    return replace(method, plan=plan, graphs=tuple(graphs), offloaded=offloaded)


def _of_one_type(
    plan: ExecutionPlan, call: KernelCall, caches: Mapping[int, TensorMeta]
) -> ExecutionPlan:
    """Return the plan with the type of a call's rows for caches, as kernels want them."""
    values, rows = list(plan.values), plan.values[call.args[0]]
    assert isinstance(rows, TensorMeta)
    for index in caches.keys() & set(call.args):
        values[index] = replace(caches[index], scalar_type=rows.scalar_type)
    return replace(plan, values=tuple(values))


def _packed(graph: Graph, held: set[int], packing: CachePacking) -> Graph:
    """Return the graph with these values as packed caches, and with packed initial contents."""
    sources = {c.args[0] for c in Dataflow.of(graph).prepacks if c.args[-1] in held}

    def pack(value: Value) -> Value:
        if not isinstance(value, Tensor) or value.id not in held | sources:
            return value
        dims, constant = packing.packed_dims(value.dims), value.constant
        if constant is not None:
            constant = Constant(_region(value, constant.region, packing), constant.key)
        return replace(value, dtype=packing.dtype, dims=dims, constant=constant)

    values = tuple(map(pack, graph.values))
    return Graph(values, graph.calls, graph.inputs, graph.outputs)


def _region(tensor: Tensor, region: Region, packing: CachePacking) -> Region:
    size = tensor.dims[-1]
    converted = ConvertedSource(
        region.head(tensor.file_bytes),
        size * tensor.dtype.itemsize,
        4 * packing.words(size),
        partial(_pack_bytes, dtype=tensor.dtype.name, size=size, packing=packing),
    )
    rows = numel(tensor.dims[:-1])
    return Region(converted, 0, rows * converted.row_bytes)


def _pack_bytes(data: bytes | memoryview, dtype: str, size: int, packing: CachePacking) -> bytes:
    rows = DTYPES[dtype].from_bytes(data).reshape(-1, size)
    if not rows.any():  # the usual initial contents of a cache
        return bytes(4 * len(rows) * packing.words(size))
    return pack_rows(rows, packing).tobytes()


def kv_cache_bytes(program: Program) -> dict[str, int]:
    """Count the bytes of the KV caches, for each `kv_cache` that `load` could be given."""
    return cache_bytes(contents_of(program))

"""The contents of a parsed file, not yet on any device: shown by `inspect`, built by `load`."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from webpte.engine.call.info import ConstantInfo, MethodInfo, ScalarInfo, TensorInfo
from webpte.engine.dtypes import dtype_of_program
from webpte.engine.files.source import ByteSource, Region, naming
from webpte.engine.format import pte, vulkan, xnnpack
from webpte.engine.format.bundled import BundledCase, is_bundle, parse_bundle
from webpte.engine.format.program import (
    Allocation,
    DelegateCall,
    Dynamism,
    EValue,
    ExecutionPlan,
    Instruction,
    JumpFalseCall,
    KernelCall,
    Operator,
    TensorMeta,
)
from webpte.engine.format.program import ProgramFile as FileProgram
from webpte.engine.format.ptd import read_ptd
from webpte.engine.format.shared import ScalarType
from webpte.engine.graph.graph import Graph, Tensor, Value, build_graph
from webpte.engine.open.open_source import open_bytes
from webpte.engine.portable import lookup_kernel
from webpte.engine.rewrite.dataflow import Dataflow
from webpte.engine.rewrite.passes import scale_after_norms, tie_buffer_outputs
from webpte.engine.rewrite.validate import unsupported_ops
from webpte.engine.xnnpack.lowering import ArgumentLayout, lower_graph
from webpte.engine.xnnpack.nodes import NODES
from webpte.errors import FormatError, GraphError, SourceError

# Methods that few callers need, each with the method that marks a file with them; such methods are
# read only on request.
OPTIONAL_METHODS = {"learn": "get_lora"}
# with the output, which is passed twice
WHOLE, WHOLE_ARGS = Operator("llama::sdpa_with_kv_cache", "out"), 13
UPDATE, ATTENTION = Operator("llama::update_cache", "out"), Operator("llama::custom_sdpa", "out")
VULKAN = "VulkanBackend"  # also the name under which the C++ WebGPU backend registers
XNNPACK = "XnnpackBackend"
BACKENDS = (VULKAN, XNNPACK)


@dataclass(frozen=True, eq=False)
class ParsedFile:
    """A `.pte` that methods were read from: its bytes, and where in them everything is."""

    source: ByteSource
    program: FileProgram


@dataclass(frozen=True)
class MethodContents:
    """A method with the graphs of its delegates; None for a delegate of another backend.

    `offloaded` maps delegates that were calls of kernels in the file to the names of the kernels.
    `stitched` maps each delegate to the steps that it was joined from, in order. `folded` counts
    the calls of each kernel that were folded into constants. `hosted` maps the `id` of an
    instruction to the reason why it runs on the host although there is a GPU. `narrow` are the
    buffers of int64 whose values always fit 32 bits.
    """

    plan: ExecutionPlan
    graphs: tuple[Graph | None, ...]
    info: MethodInfo
    file: ParsedFile
    named: dict[str, Region]
    offloaded: Mapping[int, str] = field(default_factory=dict)
    stitched: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    folded: Mapping[str, int] = field(default_factory=dict)
    hosted: Mapping[int, str] = field(default_factory=dict)
    narrow: frozenset[int] = frozenset()

    def steps(self, delegate: int) -> tuple[str, ...]:
        """Return the names of the file's steps that a delegate runs."""
        return self.stitched.get(delegate) or (
            self.offloaded.get(delegate, f"delegate {delegate}"),
        )


@dataclass(frozen=True)
class Contents:
    """The contents of a whole file, or of several that were joined.

    source   a file with the name of the program, and its size
    """

    source: NamedBytes
    methods: dict[str, MethodContents]
    cases: Mapping[str, tuple[BundledCase, ...]] = field(default_factory=dict)


class NamedBytes(Protocol):
    """A file's name and size."""

    @property
    def name(self) -> str: ...

    @property
    def size(self) -> int: ...


# A rewrite of a parsed file, before it is built.
Prepare = Callable[[Contents], Contents]


async def read_contents(
    source: ByteSource, data: Sequence[ByteSource] = (), optional: Collection[str] = ()
) -> Contents:
    """Read everything but the constants. `data` are the `.ptd` files that belong to the program.

    A bundled program is read as a whole, with the `cases` of each method. `optional` names methods
    of OPTIONAL_METHODS to read as well.
    """
    with naming(source):
        source, cases = await _unbundled(source)
        program = await pte.read_program(source)
    named = {
        key: Region(source, span.offset, span.size) for key, span in program.named_data.items()
    }
    for file in data:
        with naming(file):
            entries = await read_ptd(file)
        for key, entry in entries.items():
            if key in named:
                raise SourceError(f"{file.name}: {key!r} is in another file, too")
            named[key] = Region(file, entry.span.offset, entry.span.size)
    with naming(source):
        methods = await _read_methods(ParsedFile(source, program), named, optional)
    return Contents(source, methods, cases)


async def _read_methods(
    file: ParsedFile, named: dict[str, Region], optional: Collection[str]
) -> dict[str, MethodContents]:
    methods: dict[str, MethodContents] = {}
    source, program = file.source, file.program
    names = {plan.name for plan in program.methods}
    unread = {name for name, mark in OPTIONAL_METHODS.items() if mark in names} - set(optional)
    for plan in program.methods:
        if plan.name in unread:
            continue
        if plan.name in methods:
            raise FormatError(f"two methods are called {plan.name!r}", 0)
        taken, graphs = await _read_graphs(source, program, plan, named)
        fitted = _without_unused_inputs(split_attention(taken), graphs)
        fitted, graphs = _in_order(fitted, _tie_buffers(fitted, graphs))
        methods[plan.name] = MethodContents(fitted, graphs, described(fitted, graphs), file, named)
    return methods


async def _unbundled(
    source: ByteSource,
) -> tuple[ByteSource, Mapping[str, tuple[BundledCase, ...]]]:
    """Return the program inside a bundled program, with the cases; return other files unchanged."""
    if not is_bundle(await source.read(0, min(pte.HEAD_SIZE, source.size))):
        return source, {}
    data = await source.read(0, source.size)
    bundle = parse_bundle(data)
    program = data[bundle.program.offset : bundle.program.end]
    return open_bytes(program, source.name), bundle.cases


async def _read_graphs(
    source: ByteSource, program: FileProgram, plan: ExecutionPlan, named: dict[str, Region]
) -> tuple[ExecutionPlan, tuple[Graph | None, ...]]:
    """Read the graphs of a method's delegates, and fit the calls to graphs with fewer arguments."""
    graphs: list[Graph | None] = []
    layouts: dict[int, list[list[ArgumentLayout | None]]] = defaultdict(list)
    for call in plan.instructions:
        if isinstance(call, DelegateCall):
            layouts[call.delegate_index].append([_layout_of(plan, value) for value in call.args])
    places: dict[int, tuple[int, ...]] = {}
    for index, delegate in enumerate(plan.delegates):
        span = program.delegate_span(delegate) if delegate.id in BACKENDS else None
        if span is None:
            graphs.append(None)
            continue
        region = Region(source, span.offset, span.size)
        if delegate.id == VULKAN:
            blob = await vulkan.read_delegate(region)
            graphs.append(scale_after_norms(build_graph(blob, source, named)))
            continue
        given = layouts[index]
        if not given:  # nothing says which tensors the delegate takes, and nothing needs it
            graphs.append(None)
            continue
        layout = given[0]
        if any(other != layout for other in given):
            raise GraphError(f"delegate {index} is called with tensors of different layouts")
        xnn = await xnnpack.read_delegate(region)
        lowered = await lower_graph(xnn, source, named, layout, NODES)
        graphs.append(lowered.graph)
        places[index] = *lowered.inputs, *lowered.outputs
    return _with_arguments(plan, places) if places else plan, tuple(graphs)


def _layout_of(plan: ExecutionPlan, index: int) -> ArgumentLayout | None:
    value = plan.values[index]
    if not isinstance(value, TensorMeta):
        return None
    return ArgumentLayout(value.sizes, value.dim_order, value.dynamism != Dynamism.STATIC)


def _with_arguments(plan: ExecutionPlan, places: Mapping[int, tuple[int, ...]]) -> ExecutionPlan:
    """Keep the arguments at `places`, by delegate, in the calls of delegates, in that order."""

    def fitted(call: Instruction) -> Instruction:
        if not isinstance(call, DelegateCall) or call.delegate_index not in places:
            return call
        index, taken = call.delegate_index, places[call.delegate_index]
        if len(call.args) <= max(taken, default=-1):
            raise GraphError(
                f"delegate {index} is called with {len(call.args)} values, and takes {taken}"
            )
        return replace(call, args=tuple(call.args[place] for place in taken))

    chains = tuple(tuple(map(fitted, chain)) for chain in plan.chains)
    return replace(plan, chains=chains)


def _tie_buffers(plan: ExecutionPlan, graphs: tuple[Graph | None, ...]) -> tuple[Graph | None, ...]:
    """Tie surplus outputs to buffers: surplus outputs come first, and are new values of buffers."""
    tied = list(graphs)
    for call in (i for i in plan.instructions if isinstance(i, DelegateCall)):
        graph = graphs[call.delegate_index]
        if graph is not None:
            surplus = len(graph.inputs) + len(graph.outputs) - len(call.args)
            if 0 < surplus <= len(graph.outputs):
                try:
                    tied[call.delegate_index] = tie_buffer_outputs(graph, surplus)
                except GraphError as error:
                    raise GraphError(f"{_mismatch(plan, graph, call)}: {error}") from error
    return tuple(tied)


def _mismatch(plan: ExecutionPlan, graph: Graph, call: DelegateCall) -> str:
    return (
        f"method {plan.name!r}: delegate {call.delegate_index} has {len(graph.inputs)} inputs "
        f"and {len(graph.outputs)} outputs, but is called with {len(call.args)} values"
    )


def _in_order(
    plan: ExecutionPlan, graphs: tuple[Graph | None, ...]
) -> tuple[ExecutionPlan, tuple[Graph | None, ...]]:
    """Order the inputs of delegates as the inputs of the method, not by their first use.

    A method that is a single delegate with the method's inputs then needs no step in between.
    """
    ordered, chains = list(graphs), [list(chain) for chain in plan.chains]
    calls = [i for chain in chains for i in chain if isinstance(i, DelegateCall)]
    uses = Counter(call.delegate_index for call in calls)
    places = {index: place for place, index in enumerate(plan.inputs)}
    for chain in chains:
        for at, call in enumerate(chain):
            graph = ordered[call.delegate_index] if isinstance(call, DelegateCall) else None
            if not isinstance(call, DelegateCall) or graph is None:
                continue
            count = len(graph.inputs)
            if uses[call.delegate_index] > 1 or len(call.args) != count + len(graph.outputs):
                continue
            order = sorted(range(count), key=lambda n: places.get(call.args[n], len(places)))
            if order == list(range(count)):
                continue
            inputs = tuple(graph.inputs[n] for n in order)
            ordered[call.delegate_index] = Graph(graph.values, graph.calls, inputs, graph.outputs)
            chain[at] = replace(call, args=(*(call.args[n] for n in order), *call.args[count:]))
    return replace(plan, chains=tuple(map(tuple, chains))), tuple(ordered)


def split_attention(plan: ExecutionPlan) -> ExecutionPlan:
    """Split attention that also writes its caches into two updates and attention, for GPUs."""
    if WHOLE not in plan.operators:
        return plan
    values, chains = list(plan.values), []
    for chain in plan.chains:
        made, places = list[Instruction](), [0]
        for one in chain:
            made += _split_call(plan, one, values)
            places.append(len(made))
        moved = (
            replace(one, destination=places[one.destination])
            if isinstance(one, JumpFalseCall)
            else one
            for one in made
        )
        chains.append(tuple(moved))
    operators = (*plan.operators, UPDATE, ATTENTION)
    return replace(plan, values=tuple(values), chains=tuple(chains), operators=operators)


def _split_call(plan: ExecutionPlan, call: Instruction, values: list[EValue]) -> list[Instruction]:
    """Return the calls that an attention stands for; the updates' outputs become values."""
    if not isinstance(call, KernelCall) or plan.operators[call.op_index] != WHOLE:
        return [call]
    if len(call.args) != WHOLE_ARGS:
        return [call]  # the kernel itself reports the error
    query, key, value, keys, cached, start, _, *rest, out, returned = call.args
    update, attention, made = len(plan.operators), len(plan.operators) + 1, list[Instruction]()
    for new, cache in ((key, keys), (value, cached)):
        kind = plan.values[cache]
        scalar = kind.scalar_type if isinstance(kind, TensorMeta) else ScalarType.FLOAT
        # a place that no other value has: memory ids are counted from 1
        place = Allocation(0, len(values))
        args = (new, cache, start, len(values), len(values))
        made.append(replace(call, op_index=update, args=args))
        values.append(TensorMeta(scalar, (1,), (0,), 0, place, Dynamism.STATIC, None))
    given = (query, keys, cached, start, *rest, out, returned)
    return [*made, replace(call, op_index=attention, args=given)]


def _without_unused_inputs(plan: ExecutionPlan, graphs: tuple[Graph | None, ...]) -> ExecutionPlan:
    """Drop the values that calls pass although the graph has no input for them."""
    chains = tuple(
        tuple(_fit_call(plan, graphs, i) if isinstance(i, DelegateCall) else i for i in chain)
        for chain in plan.chains
    )
    return replace(plan, chains=chains)


def _fit_call(
    plan: ExecutionPlan, graphs: tuple[Graph | None, ...], call: DelegateCall
) -> DelegateCall:
    """Drop the unused values of a call, if their number and kinds leave a single choice."""
    graph = graphs[call.delegate_index]
    if graph is None or len(call.args) <= len(graph.inputs) + len(graph.outputs):
        return call
    first_output = len(call.args) - len(graph.outputs)
    passed = [(index, plan.values[index]) for index in call.args[:first_output]]
    taken = [graph.values[value_id] for value_id in graph.inputs]
    early, late = _first_fitting(passed, taken), _first_fitting(passed[::-1], taken[::-1])[::-1]
    # The exporter passes inputs in the order of their first use, and drops copies: of two values,
    # the first is the target of the copy, as in-place operators pass them, and the second its
    # source.
    copies = not graph.calls and set(graph.outputs) == set(graph.inputs) and len(passed) == 2
    # If several choices are possible, no value can be dropped.
    if (early != late and not copies) or len(late) < len(taken):
        return call
    return replace(call, args=(*late, *call.args[first_output:]))


def _first_fitting(passed: Sequence[tuple[int, EValue]], taken: Sequence[Value]) -> list[int]:
    """Return the first passed values that match the inputs of a graph, in order."""
    found: list[int] = []
    for index, value in passed:
        wanted = taken[len(found)] if len(found) < len(taken) else None
        if wanted is not None and _is_like(value, wanted) and _is_stored_like(value, wanted):
            found.append(index)
    return found


def _is_like(passed: EValue, taken: Value) -> bool:
    if not isinstance(passed, TensorMeta) or not isinstance(taken, Tensor):
        return not isinstance(passed, TensorMeta) and not isinstance(taken, Tensor)
    return passed.sizes == taken.dims or passed.is_unbounded


def _holds(passed: EValue, given: Value) -> bool:
    """Return whether a tensor of the program, whose sizes are bounds, can hold a graph's output."""
    if not isinstance(passed, TensorMeta) or not isinstance(given, Tensor):
        return False
    fits = len(passed.sizes) == len(given.dims) and passed.dynamism != Dynamism.STATIC
    return fits and all(map(int.__le__, given.dims, passed.sizes))


def _is_stored_like(passed: EValue, taken: Value) -> bool:
    if not isinstance(passed, TensorMeta) or not isinstance(taken, Tensor):
        return True
    return dtype_of_program(passed.scalar_type, "a delegate's input").stored == taken.dtype.stored


def described(plan: ExecutionPlan, graphs: tuple[Graph | None, ...]) -> MethodInfo:
    """Return the public facts about a method."""
    instructions = plan.instructions
    called = [_called_graph(plan, graphs, i) for i in instructions if isinstance(i, DelegateCall)]
    ops: Counter[str] = Counter()
    unsupported: Counter[str] = Counter()
    for graph in called:
        if graph is not None:
            ops.update(graph.op_counts())
            unsupported.update(unsupported_ops(graph))
    kernels = Counter(
        plan.operators[i.op_index].full_name for i in instructions if isinstance(i, KernelCall)
    )
    delegates = [delegate.id for delegate in plan.delegates]
    missing = Counter({name: n for name, n in kernels.items() if lookup_kernel(name) is None})
    return MethodInfo(
        name=plan.name,
        inputs=tuple(_describe_value(plan, f"input{i}", v) for i, v in enumerate(plan.inputs)),
        outputs=tuple(_describe_value(plan, f"output{i}", v) for i, v in enumerate(plan.outputs)),
        ops=dict(ops.most_common()),
        kernels_outside=dict(kernels.most_common()),
        unsupported=dict((unsupported + missing).most_common()),
        constants=_describe_constants([graph for graph in graphs if graph is not None]),
        is_constant=not instructions,
        keeps_state=_keeps_state(called, kernels),
        foreign=dict(Counter(name for name in delegates if name not in BACKENDS).most_common()),
    )


def _keeps_state(graphs: Iterable[Graph | None], kernels: Iterable[str]) -> bool:
    """Return whether delegates write to their buffers, or kernels to buffers of the method."""
    outside = (lookup_kernel(name) for name in kernels)
    return any(graph is not None and Dataflow.of(graph).state for graph in graphs) or any(
        kernel is not None and kernel.writes_arguments for kernel in outside
    )


def _called_graph(
    plan: ExecutionPlan, graphs: tuple[Graph | None, ...], call: DelegateCall
) -> Graph | None:
    graph = graphs[call.delegate_index]
    if graph is None:
        return None
    ids = (*graph.inputs, *graph.outputs)
    if len(call.args) != len(ids):
        raise GraphError(
            f"{_mismatch(plan, graph, call)}, and the file does not say which belong together; "
            "export without what the model computes and does not use"
        )
    bounds = plan.delegates[call.delegate_index].id != VULKAN
    for place, (index, value_id) in enumerate(zip(call.args, ids, strict=True)):
        passed, taken = plan.values[index], graph.values[value_id]
        bounded = bounds and place >= len(graph.inputs) and _holds(passed, taken)
        if not _is_like(passed, taken) and not bounded:
            raise GraphError(
                f"method {plan.name!r}: delegate {call.delegate_index}: value {place} of its call "
                f"is {_kind(passed)} in the program and {_kind(taken)} in the graph. The exporter "
                "writes a value that is returned twice, or also stored in a buffer, only once; "
                "return it once, and export buffers with "
                'VulkanPartitioner({"alias_buffer_mutations": True})'
            )
    return graph


def _kind(value: EValue | Value) -> str:
    if isinstance(value, TensorMeta):
        return f"a tensor {list(value.sizes)}"
    return f"a tensor {list(value.dims)}" if isinstance(value, Tensor) else "a number"


def _describe_value(plan: ExecutionPlan, name: str, index: int) -> TensorInfo | ScalarInfo:
    value: EValue = plan.values[index]
    if isinstance(value, TensorMeta):
        dtype = dtype_of_program(value.scalar_type, f"method {plan.name!r}, {name}")
        dynamic = value.dynamism != Dynamism.STATIC
        return TensorInfo(name, value.sizes, dtype.name, dynamic, value.is_unbounded)
    if value is None or isinstance(value, bool | int | float | str):
        return ScalarInfo(name, "None" if value is None else type(value).__name__, value)
    raise FormatError(
        f"method {plan.name!r}: {name} is a {type(value).__name__}, "
        "but methods take and return tensors and scalars",
        0,
    )


def _describe_constants(graphs: list[Graph]) -> tuple[ConstantInfo, ...]:
    """List the constants, largest first; constants at the same place in the files are one entry."""
    found: dict[Region, ConstantInfo] = {}
    for graph in graphs:
        for tensor in graph.tensors():
            if tensor.constant is None:
                continue
            place = tensor.constant.region.head(tensor.file_bytes)
            count = found[place].count + 1 if place in found else 1
            found[place] = ConstantInfo(
                tensor.constant.key, tensor.file_bytes, tensor.dims, tensor.dtype.name, count
            )
    return tuple(sorted(found.values(), key=lambda constant: -constant.nbytes))

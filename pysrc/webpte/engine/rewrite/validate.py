"""Validation of a graph before any of its calls is lowered."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from webpte.engine.graph.graph import PREPACK, Call, Constant, Graph, Tensor
from webpte.engine.graph.live_state import LiveState
from webpte.engine.ops import OpDef, definition_of
from webpte.engine.ops.move.symint import SELECT_AS_SYMINT
from webpte.engine.rewrite.dataflow import Dataflow
from webpte.engine.shapes import normalize_dim, normalize_index
from webpte.errors import (
    GraphError,
    PrepackArityError,
    PrepackBufferError,
    PrepackByteSizeError,
    PrepackDTypeError,
    PrepackElementSizeError,
    PrepackShapeError,
    PrepackSourceError,
    UnsupportedError,
    UnsupportedOpError,
    ValueKindError,
)


def unsupported_ops(graph: Graph) -> dict[str, int]:
    """Count the operators of the graph that have no definition, by name."""
    return dict(
        Counter(
            call.name
            for call in graph.calls
            if call.name != PREPACK and definition_of(call) is None
        )
    )


def resolve_ops(graph: Graph) -> dict[int, OpDef]:
    """Map call indices to definitions; prepacks map to None."""
    if missing := unsupported_ops(graph):
        raise UnsupportedOpError("a delegate", missing)
    return {call.index: op for call in graph.calls if (op := definition_of(call)) is not None}


def check_arity(graph: Graph) -> None:
    """Check that every call has as many arguments as its op takes; later code relies on it."""
    live = LiveState(graph)
    for index, op in resolve_ops(graph).items():
        op.bind(graph.calls[index], graph, live)


@dataclass(frozen=True)
class ConstantTransfer:
    """A copy of bytes from the file into a tensor's buffer, made once before the first call."""

    constant: Constant
    target: Tensor


def constant_transfers(graph: Graph) -> list[ConstantTransfer]:
    """List the copies of the prepack phase.

    A constant that ops use directly has a buffer. A constant that a prepack reads is copied to the
    buffer of the prepack's output instead.
    """
    flow = Dataflow.of(graph)
    transfers = [ConstantTransfer(*check_prepack(graph, call)) for call in flow.prepacks]
    transfers += [
        ConstantTransfer(tensor.constant, tensor)
        for tensor in graph.tensors()
        if tensor.constant is not None and tensor.id in flow.used
    ]
    return transfers


def check_prepack(graph: Graph, call: Call) -> tuple[Constant, Tensor]:
    """Return the source and the target of a prepack node; raise if the node is invalid."""
    if len(call.args) != 2:
        raise PrepackArityError(f"{call}: takes a source and an output, not {len(call.args)} ids")
    source, out = graph.tensor(call.args[0]), graph.tensor(call.args[1])
    where = f"{call}: {_describe(source)} into {_describe(out)}"
    if source.dtype.itemsize != out.dtype.itemsize:
        raise PrepackElementSizeError(f"{where}: their elements have different sizes")
    if source.dtype.name != out.dtype.name:
        raise PrepackDTypeError(f"{where}: a prepack moves bytes and cannot convert them")
    if source.file_bytes != out.file_bytes:
        raise PrepackByteSizeError(f"{where}: {source.file_bytes} bytes into {out.file_bytes}")
    if source.dims != out.dims:
        raise PrepackShapeError(f"{where}: their dims differ")
    packed = Dataflow.of(graph).prepacked[out.id]
    shared = out.constant is not None or out.mem_obj_id is not None or out.id in graph.inputs
    if shared or packed > 1:
        raise PrepackBufferError(f"{where}: the output needs a buffer of its own")
    if source.constant is None:
        raise PrepackSourceError(
            f"{where}: the source is neither a constant, nor an input, nor computed before it"
        )
    return source.constant, out


def _describe(tensor: Tensor) -> str:
    return f"value {tensor.id} ({tensor.dtype.name} {list(tensor.dims)})"


def check_defined(graph: Graph) -> None:
    """Check that every tensor is written before it is read, so that no call reads uninitialised
    memory.

    A prepacked tensor exists before the first call, wherever the prepack stands.
    """
    flow = Dataflow.of(graph)
    defined = set(flow.given)
    for call in graph.calls:
        for value_id in flow.reads(call):
            if value_id not in defined:
                raise GraphError(f"{call}: reads tensor value {value_id} before anything wrote it")
        check_distinct(flow, call)
        defined.update(flow.gives(call))
    for value_id in graph.outputs:
        if value_id not in defined:
            raise GraphError(f"output value {value_id} is never written")


def check_distinct(flow: Dataflow, call: Call) -> None:
    """Check that no op overwrites a tensor that it reads, except to change it in place."""
    outputs = set(flow.gives(call)).difference(flow.changes(call))
    for value_id in flow.reads(call):
        if value_id in outputs:
            raise GraphError(f"{call}: writes to tensor value {value_id}, which it reads")


@dataclass(frozen=True)
class SymIntSource:
    """A SymInt from an element of a host input: `index` along `dim`, 0 along other dims."""

    symint: int
    input: int
    dim: int
    index: int


def symint_sources(graph: Graph, ops: dict[int, OpDef]) -> tuple[SymIntSource, ...]:
    """List the inputs that `select_as_symint` calls read; the host only has inputs."""
    sources = []
    live = LiveState(graph)
    for index, op in ops.items():
        call = graph.calls[index]
        if op.name != SELECT_AS_SYMINT or not graph.is_symint(call.args[-1]):
            continue
        args = op.bind(call, graph, live)
        tensor = args.tensor("self")
        if tensor.id not in graph.inputs:
            raise UnsupportedError(
                f"{call}: reads tensor value {tensor.id}, which is not an input; "
                "only inputs can be read on the host"
            )
        if tensor.dtype.numpy.kind not in "iu":
            raise ValueKindError(
                f"{call}: reads a SymInt from tensor value {tensor.id}, which is "
                f"{tensor.dtype.name}; only an integer can be a SymInt, and nothing is rounded"
            )
        dim = normalize_dim(args.integer("dim"), tensor.rank)
        sources.append(SymIntSource(call.args[-1], tensor.id, dim, args.integer("index")))
    return tuple(sources)


def read_symint(source: SymIntSource, value: np.ndarray | int) -> int:
    """Return the element that a SymInt stands for."""
    array = np.asarray(value)
    at = [
        normalize_index(source.index if dim == source.dim else 0, size)
        for dim, size in enumerate(array.shape)
    ]
    return int(array[tuple(at)])

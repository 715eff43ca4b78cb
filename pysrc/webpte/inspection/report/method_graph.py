"""A method as a graph of calls and values, as `Program.graph` returns it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

from webpte.engine.format.frames import Frame, own_line
from webpte.engine.ops.core.records import Dispatch, Grid
from webpte.engine.plan.shaders import ShaderLibrary
from webpte.engine.shapes import Dims
from webpte.inspection.report.operator_words import operator_words
from webpte.inspection.report.report import HIDDEN, Report, ReportTable
from webpte.inspection.report.uniforms import read_params
from webpte.inspection.report.weight_stats import StoredConstant

KERNEL = "kernel "  # prefix of the origin of a kernel outside of delegates


@dataclass(frozen=True)
class Argument:
    """An argument of a call: a number, a text or a list as `value`, tensors as keys of `values`."""

    name: str
    kind: str  # as declared by the operator: tensor, tensors, int, number, ...
    value: Any
    values: tuple[str, ...] = ()


@dataclass(frozen=True)
class GraphKernel:
    """A dispatch of a call; `wgsl` and `params` are computed on access."""

    name: str  # name of the file in wgsl/
    grid: Grid
    overrides: Mapping[str, float]
    types: Mapping[str, str]
    _code: Callable[[], str] = field(repr=False, compare=False, metadata=HIDDEN)
    _block: bytes = field(repr=False, compare=False, metadata=HIDDEN)  # of uniforms

    @property
    def wgsl(self) -> str:
        """The complete shader that the GPU compiles."""
        return self._code()

    @property
    def params(self) -> dict[str, Any]:
        """The uniform block's values, by the names in the shader's `struct Params`."""
        return read_params(self.wgsl, self._block)


def kernel_of(record: Dispatch, library: ShaderLibrary) -> GraphKernel:
    """Return the kernel of a dispatch."""
    overrides, types = dict(record.overrides), dict(record.types)
    code = partial(_code_of, record, library)
    return GraphKernel(record.kernel, record.grid, overrides, types, code, record.params)


def _code_of(record: Dispatch, library: ShaderLibrary) -> str:
    return library.assemble(record.kernel, record.types).code


@dataclass(frozen=True)
class Node:
    """A call.

    `where` is "gpu", "alias" (no work: it shares memory), "host", "folded" (computed when the
    program was loaded) or, in the file, "delegate". `why` is the reason if the call runs on the
    host.
    """

    id: int
    op: str
    label: str  # as in error messages
    where: str
    why: str | None
    delegate: int | None  # number of the delegate's call in the method
    place: int  # the instruction of the method
    call: int | None  # its number in the graph of the delegate
    arguments: tuple[Argument, ...]
    inputs: tuple[str, ...]  # keys of values
    outputs: tuple[str, ...]
    changes: tuple[str, ...]  # inputs that it writes to
    kernels: tuple[GraphKernel, ...]
    layer: str | None = None
    parts: tuple[str, ...] = ()  # the operators that a fused call stands for, in order
    origins: tuple[str, ...] = ()  # the calls of the file that it stands for, see `links`
    frames: tuple[Frame, ...] = ()  # lines of the model that it comes from, the outermost first
    _keys: Mapping[int, str] = field(
        default_factory=dict, repr=False, compare=False, metadata=HIDDEN
    )

    @property
    def line(self) -> Frame | None:
        """The line of the model that it comes from, if the export has them (`emit_stacktrace`)."""
        return own_line(self.frames)


def key_of(node: Node, value_id: int) -> str:
    """Return the key of a value of the node's delegate, used by a call or not."""
    return node._keys.get(value_id, f"{node.delegate}.{value_id}")


@dataclass(frozen=True)
class GraphValue:
    """A tensor or a number between calls.

    `kind` is "input", "output", "constant", "state", "temporary" or "number"; `shape` is the live
    shape of the last run, and `largest` the shape that memory is allocated for.
    """

    key: str
    kind: str
    dtype: str
    shape: Dims
    largest: Dims
    number: int | None  # value of a SymInt, at the last run
    constant: StoredConstant | None


@dataclass(frozen=True)
class Edge:
    """A value between two calls; without a source it is an input, without a target an output."""

    source: int | None
    target: int | None
    value: str


@dataclass(frozen=True)
class LayerGroup:
    """`count` equal blocks of calls, each a range of nodes."""

    name: str
    count: int
    calls: int  # calls of a block
    ranges: tuple[tuple[int, int], ...]

    def __str__(self) -> str:
        return f"{self.name} x{self.count}"


@dataclass(frozen=True)
class MethodGraph(Report):
    """The graph of a method: calls in order, the values between them, and its repeated blocks."""

    program: str
    method: str
    stage: str
    nodes: tuple[Node, ...]
    values: Mapping[str, GraphValue]
    edges: tuple[Edge, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    layers: tuple[LayerGroup, ...]

    @property
    def constants(self) -> list[GraphValue]:
        """The values that are initialized from the file, largest first."""
        found = [value for value in self.values.values() if value.constant is not None]
        return sorted(found, key=lambda v: -(v.constant.nbytes if v.constant else 0))

    @cached_property
    def _ends(self) -> tuple[dict[str, list[Node]], dict[str, list[Node]]]:
        writers: dict[str, list[Node]] = {}
        readers: dict[str, list[Node]] = {}
        for node in self.nodes:
            for key in (*node.outputs, *node.changes):
                writers.setdefault(key, []).append(node)
            for key in node.inputs:
                readers.setdefault(key, []).append(node)
        return writers, readers

    def writers(self, key: str) -> list[Node]:
        """Return the calls that write a value, or change it."""
        return self._ends[0].get(key, [])

    def readers(self, key: str) -> list[Node]:
        return self._ends[1].get(key, [])

    def find(self, text: str) -> list[Node]:
        """Find the calls with a text in their operator or label; "linear" finds `addmm`, too."""
        wanted = text.lower()
        return [n for n in self.nodes if wanted in f"{operator_words(n.op)} {n.label.lower()}"]

    def table(self) -> ReportTable:
        rows = [
            (node.id, node.op, node.where, node.layer or "", self._shapes(node), len(node.kernels))
            for node in self.nodes
        ]
        counts: dict[str, int] = {}
        for node in self.nodes:
            counts[node.where] = counts.get(node.where, 0) + 1
        where = ", ".join(f"{count} {name}" for name, count in counts.items())
        title = f"{self.program}, {self.method} ({self.stage}): {len(rows)} calls, {where}"
        groups = ", ".join(map(str, self.layers))
        headings = ("id", "op", "where", "layer", "gives", "kernels")
        return ReportTable(title, headings, rows, (f"repeated: {groups}",) if groups else ())

    def _shapes(self, node: Node) -> str:
        values = [self.values[key] for key in node.outputs if key in self.values]
        return ", ".join(f"{v.dtype} {list(v.shape)}" for v in values if v.kind != "number")


def _kernels(graph: MethodGraph) -> dict[str, list[int]]:
    """Map kernels outside of delegates to the calls that stand for them."""
    found: dict[str, list[int]] = {}
    for node in graph.nodes:
        for origin in node.origins:
            if origin.startswith(KERNEL):
                found.setdefault(origin, []).append(node.id)
    return found


def links(planned: MethodGraph, file: MethodGraph) -> dict[int, tuple[int, ...]]:
    """Return the calls of the file's graph that each call of the planned graph stands for.

    A call that webpte has added stands for no call. Kernels outside of delegates are matched in
    order, unless some were folded: then it is not known which kernels are left.
    """
    places = {
        origin: node.id
        for node in file.nodes
        for origin in node.origins
        if not origin.startswith(KERNEL)
    }
    kernels = [_kernels(graph) for graph in (planned, file)]
    found: dict[int, tuple[int, ...]] = {}
    for node in planned.nodes:
        ids = [places[origin] for origin in node.origins if origin in places]
        ids += [
            kernels[1][name][kernels[0][name].index(node.id)]
            for name in node.origins
            if name in kernels[0] and len(kernels[0][name]) == len(kernels[1].get(name, ()))
        ]
        found[node.id] = tuple(sorted(set(ids)))
    return found

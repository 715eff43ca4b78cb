"""A plan of a compiled program as a graph: its dispatches, and the bytes that pass between them.

A plan reuses buffers, so a buffer is not a value: each write makes a new value of the bytes that it
covers, and a read takes the values that lie there. A write to bytes that nothing has read since the
last write may leave some of the bytes unchanged, so it takes the value of that write, too.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from webpte.compiling.read_compiled import CompiledFiles, Table
from webpte.errors import UnsupportedError
from webpte.inspection.report import MethodGraph
from webpte.inspection.report.layers import group_layers
from webpte.inspection.report.method_graph import (
    Argument,
    Edge,
    GraphKernel,
    GraphValue,
    Node,
)

COMPILED = "compiled"  # the stage of such a graph
MOST_PIECES = 1000  # of a buffer: a graph of more could not be read
BYTES = "bytes"  # stands for the dtype of values whose dtype a description does not tell


def dispatch_graph(compiled: CompiledFiles, file: str, method: str, plan: int) -> MethodGraph:
    """Return the graph of a plan of a method, as the description in `file` has it."""
    return _Tracer(compiled, compiled.tables[file], method, plan).graph()


def planned_methods(table: Table) -> dict[str, list[Table]]:
    """Return the plans of each method that has dispatches."""
    return {name: one["plans"] for name, one in table["methods"].items() if one.get("plans")}


class _Tracer:
    """Follows the bytes of buffers through the dispatches of a plan."""

    def __init__(self, compiled: CompiledFiles, table: Table, method: str, plan: int) -> None:
        self._compiled, self._table, self._method = compiled, table, method
        self._plan: Table = planned_methods(table)[method][plan]
        self._values: dict[str, GraphValue] = {}
        self._writers: dict[str, int] = {}  # by value: the dispatch that wrote it
        self._read: set[str] = set()  # values that something has read
        # The values of a buffer, as ranges of its bytes in order.
        self._lying: dict[int, list[tuple[int, int, str]]] = {}
        self._stored = {buffer: rest for buffer, *rest in table["constants"]}
        self._blocks = {
            (buffer, offset): struct.pack(f"<{len(words)}I", *words)
            for buffer, offset, words in table["contents"]
        }
        bound = (
            (access, resource[0])
            for plans in planned_methods(table).values()
            for one in plans
            for kernel, resources, _ in one["dispatches"]
            for access, resource in zip(
                table["kernels"][kernel]["bindings"], resources, strict=True
            )
        )
        self._written = {buffer for access, buffer in bound if access == "write"}
        self._inputs = {
            buffer: [i for i, one in enumerate(self._plan["packed"]) if one and one[0] == offset]
            for buffer, offset, _ in self._plan["uploads"]
        }

    def graph(self) -> MethodGraph:
        plan, nodes, edges = self._plan, list[Node](), list[Edge]()
        for at, (dispatch, label) in enumerate(
            zip(plan["dispatches"], plan["labels"], strict=True)
        ):
            node = self._node(at, label, dispatch)
            edges += [Edge(self._writers.get(key), at, key) for key in node.inputs]
            self._writers |= dict.fromkeys(node.outputs, at)
            nodes.append(node)
        outputs = list(self._outputs())
        edges += [Edge(self._writers.get(key), None, key) for key in outputs]
        groups = group_layers(nodes, self._values)
        for group in groups:
            for number, (start, stop) in enumerate(group.ranges):
                for i in range(start, stop):
                    nodes[i] = replace(nodes[i], layer=f"{group.name} {number}")
        inputs = [key for key, value in self._values.items() if value.kind == "input"]
        edges = [one for one in edges if one.source is not None or one.value in inputs]
        return MethodGraph(
            self._compiled.name, self._method, COMPILED, tuple(nodes), self._values,
            tuple(edges), tuple(inputs), tuple(outputs), groups,
        )  # fmt: skip

    def _node(self, at: int, label: str, dispatch: list[Any]) -> Node:
        number, resources, grid = dispatch
        kernel = self._table["kernels"][number]
        inputs, outputs, told, block = list[str](), list[str](), list[Argument](), b""
        bound = list(zip(kernel["bindings"], resources, strict=True))
        for binding, (access, (buffer, offset, size)) in enumerate(bound):
            keys: tuple[str, ...] = ()
            if access == "uniform":
                block = self._blocks.get((buffer, offset), b"").ljust(size, b"\0")
            elif access == "read":
                keys = tuple(self._take(buffer, offset, offset + size))
                inputs += keys
            name = f"binding {binding}"
            told.append(Argument(name, access, self._place(buffer, offset, size)))
            told += [Argument(name, access, None, keys)] if keys else []
        for binding, (access, (buffer, offset, size)) in enumerate(bound):
            if access == "write":  # after all reads: it may be the same buffer
                inputs += self._unread(buffer, offset, offset + size)
                outputs.append(self._give(at, binding, buffer, offset, offset + size))
        stem = kernel["label"] or kernel["wgsl"].rpartition("/")[2]
        code = partial(_code_of, self._compiled.shaders, kernel["wgsl"])
        shown = GraphKernel(stem, tuple(grid), dict(kernel["overrides"]), {}, code, block)
        return Node(
            at, label or stem, f"dispatch {at}, {stem}", "gpu", None, None, at, at,
            tuple(told), tuple(dict.fromkeys(inputs)), tuple(outputs), (), (shown,),
        )  # fmt: skip

    def _place(self, buffer: int, offset: int, size: int) -> str:
        """Describe the bytes of a binding, and of a constant where the files have them."""
        told = f"buffer {buffer}, {size:,} bytes" + (f" from {offset:,}" if offset else "")
        if buffer in self._stored:
            file, start, *_ = self._stored[buffer]
            told += f": {self._table['files'][file]['name']} from {start:,}"
        return told

    def _ranges(self, buffer: int) -> list[tuple[int, int, str]]:
        whole = (0, self._table["buffers"][buffer], f"buffer {buffer}")
        return self._lying.setdefault(buffer, [whole])

    def _take(self, buffer: int, start: int, stop: int) -> Iterator[str]:
        """Yield the values that lie in a range, which is read."""
        for first, last, key in self._ranges(buffer):
            if first < stop and start < last:
                if key not in self._values:
                    self._values[key] = self._first(buffer, key)
                self._read.add(key)
                yield key

    def _first(self, buffer: int, key: str) -> GraphValue:
        """Return the value that a buffer has before the first dispatch."""
        size, is_input = self._table["buffers"][buffer], bool(self._inputs.get(buffer))
        if is_input:
            number = self._inputs[buffer][0]
            shape = tuple(self._plan["shapes"][number])
            dtype = self._table["methods"][self._method]["inputs"][number]["dtype"]
            return GraphValue(key, "input", dtype, shape, shape, None, None)
        if buffer in self._stored or self._table["uses"][buffer] == "constant":
            return _bytes(key, "constant", size)
        return _bytes(key, "state" if buffer in self._written else "zeros", size)

    def _unread(self, buffer: int, start: int, stop: int) -> list[str]:
        """Return the values in a range that dispatches wrote and nothing has read."""
        return [
            key
            for first, last, key in self._ranges(buffer)
            if first < stop and start < last and key in self._writers and key not in self._read
        ]

    def _give(self, at: int, binding: int, buffer: int, start: int, stop: int) -> str:
        """Put a new value into a range, and return its key."""
        key = f"buffer {buffer} of {at}.{binding}"
        kept = list[tuple[int, int, str]]()
        for first, last, old in self._ranges(buffer):
            kept += [(first, min(last, start), old)] if first < start else []
            kept += [(max(first, stop), last, old)] if last > stop else []
        if len(kept) >= MOST_PIECES:
            raise UnsupportedError(
                f"buffer {buffer} is written in more than {MOST_PIECES:,} pieces: too many to show"
            )
        self._lying[buffer] = sorted([*kept, (start, stop, key)])
        self._values[key] = _bytes(key, "temporary", stop - start)
        return key

    def _outputs(self) -> Iterator[str]:
        """Yield the values of the method's outputs, in their order."""
        for one in self._plan["results"]:
            for buffer, size, offset in self._plan["readbacks"]:
                if "symint" in one or not offset <= one["offset"] < offset + size:
                    continue
                start = one["offset"] - offset
                for key in list(self._take(buffer, start, start + 1)):
                    shape, value = tuple(one["shape"]), self._values[key]
                    kind = "output" if value.kind == "temporary" else value.kind
                    self._values[key] = GraphValue(
                        key, kind, one["dtype"], shape, shape, None, None
                    )
                    yield key


def _code_of(shaders: Mapping[str, str], file: str) -> str:
    return shaders.get(file, "")


def _bytes(key: str, kind: str, size: int) -> GraphValue:
    return GraphValue(key, kind, BYTES, (size,), (size,), None, None)


def totals(table: Mapping[str, Any]) -> tuple[int, int]:
    """Return the bytes of all buffers of a description, and of its constants."""
    stored = sum(size for _, _, _, size, _ in table["constants"])
    return sum(table["buffers"]), stored

"""Writes one method of a program; see `pte_writer` for how to use it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from support.write.flat_writer import (
    BYTES_ALIGNMENT,
    Bytes,
    Node,
    Scalar,
    Vector,
    i32s,
    padded,
    raw_bytes,
    union,
)
from support.write.graph_writer import GraphWriter, HostTensor

Literal: TypeAlias = "bool | int | float | str | Sequence[Any] | Host | None"

SCALAR_TYPES = {
    name: number
    for number, name in enumerate(
        ["uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"]
    )
} | {"bool": 11, "bfloat16": 15, "uint16": 27, "uint32": 28, "uint64": 29}


@dataclass(frozen=True)
class Host:
    """A value of a method, by index."""

    index: int


@dataclass
class Delegate:
    graph: GraphWriter | bytes
    id: str
    compile_specs: Mapping[str, bytes]


@dataclass
class MethodWriter:
    """A writer of one execution plan. Arguments are `Host` values or literals."""

    values: list[Node] = field(default_factory=list)
    instructions: list[Node] = field(default_factory=list)
    frames: dict[int, list[Node]] = field(default_factory=dict)  # by instruction
    operators: list[str] = field(default_factory=list)
    delegates: list[Delegate] = field(default_factory=list)
    input_values: list[Host] = field(default_factory=list)
    output_values: list[Host] = field(default_factory=list)
    # Bytes of constant and of mutable tensors, with the tensor whose buffer index is not set yet.
    constant_data: list[tuple[Node, bytes]] = field(default_factory=list)
    mutable_data: list[tuple[Node, bytes]] = field(default_factory=list)
    planned_bytes: int = 0

    @classmethod
    def of(cls, graph: GraphWriter, *, delegate_id: str = "VulkanBackend") -> MethodWriter:
        """Write a method that calls one delegate, with tensors like its inputs and outputs."""
        method = cls()
        seen: dict[int, Host] = {}

        def mirror(value_id: int) -> Host:
            if value_id not in seen:
                seen[value_id] = method.mirror(graph, value_id)
            return seen[value_id]

        method.inputs(*(mirror(value_id) for value_id in graph.input_ids))
        method.outputs(*(mirror(value_id) for value_id in graph.output_ids))
        method.delegate(
            graph, [*method.input_values, *method.output_values], delegate_id=delegate_id
        )
        return method

    @classmethod
    def constant(cls, value: Literal) -> MethodWriter:
        """Write a method that returns a constant; a list returns its members."""
        method = cls()
        members = value if isinstance(value, list | tuple) else [value]
        method.outputs(*(method.value(member) for member in members))
        return method

    def mirror(self, graph: GraphWriter, value_id: int) -> Host:
        """Add a value like one of the graph."""
        if value_id in graph.symints:
            return self.value(graph.symints[value_id])
        if value_id not in graph.shapes:
            return self.value(None)
        dims, dtype = graph.shapes[value_id]
        host = graph.host_tensors.get(value_id, HostTensor())
        sizes = dims if host.sizes is None else host.sizes
        if graph.halves and dtype == "float16":
            dtype = "float32"
        return self.tensor(sizes, host.dtype or dtype, dynamic=host.dynamic)

    def tensor(
        self,
        sizes: Sequence[int] = (),
        dtype: str = "float32",
        *,
        dynamic: bool = False,
        data: Bytes | None = None,
        mutable: bool = False,
        external: str | None = None,
        dim_order: Sequence[int] | None = None,
        planned: bool = True,
    ) -> Host:
        """Add a host tensor: planned memory, a constant (`data`), or mutable with initial `data`.

        `external` is a name in a `.ptd`.
        """
        is_planned = planned and external is None and (data is None or mutable)
        order = range(len(sizes)) if dim_order is None else dim_order
        extra = None
        if external is not None:
            extra = Node({1: external, 2: Scalar("i8", 1)})
        node = Node(
            {
                0: Scalar("i8", SCALAR_TYPES[dtype]),
                2: i32s(sizes),
                3: Vector("u8", list(order)),
                6: self._plan(sizes, dtype) if is_planned else None,
                8: Scalar("i8", int(dynamic)),
                9: extra,
            }
        )
        if data is not None:
            (self.mutable_data if mutable else self.constant_data).append((node, raw_bytes(data)))
        return self._append(5, node)

    def _plan(self, sizes: Sequence[int], dtype: str) -> Node:
        offset = self.planned_bytes
        nbytes = (
            int(np.prod(sizes, dtype=np.int64))
            * np.dtype("uint16" if dtype == "bfloat16" else dtype).itemsize
        )
        self.planned_bytes += padded(nbytes, BYTES_ALIGNMENT)
        low, high = offset & 0xFFFFFFFF, offset >> 32
        return Node({0: Scalar("u32", 1), 1: Scalar("u32", low), 2: Scalar("u32", high)})

    def value(self, literal: Literal) -> Host:
        """Turn a literal into a value.

        Lists: of ints (with values among them), floats, bools, tensors, tensors or None.
        """
        match literal:
            case Host():
                return literal
            case None:
                return self._append(1, Node({}))
            case bool():
                return self._append(3, Node({0: Scalar("u8", literal)}))
            case int():
                return self._append(2, Node({0: Scalar("i64", literal)}))
            case float():
                return self._append(4, Node({0: Scalar("f64", literal)}))
            case str():
                return self._append(6, Node({0: literal}))
        return self._list(list(literal))

    def _list(self, items: list[Any]) -> Host:
        if items and all(isinstance(item, bool) for item in items):
            return self._append(9, Node({0: Vector("u8", items)}))
        if items and all(isinstance(item, float) for item in items):
            return self._append(8, Node({0: Vector("f64", items)}))
        numbers = any(isinstance(item, int) for item in items)
        if not items or (numbers and all(isinstance(item, int | Host) for item in items)):
            members = [self.value(item).index for item in items]
            return self._append(7, Node({0: Vector("i64", members)}))
        if all(isinstance(item, Host) for item in items):
            return self._append(10, Node({0: i32s(item.index for item in items)}))
        indices = [-1 if item is None else item.index for item in items]
        return self._append(11, Node({0: i32s(indices)}))

    def inputs(self, *values: Host) -> None:
        self.input_values.extend(values)

    def outputs(self, *values: Host) -> None:
        self.output_values.extend(values)

    def input(self, index: int) -> Host:
        return self.input_values[index]

    def output(self, index: int) -> Host:
        return self.output_values[index]

    def line(self, file: str, number: int, function: str, code: str) -> None:
        """Add a line of source to the last instruction, inside of its present lines."""
        frame = Node({0: file, 1: Scalar("i32", number), 2: function, 3: code})
        self.frames.setdefault(len(self.instructions) - 1, []).append(frame)

    def kernel(self, name: str, *args: Literal) -> None:
        """Call an operator, named such as `aten::topk.values`."""
        if name not in self.operators:
            self.operators.append(name)
        indices = i32s([self.value(arg).index for arg in args])
        self._instruction(1, Node({0: Scalar("i32", self.operators.index(name)), 1: indices}))

    def delegate(
        self,
        graph: GraphWriter | bytes,
        args: Sequence[Host],
        *,
        delegate_id: str = "VulkanBackend",
        compile_specs: Mapping[str, bytes] | None = None,
    ) -> None:
        """Call a delegate: a graph, or the bytes of its blob. Args are inputs, then outputs."""
        self.delegates.append(Delegate(graph, delegate_id, compile_specs or {}))
        self.call_again(len(self.delegates) - 1, args)

    def call_again(self, number: int, args: Sequence[Host]) -> None:
        """Call an existing delegate, by its number."""
        indices = i32s(arg.index for arg in args)
        self._instruction(2, Node({0: Scalar("i32", number), 1: indices}))

    def move(self, source: Host, target: Host) -> None:
        self._instruction(3, Node({0: Scalar("i32", source.index), 1: Scalar("i32", target.index)}))

    def jump_false(self, condition: Host, destination: int) -> None:
        self._instruction(
            4, Node({0: Scalar("i32", condition.index), 1: Scalar("i32", destination)})
        )

    def free(self, value: Host) -> None:
        self._instruction(5, Node({0: Scalar("i32", value.index)}))

    def _instruction(self, tag: int, node: Node) -> None:
        self.instructions.append(union(tag, node))

    def _append(self, tag: int, node: Node) -> Host:
        self.values.append(union(tag, node))
        return Host(len(self.values) - 1)

"""Writes small `.pte` and `.ptd` files for tests, valid and deliberately broken ones.

It shares no code with the readers in `webpte.engine.format`, so that each checks the other.

    g = GraphWriter()
    x, y = g.tensor((2, 3)), g.tensor((2, 3))
    w = g.tensor((3,), constant=np.ones(3, np.float32))
    g.op("aten.add.Tensor", x, g.prepack(w), g.int(1), y)
    g.inputs(x)
    g.outputs(y)
    data = write_pte(g)

`write_pte` gives the method `forward` one host tensor per graph input and output; `g.host` changes
it. For operators outside of the delegate, write the method first:

    m = MethodWriter.of(g)
    z = m.tensor((2, 3))
    m.kernel("aten::logcumsumexp.out", m.output(0), 1, z, z)
    m.outputs(z)
    data = write_pte(m)

Deliberately broken: `GraphWriter(constants_table=False)`, `g.tensor(..., constant_id=99)`,
`write_pte(g, named_data={key: None})` (no such key) or `{key: b"short"}`,
`g.op("et_vk.prepack.default", w)` (arity), and `edit=` for everything else: it gets the tree of
`Node`s just before it is written.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from support.write.flat_writer import (
    BYTES_ALIGNMENT,
    Bytes,
    Node,
    Scalar,
    Vector,
    i32s,
    padded,
    raw_bytes,
    write_flatbuffer,
)
from support.write.graph_writer import GraphWriter
from support.write.method_writer import SCALAR_TYPES, Delegate, Host, Literal, MethodWriter

__all__ = [
    "GraphWriter",
    "Host",
    "MethodWriter",
    "Node",
    "Scalar",
    "Vector",
    "constants_of",
    "write_flatbuffer",
    "write_ptd",
    "write_pte",
]

SEGMENT_ALIGNMENT = 128


Method: TypeAlias = GraphWriter | MethodWriter


def write_pte(
    forward: Method | None = None,
    *,
    methods: Mapping[str, Method] | None = None,
    constant_methods: Mapping[str, Literal] | None = None,
    extended_header: bool = True,
    header_length: int = 32,
    inline_constants: bool = False,
    inline_delegates: bool = False,
    external_constants: bool = False,
    named_data: Mapping[str, Bytes | None] | None = None,
    delegate_id: str = "VulkanBackend",
    edit: Callable[[Node], None] | None = None,
) -> bytes:
    """Write a `.pte` file.

    `forward` and `methods` (name -> graph or method) share named data. `constant_methods` maps
    names to returned values. Without `extended_header` there are no segments: delegates and
    constants are inline, as in old files. `external_constants` leaves the constants out; put
    `constants_of(graph)` into a `.ptd`. `named_data` adds or replaces entries, or drops them with
    None. `edit` gets the program's tree before it is written.
    """
    plans: dict[str, MethodWriter] = {}
    named = ({} if forward is None else {"forward": forward}) | dict(methods or {})
    for name, method in named.items():
        if isinstance(method, GraphWriter):
            plans[name] = MethodWriter.of(method, delegate_id=delegate_id)
        else:
            plans[name] = method
    for name, value in (constant_methods or {}).items():
        plans[name] = MethodWriter.constant(value)
    file = _ProgramFile(inline_delegates=inline_delegates, has_segments=extended_header)
    inline_constants = inline_constants or not extended_header
    nodes = [file.plan(name, plan, inline_constants) for name, plan in plans.items()]
    if not (inline_constants or external_constants):
        for plan in plans.values():
            for delegate in plan.delegates:
                if isinstance(delegate.graph, GraphWriter):
                    file.named.update(constants_of(delegate.graph))
    for key, data in (named_data or {}).items():
        file.named.pop(key, None)
        if data is not None:
            file.named[key] = raw_bytes(data)
    root = file.program(nodes)
    if edit:
        edit(root)
    flatbuffer = write_flatbuffer(root, b"ET12")
    if not extended_header:
        return flatbuffer
    return _with_segments(flatbuffer, file.segments, header_length)


def constants_of(*graphs: GraphWriter) -> dict[str, bytes]:
    """Return the named data of graphs: key -> bytes."""
    return {c.key: c.data for graph in graphs for c in graph.constants if c.data}


class _ProgramFile:
    """The segments, collected while the plans are written."""

    def __init__(self, *, inline_delegates: bool, has_segments: bool) -> None:
        self.inline_delegates: list[Node] = []
        # Old files have their constants here. Number 0 is never used.
        self.constant_buffers = [Node({0: b""})] if not has_segments else []
        self.named: dict[str, bytes] = {}
        # Segment 0 holds the host's constants; real files list it even if it is empty.
        self.segments: list[bytes] = [b""]
        self._constant_offsets = [0]
        self._mutable: list[tuple[Node, bytes]] = []
        self._has_segments = has_segments
        self._delegates_inline = inline_delegates or not has_segments

    def plan(self, name: str, method: MethodWriter, inline_constants: bool) -> Node:
        for node, data in method.constant_data:
            node.slots[5] = Scalar("u32", self._host_constant(data))
        self._mutable += method.mutable_data
        operators = [full.partition(".") for full in method.operators]
        chain = Node({0: i32s([]), 1: i32s([]), 2: method.instructions})
        if method.frames:
            listed = [method.frames.get(at, []) for at in range(len(method.instructions))]
            chain.slots[3] = [Node({0: frames}) for frames in listed]
        return Node(
            {
                0: name,
                1: Node({0: "", 1: ""}),
                2: method.values,
                3: i32s(value.index for value in method.input_values),
                4: i32s(value.index for value in method.output_values),
                5: [chain],
                6: [Node({0: base, 1: overload}) for base, _, overload in operators],
                7: [self._delegate(delegate, inline_constants) for delegate in method.delegates],
                8: Vector("i64", [0, method.planned_bytes]),
            }
        )

    def _host_constant(self, data: bytes) -> int:
        if not self._has_segments:
            self.constant_buffers.append(Node({0: data}))
            return len(self.constant_buffers) - 1
        self._constant_offsets.append(len(self.segments[0]))
        self.segments[0] += data.ljust(padded(len(data), BYTES_ALIGNMENT), b"\0")
        return len(self._constant_offsets) - 1

    def _delegate(self, delegate: Delegate, inline_constants: bool) -> Node:
        blob = delegate.graph
        if isinstance(blob, GraphWriter):
            blob = blob.blob(inline_constants=inline_constants)
        if self._delegates_inline:
            self.inline_delegates.append(Node({0: blob}))
            place = Node({0: Scalar("i8", 0), 1: Scalar("u32", len(self.inline_delegates) - 1)})
        else:
            self.segments.append(blob)
            place = Node({0: Scalar("i8", 1), 1: Scalar("u32", len(self.segments) - 1)})
        specs = [Node({0: key, 1: value}) for key, value in delegate.compile_specs.items()]
        return Node({0: delegate.id, 1: place, 2: specs})

    def program(self, plans: list[Node]) -> Node:
        mutable = self._mutable_segment()
        entries = []
        for key, data in self.named.items():
            self.segments.append(data)
            entries.append(Node({0: key, 1: Scalar("u32", len(self.segments) - 1)}))
        table = []
        offset = 0
        for segment in self.segments:
            table.append(Node({0: Scalar("u64", offset), 1: Scalar("u64", len(segment))}))
            offset = padded(offset + len(segment), SEGMENT_ALIGNMENT)
        if not self._has_segments and offset:
            raise ValueError("named and mutable data need segments, and so the extended header")
        constants = None
        if not self.constant_buffers:
            constants = Node({1: Vector("u64", self._constant_offsets)})
        return Node(
            {
                0: Scalar("u32", 0),
                1: plans,
                2: self.constant_buffers,
                3: self.inline_delegates,
                4: table,
                5: constants,
                6: mutable,
                7: entries,
            }
        )

    def _mutable_segment(self) -> list[Node] | None:
        if not self._mutable:
            return None
        offsets, segment = [0], b""
        for node, data in self._mutable:
            node.slots[5] = Scalar("u32", len(offsets))
            offsets.append(len(segment))
            segment += data.ljust(padded(len(data), BYTES_ALIGNMENT), b"\0")
        self.segments.append(segment)
        index = Scalar("u32", len(self.segments) - 1)
        return [Node({0: index, 1: Vector("u64", offsets)})]


def _with_segments(flatbuffer: bytes, segments: list[bytes], header_length: int) -> bytes:
    inserted = padded(header_length, BYTES_ALIGNMENT)
    (root,) = struct.unpack_from("<I", flatbuffer)
    program_size = len(flatbuffer) + inserted
    base = padded(program_size, SEGMENT_ALIGNMENT)
    data = _joined(segments)
    fields = struct.pack("<4sIQQQ", b"eh00", header_length, program_size, base, len(data))
    header = fields[:header_length].ljust(inserted, b"\0")
    program = struct.pack("<I", root + inserted) + flatbuffer[4:8] + header + flatbuffer[8:]
    return program.ljust(base, b"\0") + data


def _joined(segments: Iterable[bytes]) -> bytes:
    data = b""
    for segment in segments:
        data = data.ljust(padded(len(data), SEGMENT_ALIGNMENT), b"\0") + segment
    return data


def write_ptd(contents: Mapping[str, Bytes]) -> bytes:
    """Write a `.ptd` file: arrays get a layout, bytes are blobs without one."""
    table, entries, segments = [], [], []
    offset = 0
    for index, (key, data) in enumerate(contents.items()):
        raw = raw_bytes(data)
        layout = None
        if not isinstance(data, bytes):
            order = Vector("u8", list(range(data.ndim)))
            scalar_type = Scalar("i8", SCALAR_TYPES[str(data.dtype)])
            layout = Node({0: scalar_type, 1: i32s(data.shape), 2: order})
        table.append(Node({0: Scalar("u64", offset), 1: Scalar("u64", len(raw))}))
        entries.append(Node({0: key, 1: Scalar("u32", index), 2: layout}))
        segments.append(raw)
        offset = padded(offset + len(raw), SEGMENT_ALIGNMENT)
    flatbuffer = write_flatbuffer(Node({1: table, 2: entries}), b"FT01")
    inserted = 48
    (root,) = struct.unpack_from("<I", flatbuffer)
    base = padded(inserted + len(flatbuffer), SEGMENT_ALIGNMENT)
    data = _joined(segments)
    header = struct.pack("<4sIQQQQ", b"FH01", 40, inserted, len(flatbuffer), base, len(data))
    head = struct.pack("<I", root + inserted) + flatbuffer[4:8] + header.ljust(inserted, b"\0")
    return (head + flatbuffer[8:]).ljust(base, b"\0") + data

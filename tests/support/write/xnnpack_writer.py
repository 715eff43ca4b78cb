"""Writes the graph of an XNNPACK delegate, and a method around it; see `pte_writer` for files.

    g = XnnpackWriter()
    x, y = g.value((2, 3), argument=0), g.value((2, 3), argument=1, output=True)
    w = g.value((3,), constant=np.ones(3, np.float32))
    g.node("Add", x, w, y, clamp=(0, math.inf))
    data = write_pte(g.method())

Numbers of slots and of kinds are as in `backends/xnnpack/serialization/runtime_schema.fbs`,
typed anew: none is shared with the reader.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from support.write.flat_writer import (
    BYTES_ALIGNMENT,
    Bytes,
    Field,
    Node,
    Scalar,
    Vector,
    padded,
    raw_bytes,
    union,
    write_flatbuffer,
)
from support.write.method_writer import MethodWriter

ABSENT = 0xFFFFFFFF
TYPES = {
    "fp32": (1, "float32"),
    "fp16": (2, "float16"),
    "qint8": (3, "int8"),
    "quint8": (4, "uint8"),
    "qint32": (5, "int32"),
    "qcint8": (6, "int8"),
    "qcint32": (7, "int32"),
    "qcint4": (8, "uint8"),
    "qdint8": (9, "int8"),
    "qbint4": (10, "uint8"),
    "int32": (12, "int32"),
    "bf16": (14, "float16"),
}

# Kinds of nodes: the tag, then the slots of the ids of their values, in the order of `node`'s
# arguments, then the slots of the flags and of further fields.
UNARY = (0, 1), 2
BINARY = (0, 1, 2), 3
NODES: dict[str, tuple[int, tuple[int, ...], int]] = {
    "Add": (1, *BINARY),
    "FullyConnected": (2, (0, 1, 2, 3), 4),
    "Softmax": (3, *UNARY),
    "Sigmoid": (4, *UNARY),
    "StaticTranspose": (5, (2, 3), 4),
    "Clamp": (6, *UNARY),
    "Conv2d": (7, (15, 16, 17, 18), 19),
    "Div": (8, *BINARY),
    "StaticResizeBilinear2D": (9, (2, 3), 4),
    "StaticConstantPad": (10, (3, 4), 5),
    "AvgPooling2d": (11, (10, 11), 12),
    "Minimum": (12, *BINARY),
    "DepthwiseConv2d": (13, (15, 16, 17, 18), 19),
    "MaxPooling2d": (14, (10, 11), 12),
    "Multiply": (15, *BINARY),
    "Subtract": (16, *BINARY),
    "Floor": (17, *UNARY),
    "Convert": (18, *UNARY),
    "GlobalAvgPooling2d": (19, *UNARY),
    "StaticReshape": (20, (2, 3), 4),
    "ArgMaxPooling2d": (21, (6, 7, 8), 9),
    "SquareRoot": (22, *UNARY),
    "Ceiling": (23, *UNARY),
    "Hardswish": (24, *UNARY),
    "LeakyReLU": (25, (1, 2), 3),
    "Maximum": (26, *BINARY),
    "Negate": (27, *UNARY),
    "Square": (28, *UNARY),
    "ELU": (29, (1, 2), 3),
    "Abs": (30, *UNARY),
    "PReLU": (31, *BINARY),
    "Concatenate2": (32, (1, 2, 5), 6),
    "Concatenate3": (33, (1, 2, 3, 5), 6),
    "Concatenate4": (34, (1, 2, 3, 4, 5), 6),
    "StaticSlice": (35, (3, 4), 5),
    "ScaledDotProductAttention": (36, (0, 1, 2, 3, 4, 5), 6),
    "BatchMatrixMultiply": (37, *BINARY),
    "Concatenate5": (38, (1, 2, 3, 4, 7, 5), 6),
    "ConvTranspose2d": (39, (15, 16, 17, 18), 19),
    "ReciprocalSquareRoot": (40, *UNARY),
    "Log": (41, *UNARY),
    "Gelu": (42, *UNARY),
    "Tanh": (43, *UNARY),
    "Exp": (44, *UNARY),
    "Sin": (45, *UNARY),
    "Copy": (46, *UNARY),
    "Cos": (47, *UNARY),
}
# Slots of further fields; a name that is not here is a mistake of the test.
_SIDES = {"top": 0, "right": 1, "bottom": 2, "left": 3}
_WINDOW = {"kernel": (4, 5), "stride": (6, 7), "dilation": (8, 9)}
_CONVOLUTION: dict[str, int | tuple[int, int]] = {
    **_SIDES,
    **_WINDOW,
    "inputs": 10,
    "outputs": 11,
    "groups": 12,
    "adjustment": (13, 14),
}
_CONCATENATION: dict[str, int | tuple[int, int]] = {"axis": 0}
FIELDS: dict[str, dict[str, int | tuple[int, int]]] = {
    "StaticTranspose": {"num_dims": 0, "perm": 1},
    "Conv2d": _CONVOLUTION,
    "DepthwiseConv2d": _CONVOLUTION,
    "ConvTranspose2d": _CONVOLUTION,
    "StaticResizeBilinear2D": {"size": (0, 1)},
    "StaticConstantPad": {"before": 0, "after": 1, "value": 2},
    "AvgPooling2d": {**_SIDES, **_WINDOW},
    "MaxPooling2d": {**_SIDES, **_WINDOW},
    "ArgMaxPooling2d": {**_SIDES, "kernel": (4, 5)},
    "StaticReshape": {"num_dims": 0, "shape": 1},
    "StaticSlice": {"num_dims": 0, "offsets": 1, "sizes": 2},
    "LeakyReLU": {"slope": 0},
    "ELU": {"alpha": 0},
    **{f"Concatenate{count}": _CONCATENATION for count in range(2, 6)},
}


@dataclass(frozen=True)
class Quant:
    """A kind of quantization: its tag, and its table."""

    tag: int
    slots: dict[int, Any]


def per_channel(scales: Sequence[float], axis: int = 0, buffer: int = 0) -> Quant:
    slots = {0: Vector("f32", scales), 1: Scalar("i32", axis), 2: Scalar("u32", buffer)}
    return Quant(1, {**slots, 3: Scalar("u32", len(scales))})


def per_tensor(scale: float, zero_point: int = 0) -> Quant:
    return Quant(2, {0: Scalar("f32", scale), 1: Scalar("i32", zero_point)})


def per_row(dims: int = 1) -> Quant:
    return Quant(3, {0: Scalar("i32", dims)})


def per_block(scales: Sequence[float], size: int, axis: int = 0, buffer: int = 0) -> Quant:
    slots = {0: Vector("f32", scales), 1: Scalar("i32", axis), 2: Scalar("i32", size)}
    return Quant(4, {**slots, 4: Scalar("u32", buffer), 5: Scalar("u32", len(scales))})


@dataclass
class Argument:
    """An argument of the delegate: the method's tensor is like the value, but for these."""

    dims: tuple[int, ...]
    dtype: str
    output: bool
    dim_order: tuple[int, ...] | None
    dynamic: bool


class XnnpackWriter:
    """A writer of an XNNPACK graph. Every method that makes a value returns its id."""

    def __init__(
        self,
        *,
        identifier: bytes = b"XN01",
        first_id: int = 0,
        edit: Callable[[Node], None] | None = None,
    ) -> None:
        """Start a graph; ids count from `first_id`, `edit` changes the tree before writing."""
        self.named: dict[str, bytes] = {}
        self.arguments: dict[int, Argument] = {}
        self._identifier = identifier
        self._first = first_id
        self._edit = edit
        self._constants: list[tuple[bytes, str | None]] = [(b"", None)]
        self._values: list[Node] = []
        self._nodes: list[Node] = []

    def value(
        self,
        dims: Sequence[int] = (),
        dtype: str = "fp32",
        *,
        constant: Bytes | int | None = None,
        key: str | None = None,
        quant: Quant | None = None,
        argument: int | None = None,
        output: bool = False,
        dim_order: Sequence[int] | None = None,
        dynamic: bool = False,
        host: str | None = None,
        host_dims: Sequence[int] | None = None,
        rounds: int = 0,
    ) -> int:
        """Add a value, and return its id.

        dims       the sizes as XNNPACK has them
        constant   the bytes of a constant value, or the number of a constant
        argument   the place among the delegate's arguments
        host, host_dims, dim_order   type, sizes and order of dims of that argument in the method
        rounds     the deprecated `dq_datatype`
        """
        number = constant if isinstance(constant, int) else 0
        if constant is not None and not isinstance(constant, int):
            number = self.constant(constant, key)
        value_id = self._first + len(self._values)
        flags = 0 if argument is None else 2 if output else 1
        tensor = Node(
            {
                0: Scalar("i16", TYPES[dtype][0]),
                1: Scalar("u32", len(dims)),
                2: Vector("u32", list(dims)),
                3: Scalar("u32", number),
                4: Scalar("u32", ABSENT if argument is None else argument),
                5: Scalar("u32", flags),
                6: Scalar("u32", value_id),
                7: Scalar("i16", rounds),
            }
        )
        if quant is None:
            self._values.append(union(1, tensor))
        else:
            parts: dict[int, Field] = {
                0: tensor,
                1: Scalar("u8", quant.tag),
                2: Node(dict(quant.slots)),
            }
            self._values.append(union(2, Node(parts)))
        if argument is not None:
            sizes = list(dims)
            for place, axis in enumerate(dim_order or ()):
                sizes[axis] = dims[place]
            self.arguments[argument] = Argument(
                tuple(sizes if host_dims is None else host_dims),
                host or TYPES[dtype][1],
                output,
                None if dim_order is None else tuple(dim_order),
                dynamic,
            )
        return value_id

    def constant(self, data: Bytes, key: str | None = None) -> int:
        """Add a constant, which is named data if it has a `key`; return its number."""
        raw = raw_bytes(data)
        self._constants.append((raw, key))
        if key is not None:
            self.named[key] = raw
        return len(self._constants) - 1

    def node(
        self,
        kind: str,
        *ids: int | None,
        flags: int = 0,
        clamp: tuple[float, float] | None = None,
        **fields: Any,
    ) -> int | None:
        """Append a node; return the id of its last value, which is its output."""
        tag, slots, flags_slot = NODES[kind]
        assert len(ids) == len(slots), f"{kind} has {len(slots)} values"
        table: dict[int, Any] = {
            slot: Scalar("u32", ABSENT if value is None else value)
            for slot, value in zip(slots, ids, strict=True)
        }
        table[flags_slot] = Scalar("u32", flags)
        for name, value in fields.items():
            slot = FIELDS[kind][name]
            if isinstance(slot, tuple):
                table |= {at: Scalar("u32", one) for at, one in zip(slot, value, strict=True)}
            elif isinstance(value, float):
                table[slot] = Scalar("f32", value)
            elif isinstance(value, int):
                table[slot] = Scalar("u32", value & ABSENT)
            else:
                table[slot] = Vector("u32", [item & ABSENT for item in value])
        node = union(tag, Node(table))
        if clamp is not None:
            node.slots[3] = Node({0: Scalar("f32", clamp[0]), 1: Scalar("f32", clamp[1])})
        self._nodes.append(node)
        return ids[-1]

    def blob(self, *, header: bool = True) -> bytes:
        """Write the delegate. Without a header, constants are in the flatbuffer."""
        area, entries, buffers = b"", [], []
        for data, key in self._constants:
            buffers.append(Node({0: data}))
            size = Scalar("u64", len(data))
            if key is None:
                entries.append(Node({0: Scalar("u64", len(area)), 1: size}))
                area += data.ljust(padded(len(data), BYTES_ALIGNMENT), b"\0")
            else:
                entries.append(Node({0: Scalar("u64", (1 << 64) - 1), 1: size, 2: key}))
        places = [(place, one.output) for place, one in self.arguments.items()]
        root = Node(
            {
                0: "0",
                1: self._nodes,
                2: self._values,
                3: Scalar("u32", len(places)),
                4: Vector("u32", [place for place, output in places if not output]),
                5: Vector("u32", [place for place, output in places if output]),
                6: None if header else buffers,
                8: entries if header else None,
            }
        )
        if self._edit:
            self._edit(root)
        graph = write_flatbuffer(root, self._identifier)
        if not header:
            return graph
        start = 32
        area_start = padded(start + len(graph), BYTES_ALIGNMENT)
        head = struct.pack("<4s4sHIIIQ", b"", b"XH00", 30, start, len(graph), area_start, len(area))
        return (head.ljust(start, b"\0") + graph).ljust(area_start, b"\0") + area

    def method(self, *, header: bool = True, unused: Mapping[int, Argument] = {}) -> MethodWriter:
        """Write a method that calls this delegate; it takes and returns the arguments."""
        method = MethodWriter()
        ends = dict(sorted({**self.arguments, **unused}.items()))
        hosts = [
            method.tensor(end.dims, end.dtype, dynamic=end.dynamic, dim_order=end.dim_order)
            for end in ends.values()
        ]
        pairs = list(zip(hosts, ends.values(), strict=True))
        method.inputs(*(host for host, end in pairs if not end.output))
        method.outputs(*(host for host, end in pairs if end.output))
        method.delegate(self.blob(header=header), hosts, delegate_id="XnnpackBackend")
        return method


def floats(*dims: int, seed: int = 0) -> np.ndarray[Any, Any]:
    """Return random float32 numbers."""
    return np.random.default_rng(seed).standard_normal(dims).astype(np.float32)

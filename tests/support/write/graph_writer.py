"""Writes the graph of a Vulkan delegate; see `pte_writer` for how to use it."""

from __future__ import annotations

import builtins
import hashlib
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

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
    write_flatbuffer,
)

VK_TYPES = ["bool", "uint8", "int8", "int32", "float16", "float32", "float64", "int64"]
NAMED = (1 << 64) - 1
UNSET = 127
DEFAULT = 255
MAX_HALF = 65504.0


@dataclass
class HostTensor:
    """The differences of the method's tensor from the graph's input or output."""

    dtype: str | None = None
    dynamic: bool = False
    sizes: tuple[int, ...] | None = None


@dataclass
class Constant:
    data: bytes
    key: str
    length: int


class GraphWriter:
    """A Vulkan graph. Every method that makes a value returns its id.

    With `halves` every float32 tensor becomes a float16 one, as with the exporter's `force_fp16`:
    constants are converted, and the host's tensors stay float32.
    """

    halves = False

    def __init__(
        self,
        *,
        constants_table: bool = True,
        edit: Callable[[Node], None] | None = None,
    ) -> None:
        """Start a graph.

        `constants_table=False` leaves the table out; `edit` changes the tree before writing.
        """
        self.constants: list[Constant] = []
        self.shapes: dict[int, tuple[tuple[int, ...], str]] = {}
        self.symints: dict[int, int] = {}
        self.input_ids: list[int] = []
        self.output_ids: list[int] = []
        self.host_tensors: dict[int, HostTensor] = {}
        self._values: list[Node] = []
        self._chain: list[Node] = []
        self._constants_table = constants_table
        self._edit = edit

    def tensor(
        self,
        dims: Sequence[int] = (),
        dtype: str = "float32",
        *,
        constant: Bytes | None = None,
        key: str | None = None,
        mem_obj_id: int = -1,
        constant_id: int | None = None,
        staging: str | None = None,
        storage_type: int = DEFAULT,
        memory_layout: int = DEFAULT,
    ) -> int:
        """Add a tensor. With `constant`, its bytes become named data under `key` (their SHA-256).

        `constant_id` sets the raw number instead: to share a constant, or one out of range.
        `staging` is the host's type, "" for unset.
        """
        if self.halves and dtype == "float32":
            dtype, staging = "float16", "float32" if constant is None else None
            if isinstance(constant, np.ndarray):
                constant = np.clip(constant, -MAX_HALF, MAX_HALF).astype(np.float16)
        if constant is not None:
            constant_id = self.constant(constant, key)
        staging = dtype if staging is None else staging
        node = Node(
            {
                0: Scalar("i8", VK_TYPES.index(dtype)),
                1: Vector("u32", list(dims)),
                2: Scalar("i32", -1 if constant_id is None else constant_id),
                3: Scalar("i32", mem_obj_id),
                4: Scalar("u8", storage_type, DEFAULT),
                5: Scalar("u8", memory_layout, DEFAULT),
                6: Scalar("i8", UNSET if staging == "" else VK_TYPES.index(staging), UNSET),
            }
        )
        value_id = self._append(5, node)
        self.shapes[value_id] = (tuple(dims), dtype)
        return value_id

    def constant(self, data: Bytes, key: str | None = None, length: int | None = None) -> int:
        """Add an entry to the table of constants; return its id."""
        raw = raw_bytes(data)
        key = hashlib.sha256(raw).hexdigest() if key is None else key
        self.constants.append(Constant(raw, key, len(raw) if length is None else length))
        return len(self.constants) - 1

    def null(self) -> int:
        return self._append(1, Node({}))

    def double(self, value: float) -> int:
        return self._append(3, Node({0: Scalar("f64", value)}))

    def bool_(self, value: bool) -> int:
        return self._append(4, Node({0: Scalar("u8", value)}))

    def int_list(self, items: Sequence[int]) -> int:
        return self._append(6, Node({0: Vector("i64", items)}))

    def double_list(self, items: Sequence[float]) -> int:
        return self._append(7, Node({0: Vector("f64", items)}))

    def bool_list(self, items: Sequence[bool]) -> int:
        return self._append(8, Node({0: Vector("u8", items)}))

    def value_list(self, ids: Sequence[int]) -> int:
        return self._append(9, Node({0: i32s(ids)}))

    def string(self, value: str) -> int:
        return self._append(10, Node({0: value}))

    def symint(self, value: int = 0) -> int:
        value_id = self._append(11, Node({0: Scalar("i32", value)}))
        self.symints[value_id] = value
        return value_id

    def int(self, value: builtins.int) -> builtins.int:
        return self._append(2, Node({0: Scalar("i64", value)}))

    def op(self, name: str, *args: builtins.int) -> builtins.int:
        """Append a call; the last arg is its output, which is returned."""
        number = Scalar("u32", len(self._chain))
        self._chain.append(Node({0: number, 1: name, 2: i32s(args)}))
        return args[-1] if args else -1

    def prepack(self, source: builtins.int) -> builtins.int:
        """Prepack a constant tensor into a new one of the same shape."""
        dims, dtype = self.shapes[source]
        return self.op("et_vk.prepack.default", source, self.tensor(dims, dtype))

    def inputs(self, *ids: builtins.int) -> None:
        self.input_ids.extend(ids)

    def outputs(self, *ids: builtins.int) -> None:
        self.output_ids.extend(ids)

    def host(
        self,
        value_id: builtins.int,
        dtype: str | None = None,
        *,
        dynamic: bool = False,
        sizes: Sequence[builtins.int] | None = None,
    ) -> None:
        """Set the method's tensor for this value: another dtype, upper bounds, other sizes."""
        shape = None if sizes is None else tuple(sizes)
        self.host_tensors[value_id] = HostTensor(dtype, dynamic, shape)

    def blob(self, *, inline_constants: bool = False) -> bytes:
        """Write the delegate: VH00 header, VK00 flatbuffer, and the constants if inline."""
        area = b""
        entries = []
        for constant in self.constants:
            offset = NAMED
            # The exporter gives empty constants an offset and no key.
            if inline_constants or not constant.data:
                offset = len(area)
                size = padded(len(constant.data), BYTES_ALIGNMENT)
                area += constant.data.ljust(size, b"\0")
            key = constant.key if offset == NAMED else None
            length = Scalar("u64", constant.length)
            entries.append(Node({0: Scalar("u64", offset), 1: length, 2: key}))
        root = Node(
            {
                0: "0",
                1: self._chain,
                2: self._values,
                3: Vector("u32", self.input_ids),
                4: Vector("u32", self.output_ids),
                5: entries if self._constants_table else None,
                6: [],
                7: Scalar("u8", DEFAULT, DEFAULT),
                8: Scalar("u8", DEFAULT, DEFAULT),
            }
        )
        if self._edit:
            self._edit(root)
        graph = write_flatbuffer(root, b"VK00")
        start = 32
        area_start = padded(start + len(graph), BYTES_ALIGNMENT)
        header = struct.pack(
            "<4s4sHIIIQ", b"", b"VH00", 30, start, len(graph), area_start, len(area)
        )
        return (header.ljust(start, b"\0") + graph).ljust(area_start, b"\0") + area

    def _append(self, tag: builtins.int, node: Node) -> builtins.int:
        self._values.append(union(tag, node))
        return len(self._values) - 1

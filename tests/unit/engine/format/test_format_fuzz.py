"""Broken and hostile files: a result or a FormatError, in bounded work and memory."""

from __future__ import annotations

import contextlib
import random
import struct
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from support.harness import extent
from support.harness.reading import read_delegates, read_pte, run
from support.write.pte_writer import (
    GraphWriter,
    MethodWriter,
    Node,
    Scalar,
    Vector,
    write_ptd,
    write_pte,
)
from support.write.xnnpack_writer import (
    XnnpackWriter,
    per_block,
    per_channel,
    per_row,
    per_tensor,
)
from webpte.engine.files.source import BytesSource, Region
from webpte.engine.format import flat, ptd, pte, vulkan, xnnpack
from webpte.engine.format.vulkan import parse_graph
from webpte.errors import FormatError

DATA = Path(__file__).parents[3] / "data" / "format"
MUTATIONS = extent.count(150, 700)
EXTREMES = [0, 1, 3, 4, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFC, 0xFFFFFFFF]


def graph() -> GraphWriter:
    """All kinds of values, two constants."""
    g = GraphWriter()
    x, y = g.tensor((2, 3), mem_obj_id=0), g.tensor((2, 3), mem_obj_id=1)
    w = g.tensor((3,), constant=np.ones(3, np.float32))
    g.tensor((2,), "int32", constant=np.ones(2, np.int32))
    scalars = [g.null(), g.int(1), g.double(0.5), g.bool_(True), g.string("tanh"), g.symint(3)]
    lists = [g.int_list([1, 2]), g.double_list([0.5]), g.bool_list([True]), g.value_list(scalars)]
    g.op("aten.add.Tensor", x, g.prepack(w), *scalars, *lists, y)
    g.inputs(x)
    g.outputs(y)
    g.host(x, "float16", dynamic=True)
    return g


def method() -> MethodWriter:
    """All kinds of host values and instructions."""
    m = MethodWriter.of(graph())
    x, y = m.input(0), m.output(0)
    w = m.tensor((3,), data=np.ones(3, np.float32))
    m.kernel("aten::add.out", w, 1, 0.5, None, "text", [1, 2], [0.5], [True], [x, y], [x, None])
    m.jump_false(m.value(False), 1)
    m.move(x, y)
    m.free(m.tensor((2,), data=np.ones(2, np.float32), mutable=True))
    return m


FILES = {
    "segments": write_pte(method(), constant_methods={"get_eos_ids": [1, 2]}),
    "inline": write_pte(graph(), extended_header=False),
    "no header": (DATA / "argmax_first.pte").read_bytes(),
    "kernels": (DATA / "two_outputs.pte").read_bytes(),
    "constant": (DATA / "log10.pte").read_bytes(),
}


def xnnpack_graph() -> XnnpackWriter:
    """All kinds of values and quantization, and nodes with every kind of field."""
    g = XnnpackWriter()
    x, y = g.value((2, 3), argument=0), g.value((2, 3), argument=1, output=True)
    w = g.value((3, 2), "qcint8", constant=b"weight", quant=per_channel([1, 2, 3]))
    g.value((3, 2), "qbint4", constant=b"codes", quant=per_block([1, 2, 3], 2))
    g.value((2, 3), "qdint8", quant=per_row())
    g.value((2, 3), "qint8", constant=b"bytes", key="named", quant=per_tensor(0.5, 3))
    g.node("FullyConnected", x, w, None, y, clamp=(0.0, 6.0))
    g.node("StaticConstantPad", x, y, before=(0, 1), after=(1, 0), value=0.5)
    g.node("Concatenate5", x, x, x, x, x, y, axis=1)
    return g


def real_blob() -> bytes:
    data = (DATA / "xnnpack_unet.pte").read_bytes()
    program = read_pte(data)
    span = program.delegate_span(program.methods[0].delegates[0])
    return data[span.offset : span.end]


BLOBS = {
    "written": xnnpack_graph().blob(),
    "without a header": xnnpack_graph().blob(header=False),
    "real": real_blob(),
}


def read_xnnpack(blob: bytes) -> None:
    run(xnnpack.read_delegate(Region(BytesSource(blob), 0, len(blob))))


def read_all(data: bytes) -> None:
    """Program, delegates and graphs."""
    read_delegates(data, read_pte(data))


def mutations(data: bytes, seed: int, count: int) -> Iterator[bytes]:
    """One to three changes: a byte, or a number of 16, 32 or 64 bits made extreme or moved."""
    rng = random.Random(seed)
    for _ in range(count):
        changed = bytearray(data)
        for _ in range(rng.choice([1, 1, 2, 3])):
            kind = rng.randrange(5)
            form = ("<B", "<H", "<I", "<I", "<Q")[kind]
            at = rng.randrange(len(data) - 8)
            at -= at % struct.calcsize(form) if rng.random() < 0.9 else 0
            (old,) = struct.unpack_from(form, changed, at)
            limit = 1 << 8 * struct.calcsize(form)
            new = rng.choice(
                [
                    rng.choice(EXTREMES),
                    old + rng.choice([-4, -1, 1, 4, 64]),
                    old ^ 1 << rng.randrange(8),
                ]
            )
            struct.pack_into(form, changed, at, new % limit)
        yield bytes(changed)


class CountingBuffer(flat.FlatBuffer):
    """Counts the steps of the reader: every table and vector calls `charge` and `follow`."""

    steps = 0
    __slots__ = ()

    def charge(self, amount: int, where: str, at: int) -> None:
        CountingBuffer.steps += 1
        super().charge(amount, where, at)

    def follow(self, at: int, where: str) -> int:
        CountingBuffer.steps += 1
        return super().follow(at, where)


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> type[CountingBuffer]:
    for module in (pte, vulkan, ptd, xnnpack):
        monkeypatch.setattr(module, "FlatBuffer", CountingBuffer)
    return CountingBuffer


@pytest.mark.parametrize("name", FILES)
def test_the_files_are_good_before_they_are_broken(name: str) -> None:
    read_all(FILES[name])


@pytest.mark.parametrize("name", FILES)
def test_every_truncation(name: str) -> None:
    data = FILES[name]
    for size in range(len(data)):
        with contextlib.suppress(FormatError):
            read_all(data[:size])


def test_every_truncation_that_the_header_does_not_betray() -> None:
    """The header's sizes are made to fit, so that it is the flatbuffer that ends too early."""
    data = FILES["segments"]
    (program_size,) = struct.unpack_from("<Q", data, 16)
    failures = 0
    for size in range(40, program_size):
        shortened = bytearray(data)
        struct.pack_into("<Q", shortened, 16, size)
        try:
            read_all(bytes(shortened))
        except FormatError:
            failures += 1
    assert failures > program_size // 2


def test_every_truncation_of_a_graph() -> None:
    blob = graph().blob()
    flatbuffer = blob[32:]
    for size in range(len(flatbuffer)):
        with contextlib.suppress(FormatError):
            parse_graph(flatbuffer[:size], 32)


@pytest.mark.parametrize("name", FILES)
def test_mutations_give_a_result_or_a_format_error(
    name: str, counting: type[CountingBuffer]
) -> None:
    data = FILES[name]
    outcomes = {True: 0, False: 0}
    for changed in mutations(data, seed=len(data), count=MUTATIONS):
        counting.steps = 0
        try:
            read_all(changed)
            outcomes[True] += 1
        except FormatError:
            outcomes[False] += 1
        assert counting.steps <= len(data)
    assert min(outcomes.values()) > MUTATIONS // 20


@pytest.mark.parametrize("name", BLOBS)
def test_every_truncation_of_an_xnnpack_delegate(name: str) -> None:
    blob = BLOBS[name]
    read_xnnpack(blob)
    for size in range(0, len(blob), 1 if len(blob) < 4000 else 7):
        with contextlib.suppress(FormatError):
            read_xnnpack(blob[:size])


@pytest.mark.parametrize("name", BLOBS)
def test_mutations_of_xnnpack_delegates(name: str, counting: type[CountingBuffer]) -> None:
    blob = BLOBS[name]
    size = len(blob) if name == "without a header" else int.from_bytes(blob[18:22], "little")
    outcomes = {True: 0, False: 0}
    tracemalloc.start()
    try:
        for changed in mutations(blob[:size], seed=size, count=MUTATIONS):
            counting.steps = 0
            tracemalloc.reset_peak()
            before, _ = tracemalloc.get_traced_memory()
            try:
                read_xnnpack(changed + blob[size:])
                outcomes[True] += 1
            except FormatError:
                outcomes[False] += 1
            assert counting.steps <= 2 * len(blob)
            assert tracemalloc.get_traced_memory()[1] - before < 60 * len(blob)
    finally:
        tracemalloc.stop()
    assert min(outcomes.values()) > MUTATIONS // 20


def test_many_references_to_one_big_value(counting: type[CountingBuffer]) -> None:
    """20,000 nodes that are all the same one, with a list of 20,000 numbers."""
    count = 20_000
    big = Node(
        {
            0: Scalar("u8", 5),
            1: Node({0: Scalar("u32", count), 1: Vector("u32", range(count))}),
        }
    )

    def fill(root: Node) -> None:
        root.slots[1] = [big, *[Node({0: Scalar("u8", 46), 1: Node({})})] * (count - 1)]

    g = XnnpackWriter(edit=fill)
    g.value((1,))
    blob = g.blob()
    vector = next(
        at for at in range(32, len(blob), 4) if struct.unpack_from("<I", blob, at)[0] == count
    )
    attack = shared_elements(blob, vector)
    counting.steps = 0
    tracemalloc.start()
    try:
        with pytest.raises(FormatError, match="the contents overlap"):
            read_xnnpack(attack)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert counting.steps < 1000
    assert peak < 45 * len(attack)  # 36 bytes per number, of 4 bytes, in Python


def test_mutations_of_tensor_data_files() -> None:
    data = write_ptd({"w": np.ones((2, 3), np.float32), "b": b"bytes"})
    for changed in mutations(data, seed=7, count=MUTATIONS):
        with contextlib.suppress(FormatError):
            run(ptd.read_ptd(BytesSource(changed)))


def test_memory_stays_proportional_to_the_file() -> None:
    data = FILES["segments"]
    tracemalloc.start()
    try:
        for changed in mutations(data, seed=3, count=150):
            tracemalloc.reset_peak()
            before, _ = tracemalloc.get_traced_memory()
            with contextlib.suppress(FormatError):
                read_all(changed)
            assert tracemalloc.get_traced_memory()[1] - before < 40 * len(data)
    finally:
        tracemalloc.stop()


def shared_elements(data: bytes, first: int) -> bytes:
    """Let every element of the vector of references at `first` lead to its last element's table."""
    changed = bytearray(data)
    (count,) = struct.unpack_from("<I", data, first)
    places = [first + 4 + 4 * i for i in range(count)]
    target = max(at + struct.unpack_from("<I", data, at)[0] for at in places)
    for at in places:
        struct.pack_into("<I", changed, at, target - at)
    return bytes(changed)


def test_many_references_to_one_big_table(counting: type[CountingBuffer]) -> None:
    """20,000 values that are all the same list of 20,000 numbers: 180 kB that read as 3 GB."""
    count = 20_000
    big = Node({0: Scalar("u8", 6), 1: Node({0: Vector("i64", range(count))})})
    small = Node({0: Scalar("u8", 1), 1: Node({})})

    def fill(root: Node) -> None:
        root.slots[2] = [big, *[small] * (count - 1)]

    g = GraphWriter(edit=fill)
    blob = g.blob()
    vector = next(
        at for at in range(32, len(blob), 4) if struct.unpack_from("<I", blob, at)[0] == count
    )
    attack = shared_elements(blob, vector)[32:]
    counting.steps = 0
    tracemalloc.start()
    try:
        with pytest.raises(FormatError, match="the contents overlap"):
            parse_graph(attack, 0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert counting.steps < 1000
    assert peak < 20 * len(attack)


def test_counts_that_no_file_could_hold() -> None:
    """Every number of the flatbuffer in turn becomes a huge count or a huge offset."""
    flatbuffer = graph().blob()[32:]
    tracemalloc.start()
    try:
        for at in range(0, len(flatbuffer) - 4, 4):
            changed = bytearray(flatbuffer)
            struct.pack_into("<I", changed, at, 0x3FFFFFFF)
            with contextlib.suppress(FormatError):
                parse_graph(bytes(changed), 0)
        assert tracemalloc.get_traced_memory()[1] < 100 * len(flatbuffer)
    finally:
        tracemalloc.stop()

"""Named tensor data outside of a program."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.harness.reading import read_graph, read_pte, run
from support.write.pte_writer import GraphWriter, constants_of, write_ptd, write_pte
from webpte.engine.files.source import BytesSource
from webpte.engine.format.ptd import TensorLayout, parse_ptd, read_ptd
from webpte.engine.format.shared import ScalarType
from webpte.errors import FormatError

CONTENTS: dict[str, bytes | np.ndarray[Any, Any]] = {
    "weight": np.arange(6, dtype=np.float32).reshape(2, 3),
    "index": np.array([7], np.int64),
    "blob": b"opaque",
    "empty": b"",
}


def test_round_trip() -> None:
    data = write_ptd(CONTENTS)
    found = run(read_ptd(BytesSource(data)))
    assert list(found) == list(CONTENTS)
    for key, contents in CONTENTS.items():
        raw = contents if isinstance(contents, bytes) else contents.tobytes()
        span = found[key].span
        assert data[span.offset : span.end] == raw
    assert found["weight"].layout == TensorLayout(ScalarType.FLOAT, (2, 3), (0, 1))
    assert found["index"].layout == TensorLayout(ScalarType.LONG, (1,), (0,))
    assert found["blob"].layout is None
    assert parse_ptd(data, len(data)) == found


def test_a_real_file() -> None:
    data = (Path(__file__).parents[3] / "data" / "format" / "linear.ptd").read_bytes()
    found = run(read_ptd(BytesSource(data)))
    assert list(found) == ["l.weight", "l.bias", "m.weight", "m.bias"]
    assert found["l.weight"].layout == TensorLayout(ScalarType.FLOAT, (16, 8), (0, 1))
    span = found["l.weight"].span
    weights = np.frombuffer(data, np.float32, 128, span.offset)
    # How PyTorch initialises a Linear(8, 16).
    assert span.size == 512
    assert 0.3 < np.abs(weights).max() <= 8**-0.5


def test_constants_outside_of_the_program() -> None:
    g = GraphWriter()
    g.tensor((3,), constant=np.ones(3, np.float32))
    program = write_pte(g, external_constants=True)
    assert read_pte(program).named_data == {}
    key = read_graph(program).constants[0].named_key
    found = run(read_ptd(BytesSource(write_ptd(constants_of(g)))))
    assert key is not None
    assert list(found) == [key]
    assert found[key].span.size == 12


@pytest.mark.parametrize(
    ("at", "form", "value", "message", "offset"),
    [
        (4, "4s", b"ET12", "not a tensor data file (.ptd) but a program (.pte): give", 4),
        (4, "4s", b"ftyp", "not a tensor data file (.ptd) but a video (MP4", 4),
        (8, "4s", b"FH00", "no valid header: magic b'FH00', length 40", 8),
        (12, "<I", 39, "no valid header: magic b'FH01', length 39", 8),
        (16, "<Q", 1 << 63, "the flatbuffer ends at 9223372036854", 16),
        (24, "<Q", 1 << 20, "the flatbuffer ends at 1048624", 16),
        (32, "<Q", 1 << 40, "the segments end at 1099511", 32),
        (40, "<Q", 1 << 40, "the segments end at 1099511", 32),
    ],
)
def test_header_errors(at: int, form: str, value: int | bytes, message: str, offset: int) -> None:
    data = bytearray(write_ptd(CONTENTS))
    struct.pack_into(form, data, at, value)
    with pytest.raises(FormatError) as raised:
        run(read_ptd(BytesSource(data)))
    assert str(raised.value).startswith(message)
    assert raised.value.offset == offset


def test_a_tensor_larger_than_its_segment() -> None:
    data = bytearray(write_ptd({"weight": np.zeros(7, np.float32)}))
    at = data.index(struct.pack("<II", 1, 7))
    struct.pack_into("<I", data, at + 4, 8)
    with pytest.raises(FormatError, match=r"sizes: the tensor has 32 bytes, its segment only 28"):
        run(read_ptd(BytesSource(data)))

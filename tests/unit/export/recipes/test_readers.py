"""Readers of other formats: PNG, ONNX and its rewriting; and sentences about examples."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from webpte_export.catalog.pictures import read_png, write_png
from webpte_export.networks.onnx_file import Graph, Node, read_onnx
from webpte_export.networks.onnx_rewrites import simplified, with_gelu
from webpte_export.recipes import face_detection, file_type, ocr_line

Array = np.ndarray[Any, np.dtype[Any]]


def pixels(*dims: int) -> Array:
    return np.random.default_rng(3).integers(0, 256, dims, dtype=np.uint8)


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_png_there_and_back(channels: int) -> None:
    picture = pixels(5, 7, channels)
    assert np.array_equal(read_png(write_png(picture)), picture)


def filtered(picture: Array) -> bytes:
    """Filter the lines of a PNG with the filters 0 to 4 in turn, by the format's formulas."""
    height, width, channels = picture.shape
    padded = np.zeros((height + 1, width + 1, channels), int)
    padded[1:, 1:] = picture
    lines = []
    for row in range(height):
        now, left = padded[row + 1, 1:], padded[row + 1, :-1]
        up, corner = padded[row, 1:], padded[row, :-1]
        distances = np.stack([abs(up - corner), abs(left - corner), abs(left + up - 2 * corner)])
        paeth = np.choose(distances.argmin(0), [left, up, corner])
        guess = [np.zeros_like(now), left, up, (left + up) // 2, paeth][row % 5]
        lines.append(bytes([row % 5]) + ((now - guess) % 256).astype(np.uint8).tobytes())
    return b"".join(lines)


def test_png_with_every_filter() -> None:
    picture = pixels(11, 6, 3)
    plain = write_png(picture)
    start = plain.index(b"IDAT") - 4
    (size,) = struct.unpack_from(">I", plain, start)
    body = zlib.compress(filtered(picture))
    chunk = struct.pack(">I", len(body)) + b"IDAT" + body + b"\0\0\0\0"
    changed = plain[:start] + chunk + plain[start + 12 + size :]
    assert np.array_equal(read_png(changed), picture)


def field(number: int, value: int | bytes | float) -> bytes:
    """Encode a field of a protobuf message."""
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    if isinstance(value, int):
        return varint(number << 3) + varint(value % (1 << 64))
    return varint(number << 3 | 2) + varint(len(value)) + value


def varint(value: int) -> bytes:
    low = [value & 0x7F]
    while value := value >> 7:
        low.append(value & 0x7F)
    return bytes([*(byte | 0x80 for byte in low[:-1]), low[-1]])


def test_onnx_file(tmp_path: Path) -> None:
    weights = np.arange(6, dtype=np.float32).reshape(2, 3)
    attributes = [
        field(1, b"axes") + field(8, -1) + field(8, 300),
        field(1, b"alpha") + field(2, 0.5),
        field(1, b"group") + field(3, 3),
    ]
    node = field(1, b"x") + field(1, b"w") + field(2, b"y") + field(4, b"Conv")
    node += b"".join(field(5, attribute) for attribute in attributes)
    raw = field(1, varint(2) + varint(3)) + field(2, 1) + field(8, b"w")
    listed = field(1, 2) + field(2, 7) + field(7, varint(5) + varint(1 << 64 - 1)) + field(8, b"n")
    graph = field(1, node) + field(5, raw + field(9, weights.tobytes())) + field(5, listed)
    graph += b"".join(field(11, field(1, name)) for name in (b"x", b"w")) + field(
        12, field(1, b"y")
    )
    path = tmp_path / "model.onnx"
    path.write_bytes(field(1, 8) + field(7, graph))
    found = read_onnx(path)
    assert (found.inputs, found.outputs) == (["x"], ["y"])
    assert np.array_equal(found.constants["w"], weights)
    assert found.constants["n"].tolist() == [5, -(1 << 63)]
    expected = {"axes": [-1, 300], "alpha": 0.5, "group": 3}
    assert found.nodes == [Node("Conv", ("x", "w"), ("y",), expected)]


def onnx_graph(bias_shape: tuple[int, ...], root: float = 2**0.5) -> Graph:
    """Build a convolution of 1 to 4 channels, Identity, a sum, and GELU in five nodes."""
    rows = [
        ("Conv", ("x", "kernel"), "a"),
        ("Add", ("a", "bias"), "b"),
        ("Identity", ("b",), "c"),
        ("Div", ("c", "root"), "d"),
        ("Erf", ("d",), "e"),
        ("Add", ("e", "one"), "f"),
        ("Mul", ("c", "f"), "g"),
        ("Mul", ("g", "half"), "y"),
    ]
    constants = {"kernel": np.zeros((4, 1, 3, 3)), "bias": np.ones(bias_shape)}
    constants |= {"root": np.array(root), "one": np.array(1.0), "half": np.array(0.5)}
    nodes = [Node(op, inputs, (output,), {}) for op, inputs, output in rows]
    return Graph(nodes, constants, ["x"], ["y"])


def test_rewrites() -> None:
    found = simplified(onnx_graph((1, 4, 1, 1)))
    assert [node.op for node in found.nodes] == ["Conv", "Gelu"]
    conv, gelu = found.nodes
    assert found.constants[conv.inputs[2]].shape == (4,)
    assert (gelu.inputs, gelu.outputs) == (conv.outputs, ("y",))


def test_what_is_no_bias_and_no_gelu_stays() -> None:
    """Four values along the width are not per channel."""
    found = simplified(onnx_graph((1, 1, 1, 4)))
    assert [node.op for node in found.nodes] == ["Conv", "Add", "Gelu"]
    with pytest.raises(ValueError, match="other constants"):
        with_gelu(onnx_graph((1, 4, 1, 1), root=1.5))


def test_letters_of_a_line() -> None:
    places = [0, 1, 1, 0, 1, 2, 2, 0, 3]
    scores = np.eye(4)[places]
    assert ocr_line.text_of(scores, ["", "a", "b", " "]) == "aab "


def test_ends_of_a_file() -> None:
    tokens = file_type.tokens_of(b"  abc\n")
    assert (len(tokens), tokens[:4], tokens[-2:]) == (2048, [*b"abc\n"], [*b"bc"])
    assert set(tokens[4:-5]) == {256}
    full = bytes(range(1, 251)) * 10
    assert file_type.tokens_of(full) == [*full[:1024], *full[-1024:]]


def test_anchors_of_faces() -> None:
    anchors = face_detection.anchors()
    assert len(anchors) == 896
    assert anchors[0] == anchors[1] == (1 / 32, 1 / 32)
    assert anchors[2] == (3 / 32, 1 / 32)
    assert anchors[512] == anchors[517] == (1 / 16, 1 / 16)
    assert anchors[-1] == (15 / 16, 15 / 16)

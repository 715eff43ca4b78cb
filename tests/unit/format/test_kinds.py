"""Files that are no programs are told by their first bytes, with what to do."""

from __future__ import annotations

import asyncio
import io
import json
import struct
import zipfile

import numpy as np
import pytest

import webpte
from webpte.errors import FormatError


def zipped(name: str) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr(name, b"content")
    return stream.getvalue()


def npz() -> bytes:
    stream = io.BytesIO()
    np.savez(stream, x=np.zeros(3))
    return stream.getvalue()


HEADER = json.dumps({"weight": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
FILES = {
    "a PNG picture": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
    "a zip archive: unpack": zipped("model.pte"),
    "an archive of NumPy arrays: name it .npz": npz(),
    "a PyTorch checkpoint": zipped("model/data.pkl"),
    "a pickled PyTorch": b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.",
    "a Git LFS pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a",
    "an HTML page": b"\n<!DOCTYPE html>\n<html><body>404</body></html>",
    "a GGUF file": b"GGUF\x03\0\0\0" + bytes(16),
    "a safetensors file": struct.pack("<Q", len(HEADER)) + HEADER + bytes(4),
    "an ONNX model": b"\x08\x08\x12\x07pytorch\x1a\x052.1.0:\xd2",
    "a TensorFlow Lite model": b"\x1c\0\0\0TFL3" + bytes(20),
    "a .ptd file": b"\x1c\0\0\0FT01" + bytes(20),
    "empty": b"",
    "its identifier is": b"nothing that anybody knows",
}


@pytest.mark.parametrize("told", FILES)
def test_told_by_first_bytes(told: str) -> None:
    with pytest.raises(FormatError, match="not an ExecuTorch program") as caught:
        asyncio.run(webpte.inspect(FILES[told]))
    assert told in str(caught.value)

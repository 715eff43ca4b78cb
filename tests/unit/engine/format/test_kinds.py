"""Files that are not programs are recognized by their first bytes, with advice."""

from __future__ import annotations

import asyncio
import io
import json
import struct
import zipfile

import numpy as np
import pytest

import webpte
from webpte.errors import OtherFileError


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
    "a PNG picture: open a program first": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
    "a zip archive: unpack": zipped("model.pte"),
    "an archive of NumPy arrays: name it .npz": npz(),
    "a PyTorch checkpoint": zipped("model/data.pkl"),
    "a PyTorch checkpoint or saved program": zipped(f"{'long_' * 20}/data/weights/weight_0"),
    "a pickled PyTorch": b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.",
    "a Git LFS pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a",
    "an HTML page": b"\n<!DOCTYPE html>\n<html><body>404</body></html>",
    "a GGUF file": b"GGUF\x03\0\0\0" + bytes(16),
    "a gzip archive: unpack": b"\x1f\x8b\x08\0" + bytes(12),
    "a safetensors file": struct.pack("<Q", len(HEADER)) + HEADER + bytes(4),
    "an ONNX model": b"\x08\x08\x12\x07pytorch\x1a\x052.1.0:\xd2",
    "a TensorFlow Lite model": b"\x1c\0\0\0TFL3" + bytes(20),
    "a .ptn package": zipped("program.ptg"),
    "a program of ExecuTorch's native backend": b"\x1c\0\0\0NPTG" + bytes(20),
    "a .ptd file": b"\x1c\0\0\0FT01" + bytes(20),
    "an empty file": b"",
    "a text file: export": b"# My model\n\nThis is no program.",
    "a text file": "Größe: 3 µm, ".encode()[:15],
    "a JSON file": b'{"model_type": "llama"}',
    "a video (MP4 or QuickTime)": b"\0\0\0\x20ftypisom\0\0\x02\0",
    "an M4A recording": b"\0\0\0\x20ftypM4A \0\0\x02\0",
    "a WAV recording": b"RIFF\x24\0\0\0WAVEfmt ",
    "a WebP picture": b"RIFF\x24\0\0\0WEBPVP8 ",
    "a file of an unknown kind: if it was a .pte, it is damaged": bytes(range(256)),
    "a file of an unknown kind": b"\xff\xfe\0text",
}


@pytest.mark.parametrize("told", FILES)
def test_told_by_first_bytes(told: str) -> None:
    with pytest.raises(OtherFileError, match="not an ExecuTorch program but") as caught:
        asyncio.run(webpte.inspect(FILES[told]))
    assert f"{caught.value.kind}: {caught.value.advice}".startswith(told)
    assert f"but {told}" in str(caught.value)
    assert str(caught.value).endswith(caught.value.advice)

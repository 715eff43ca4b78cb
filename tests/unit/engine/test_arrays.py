"""Untrusted `.npy` and `.npz` files: arrays, or an InputError that names file and member."""

from __future__ import annotations

import io
import struct
import tracemalloc
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.harness import extent
from support.harness.bounded import bounded_work
from support.harness.mutants import Random, damaged, near_start, outcomes
from webpte.engine.files import arrays
from webpte.engine.files.arrays import read_array_file, read_npy, read_npz
from webpte.errors import InputError

MUTANTS = extent.count(2000, 20_000)


@pytest.fixture
def bounded() -> Iterator[None]:
    """Bounds of time and memory, below the reader's own limit: declared sizes are not trusted."""
    with bounded_work(arrays.MAX_BYTES // 2):
        yield


def npy(array: Any, version: tuple[int, int] | None = None) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.asarray(array), version)
    return stream.getvalue()


def npz(*, compressed: bool = False, **named: Any) -> bytes:
    stream = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(stream, **named)
    return stream.getvalue()


def with_header(header: str, data: bytes = b"") -> bytes:
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode("latin-1") + data


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
@pytest.mark.parametrize(
    "array",
    [
        np.arange(24, dtype=np.float32).reshape(2, 3, 4),
        np.asfortranarray(np.arange(24, dtype=">i2").reshape(2, 3, 4)),
        np.array([True, False]),
        np.array(2.5),
        np.zeros((2, 0, 3), np.float16),
        np.array(["a", "bcd"]),
        np.array([1 + 2j]),
    ],
    ids=lambda array: f"{array.dtype.str}{array.shape}",
)
def test_arrays_are_read_as_numpy_reads_them(
    array: np.ndarray, version: tuple[int, int], tmp_path: Path
) -> None:
    data = npy(array, version)
    path = tmp_path / "a.npy"
    path.write_bytes(data)
    for read in (read_npy(data, "a.npy"), read_array_file(path)):
        assert isinstance(read, np.ndarray)
        assert read.dtype == array.dtype
        assert read.shape == array.shape
        assert (read == array).all()
        assert read.flags.writeable


@pytest.mark.parametrize("compressed", [False, True])
def test_archives_are_read_as_numpy_reads_them(compressed: bool, tmp_path: Path) -> None:
    named = {"a": np.arange(6.0).reshape(2, 3), "folder/b": np.array(3, np.int64)}
    path = tmp_path / "x.npz"
    path.write_bytes(npz(compressed=compressed, **named))
    for read in (read_npz(path.read_bytes(), "x.npz"), read_array_file(path)):
        assert isinstance(read, dict)
        assert read.keys() == named.keys()
        assert all((read[name] == named[name]).all() for name in named)


def test_headers_of_other_writers() -> None:
    data = np.arange(6, dtype="<f4").tobytes()
    for header in (
        '{"shape": (2,3), "fortran_order":False,"descr": "<f4"}',
        "{'descr':'<f4','fortran_order':False,'shape':(2L, 3L),}\n",
    ):
        assert read_npy(with_header(header, data), "x").tolist() == [[0, 1, 2], [3, 4, 5]]


F4 = "{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }"


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "not a .npy file"),
        (b"\x93NUMPY\x09\x00", "version 9"),
        (b"\x93NUMPY\x01\x00\xff", "cut off"),
        (b"\x93NUMPY\x01\x00\x80\x00{", "cut off"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\xff", "a header of 4,294,967,295 bytes"),
        (with_header(F4 % "3,", bytes(8)), r"float32 \[3\], 12 bytes, but has 8"),
        (with_header(F4 % "3,", bytes(16)), r"float32 \[3\], 12 bytes, but has 16"),
        (with_header(F4 % ("9" * 18 + ","), bytes(8)), "at most 1,073,741,824 are read"),
        (with_header(F4 % ("9" * 5000 + ","), bytes(8)), "a shape that is not valid"),
        (with_header(F4 % ("1," * 33), bytes(4)), "33 dims; 32 are allowed"),
        (with_header(F4 % ",,3", bytes(4)), "a shape that is not valid"),
        (with_header(F4.replace("<f4", "<f3") % "1,", bytes(3)), "'<f3', which is not a supported"),
        (with_header(F4.replace("<f4", "|V2") % "1,", bytes(2)), "'|V2', which is not a supported"),
        (with_header(F4.replace("'<f4'", "[('a', '<f4')]") % "1,", bytes(4)), "a header that is"),
        (with_header("(" * 4000), "a header that is not valid"),
        (with_header("{'descr': " + "-" * 9000 + "1}"), "a header that is not valid"),
        (with_header(F4.replace("<f4", "|b1") % "1,", b"\x05"), "bools that are neither"),
    ],
)
def test_what_is_wrong_is_told(data: bytes, says: str) -> None:
    with pytest.raises(InputError, match=rf"^x\.npy.*{says}"):
        read_npy(data, "x.npy")


def test_pickles_are_refused_wherever_they_are() -> None:
    objects = np.array([{}], object)
    stream = io.BytesIO()
    np.save(stream, objects, allow_pickle=True)
    with pytest.raises(InputError, match=r"x\.npy holds Python objects \(a pickle\)"):
        read_npy(stream.getvalue(), "x.npy")
    with pytest.raises(InputError, match=r"x\.npz: output0\.npy holds Python objects"):
        read_npz(npz(output0=objects), "x.npz")


def zipped(content: bytes, method: int = zipfile.ZIP_STORED) -> bytearray:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        archive.writestr("a.npy", content)
    return bytearray(stream.getvalue())


def directory(data: bytearray) -> int:
    return data.rfind(b"PK\x01\x02")


def test_archives_that_lie_are_refused() -> None:
    content = npy(np.zeros(1000))
    deflated = zipped(content, zipfile.ZIP_DEFLATED)
    encrypted, larger, wide = bytearray(deflated), bytearray(deflated), zipped(content)
    encrypted[directory(encrypted) + 8] |= 1
    struct.pack_into("<I", larger, directory(larger) + 24, 1 << 29)
    struct.pack_into("<I", wide, wide.rfind(b"PK\x05\x06") + 12, 1 << 31)
    flipped = zipped(content)
    flipped[200] ^= 1
    for data, says in (
        (zipped(content, zipfile.ZIP_LZMA), "a.npy: compressed by method 14"),
        (encrypted, "a.npy: it is encrypted"),
        (larger, "a.npy: 536,870,912 bytes are declared, which"),
        (wide, "a directory of 2,147,483,648 bytes"),
        (flipped, "a.npy is damaged: Bad CRC-32"),
        (deflated[:-30], "damaged or cut off"),
        (zipped(b"text"), "a.npy is not a .npy file"),
    ):
        with pytest.raises(InputError, match=rf"^x\.npz.*{says}"):
            read_npz(bytes(data), "x.npz")


def test_the_limits_are_of_all_arrays_of_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "MAX_BYTES", 20_000)
    one = np.zeros(1000)
    assert read_npz(npz(a=one, b=one), "x.npz").keys() == {"a", "b"}
    with pytest.raises(InputError, match=r"24,\d+ bytes of arrays; at most 20,000"):
        read_npz(npz(compressed=True, a=one, b=one, c=one), "x.npz")
    monkeypatch.setattr(arrays, "MAX_ARRAYS", 2)
    with pytest.raises(InputError, match="3 members; 2 are allowed"):
        read_npz(npz(a=1, b=2, c=3), "x.npz")


def test_two_members_of_one_name_are_refused() -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("a.npy", npy(1))
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("a.npy", npy(2))
    with pytest.raises(InputError, match=r"a\.npy: there are two of this name"):
        read_npz(stream.getvalue(), "x.npz")


def test_an_array_is_held_once() -> None:
    data = npz(compressed=True, a=np.zeros(1 << 21))
    tracemalloc.start()
    read_npz(data, "x.npz")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1.3 * (1 << 24)


def test_files_that_cannot_be_opened(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.npz", Path("a\0b.npz")):
        with pytest.raises(InputError, match=r"not a readable \.npy or \.npz file"):
            read_array_file(path)


SAMPLE = {"output0": np.arange(12, dtype=np.float32).reshape(3, 4), "b": np.array([1, 2])}


@pytest.mark.parametrize("kind", ["npy", "stored", "deflated"])
@pytest.mark.usefixtures("bounded")
def test_damaged_files(kind: str) -> None:
    whole = npy(SAMPLE["b"]) if kind == "npy" else npz(compressed=kind == "deflated", **SAMPLE)

    def make(rng: Random) -> bytes:
        return near_start(whole, rng, 130) if rng.random() < 0.5 else damaged(whole, rng)

    def read(data: bytes) -> None:
        (read_npy if kind == "npy" else read_npz)(data, "x")

    good, bad = outcomes(read, make, MUTANTS, InputError, kind)
    assert good > MUTANTS // 100
    assert bad > MUTANTS // 2

"""Reader of untrusted `.npy` files and `.npz` archives.

It does not use `numpy.load`: a header is matched, never evaluated, Python objects (pickles) are
refused, and declared sizes are checked against the file's before memory is allocated. Every failure
is an InputError that names the file, and the member of an archive.
"""

from __future__ import annotations

import io
import math
import re
import struct
import zipfile
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np

from webpte.errors import InputError

MAX_BYTES = 1 << 30  # all arrays of a file together
MAX_ARRAYS = 4096
MAX_DIMS = 32

Array = np.ndarray[Any, np.dtype[Any]]
T = TypeVar("T")

_NPY, _ZIP = b"\x93NUMPY", b"PK"
_MAX_HEADER = 10_000  # bytes; NumPy's own limit. It writes headers of about 118
_STEP = 1 << 20  # bytes to decompress at once
_MAX_EXPANSION = 1032  # largest expansion by deflate, for any content
_MAX_DIRECTORY = MAX_ARRAYS * 1024  # bytes: each member's name is in it once
_ENCRYPTED = 1  # flag of a member
_DTYPE = re.compile(r"[<>=|]?(?:[biufc]\d{1,2}|[SU][1-9]\d{0,5})")
_MEMBER = re.compile(
    r"\s*(?P<quote>['\"])(?P<key>\w+)(?P=quote)\s*:\s*"
    r"(?:(?P<flag>True|False)|'(?P<single>[^'\\]*)'|\"(?P<double>[^\"\\]*)\"|\((?P<shape>[\d\sL,]*)\))"
    r"\s*(?P<comma>,?)"
)
_KEYS = {  # (key, kind of its value) -> key
    ("descr", "single"): "descr",
    ("descr", "double"): "descr",
    ("fortran_order", "flag"): "fortran_order",
    ("shape", "shape"): "shape",
}
# Exceptions of the standard library for damaged or hostile archives.
_DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, KeyError, struct.error),
    *(NotImplementedError, RuntimeError, OverflowError, MemoryError),
)


def read_array_file(path: Path) -> Array | dict[str, Array]:
    """Read the array of a `.npy` file, or the arrays of a `.npz` archive by name."""
    try:
        with path.open("rb") as file:
            return _read(file, path.name)
    except (OSError, ValueError) as error:
        raise _no_file(path.name, error) from error


def read_npy(data: bytes, name: str) -> Array:
    """Read the array in the bytes of a `.npy` file."""
    return _damage_told(name, lambda: _array(io.BytesIO(data), len(data), name))


def read_npz(data: bytes, name: str) -> dict[str, Array]:
    """Read the arrays in the bytes of a `.npz` archive, by name."""
    return _damage_told(name, lambda: _archive(io.BytesIO(data), len(data), name))


def is_npy(data: bytes) -> bool:
    """Return whether the first bytes start a `.npy` file."""
    return data.startswith(_NPY)


def _read(file: IO[bytes], name: str) -> Array | dict[str, Array]:
    size = file.seek(0, io.SEEK_END)
    file.seek(0)
    start = file.read(len(_NPY))
    file.seek(0)
    if is_npy(start):
        return _damage_told(name, lambda: _array(file, size, name))
    if start.startswith(_ZIP):
        return _damage_told(name, lambda: _archive(file, size, name))
    raise _no_file(name, "its first bytes are of neither kind")


def _no_file(name: str, why: object) -> InputError:
    return InputError(f"{name} is not a readable .npy or .npz file: {why}")


def _damage_told(name: str, read: Callable[[], T]) -> T:
    try:
        return read()
    except _DAMAGE as error:
        raise InputError(f"{name} is damaged: {error or type(error).__name__}") from error


# A single array


def _array(file: IO[bytes], size: int, name: str) -> Array:
    """Read exactly `size` bytes: the header, and the elements that it declares."""
    dtype, shape, fortran, at = _header(file, name)
    count = math.prod(shape)
    needed = count * dtype.itemsize
    if needed > MAX_BYTES:
        raise InputError(
            f"{name} declares {_shape_text(dtype, shape)}, {needed:,} bytes; at most "
            f"{MAX_BYTES:,} are read of one file"
        )
    if at + needed != size:
        raise InputError(
            f"{name} declares {_shape_text(dtype, shape)}, {needed:,} bytes, but has "
            f"{size - at:,}: it is damaged or cut off"
        )
    elements = np.empty(count, dtype)
    if needed:
        _fill(elements.view(np.uint8).data, file, name)
    if file.read(1):  # the end is also where an archive's checksum is compared
        raise InputError(f"{name} has more bytes than its archive declares: it is damaged")
    if dtype.kind == "b" and needed and int(elements.view(np.uint8).max()) > 1:
        raise InputError(f"{name} has bools that are neither 0 nor 1: it is damaged")
    return elements.reshape(shape[::-1]).T if fortran else elements.reshape(shape)


def _shape_text(dtype: np.dtype[Any], shape: tuple[int, ...]) -> str:
    return f"{dtype.name} {list(shape)}"


def _fill(target: memoryview, file: IO[bytes], name: str) -> None:
    at = 0
    while at < len(target):
        part = file.read(min(_STEP, len(target) - at))
        if not part:
            raise InputError(f"{name} ends after {at:,} of {len(target):,} bytes: it is cut off")
        target[at : at + len(part)] = part
        at += len(part)


def _header(file: IO[bytes], name: str) -> tuple[np.dtype[Any], tuple[int, ...], bool, int]:
    """Return dtype, shape, whether it is in Fortran order, and the offset of the elements."""
    start = file.read(len(_NPY) + 2)
    if not is_npy(start) or len(start) < len(_NPY) + 2:
        raise InputError(
            f"{name} is not a .npy file: it does not start with NumPy's magic bytes. "
            "Save one array with numpy.save(path, array)."
        )
    version = start[len(_NPY)]
    if version not in (1, 2, 3):
        raise InputError(f"{name} is a .npy file of version {version}; 1 to 3 are supported")
    form = "<H" if version == 1 else "<I"
    raw = file.read(struct.calcsize(form))
    if len(raw) < struct.calcsize(form):
        raise InputError(f"{name} ends inside of its header: it is cut off")
    (length,) = struct.unpack(form, raw)
    if length > _MAX_HEADER:
        raise InputError(f"{name} has a header of {length:,} bytes; {_MAX_HEADER:,} are allowed")
    header = file.read(length)
    if len(header) < length:
        raise InputError(f"{name} ends inside of its header: it is cut off")
    members = _members(header.decode("utf-8" if version == 3 else "latin-1"), name)
    dtype, shape = _dtype(members["descr"], name), _shape(members["shape"], name)
    at = len(start) + len(raw) + length
    return dtype, shape, members["fortran_order"] == "True", at


def _members(header: str, name: str) -> dict[str, Any]:
    """Parse a header: `{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }`."""
    text = header.strip()
    body = text[1:-1] if text.startswith("{") and text.endswith("}") else ""
    if "'O'" in body or "|O" in body:
        raise InputError(
            f"{name} holds Python objects (a pickle), which are refused: reading them runs code. "
            "Save an array of numbers."
        )
    found: dict[str, Any] = {}
    at, more = 0, True
    while more and (match := _MEMBER.match(body, at)):
        kinds = ("flag", "single", "double", "shape")
        kind, value = next((k, match[k]) for k in kinds if match[k] is not None)
        found[_KEYS.get((match["key"], kind), "")] = value
        at, more = match.end(), bool(match["comma"])
    if body[at:].strip() or found.keys() != set(_KEYS.values()):
        raise InputError(f"{name} has a header that is not valid for numbers: {text[:80]!r}")
    return found


def _dtype(text: str, name: str) -> np.dtype[Any]:
    try:
        if _DTYPE.fullmatch(text):
            return np.dtype(text)
    except TypeError:
        pass  # f3, say
    raise InputError(f"{name} has elements of type {text!r}, which is not a supported number type")


def _shape(text: str, name: str) -> tuple[int, ...]:
    words = text.replace("L", "").split(",")  # Python 2 wrote 3L
    sizes = [word.strip() for word in words]
    if sizes[-1] == "":
        sizes.pop()  # left by (3,) and by ()
    if len(sizes) > MAX_DIMS:
        raise InputError(f"{name} has {len(sizes)} dims; {MAX_DIMS} are allowed")
    if not all(size.isascii() and size.isdigit() and len(size) <= 18 for size in sizes):
        raise InputError(f"{name} has a shape that is not valid: ({text.strip()[:80]})")
    return tuple(map(int, sizes))


# An archive of arrays


def _archive(file: IO[bytes], size: int, name: str) -> dict[str, Array]:
    _check_directory(file, size, name)
    with zipfile.ZipFile(file) as archive:
        members = [info for info in archive.infolist() if not info.filename.endswith("/")]
        _check_members(members, size, name)
        arrays: dict[str, Array] = {}
        for info in members:
            key, where = info.filename.removesuffix(".npy"), f"{name}: {info.filename[:200]}"
            if key in arrays:
                raise InputError(f"{where}: there are two of this name")
            arrays[key] = _damage_told(where, partial(_member, archive, info, where))
        return arrays


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, where: str) -> Array:
    with archive.open(info) as stream:
        return _array(stream, info.file_size, where)


def _check_directory(file: IO[bytes], size: int, name: str) -> None:
    """Refuse a directory that is too large before `zipfile` creates objects for it.

    A directory with 64-bit sizes is for archives beyond 4 GiB, which are over the limit anyway.
    """
    length = min(size, 22 + 20 + (1 << 16))  # the end record, its 64-bit locator, a comment
    file.seek(size - length)
    tail = file.read(length)
    file.seek(0)
    end = tail.rfind(b"PK\x05\x06")
    if end < 0 or len(tail) < end + 22:
        raise InputError(f"{name} is damaged or cut off: a zip archive ends with its directory")
    (directory,) = struct.unpack_from("<I", tail, end + 12)
    if directory > _MAX_DIRECTORY or b"PK\x06\x07" in tail[max(end - 20, 0) : end]:
        raise InputError(
            f"{name} has a directory of {directory:,} bytes or of 64-bit sizes; at most "
            f"{MAX_ARRAYS:,} arrays and {MAX_BYTES:,} bytes are read of one file"
        )


def _check_members(members: list[zipfile.ZipInfo], size: int, name: str) -> None:
    """Compare the archive's declared sizes with the limits and with its real bytes."""
    if len(members) > MAX_ARRAYS:
        raise InputError(f"{name} has {len(members):,} members; {MAX_ARRAYS:,} are allowed")
    total = sum(info.file_size for info in members)
    if total > MAX_BYTES:
        raise InputError(
            f"{name} declares {total:,} bytes of arrays; at most {MAX_BYTES:,} are read of one file"
        )
    if sum(info.compress_size for info in members) > size:
        raise InputError(f"{name} is damaged: its members have more bytes than the file")
    for info in members:
        where = f"{name}: {info.filename[:200]}"
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise InputError(
                f"{where}: compressed by method {info.compress_type}; numpy.savez and "
                "numpy.savez_compressed write what can be read"
            )
        if info.flag_bits & _ENCRYPTED:
            raise InputError(f"{where}: it is encrypted; save it without a password")
        stored = info.compress_type == zipfile.ZIP_STORED
        if info.file_size > info.compress_size * (1 if stored else _MAX_EXPANSION):
            raise InputError(
                f"{where}: {info.file_size:,} bytes are declared, which {info.compress_size:,} "
                "cannot hold: it is damaged"
            )

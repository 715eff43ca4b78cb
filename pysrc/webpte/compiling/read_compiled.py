"""Reads the files of a compiled program: its descriptions, checked, and its kernels.

The files come from anywhere. Only the kernels, buffers and dispatches of a description are read,
and every number is in the range of the things that it counts afterwards; nothing is run.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from webpte.compiling.description import FORMAT, VERSION, WGSL
from webpte.compiling.device_classes import CLASSES
from webpte.engine.dtypes import DTYPES
from webpte.errors import DescriptionError, UnsupportedError

Table = dict[str, Any]

DESCRIPTIONS = tuple(one.file for one in CLASSES)
MOST_BYTES = 64 << 20  # of a description, and of all kernels
MOST_BINDINGS = 100_000  # of all dispatches of a plan: more cannot be drawn
_LARGEST = 2**53
_ACCESS = ("read", "write", "uniform")
_USES = ("storage", "uniform", "constant")


@dataclass(frozen=True)
class CompiledFiles:
    """A compiled program.

    tables   its descriptions, by the file: one for each class of devices
    shaders  WGSL by file; {} where the description came alone
    """

    name: str
    tables: Mapping[str, Table]
    shaders: Mapping[str, str]


def is_wanted(path: str) -> bool:
    """Return whether a file of a compiled folder is read, by its path there."""
    return path in DESCRIPTIONS or (path.startswith(f"{WGSL}/") and path.endswith(".wgsl"))


def read_compiled(files: Mapping[str, bytes], name: str) -> CompiledFiles:
    """Read the files of a compiled folder by their paths; others than `is_wanted` are left out.

    name  the folder, for errors

    Raises DescriptionError, and UnsupportedError for a newer version or more than can be shown.
    """
    tables = {one: read_description(files[one], one) for one in DESCRIPTIONS if one in files}
    if not tables:
        raise DescriptionError(name, f"it has none of {', '.join(DESCRIPTIONS)}")
    shaders = {
        path: data.decode("utf-8", "replace")
        for path, data in files.items()
        if is_wanted(path) and path not in DESCRIPTIONS
    }
    named = next(iter(tables.values())).get("name")
    return CompiledFiles(named if isinstance(named, str) and named else name, tables, shaders)


def read_description(data: bytes, file: str) -> Table:
    """Return a description that was checked. Raises as `read_compiled`."""
    if len(data) > MOST_BYTES:
        raise UnsupportedError(f"{file} has {len(data):,} bytes: at most {MOST_BYTES:,} are read")
    try:
        table = json.loads(data)
    except json.JSONDecodeError as error:
        raise DescriptionError(file, f"it is no JSON, {error.msg}", error.pos) from None
    except (UnicodeDecodeError, RecursionError, ValueError) as error:
        raise DescriptionError(file, f"it is no JSON, {error}") from None
    checker = _Checker(file)
    checker.need(isinstance(table, dict) and table.get("format") == FORMAT, "of another format")
    version = table.get("version")
    checker.need(_is_count(version), "it has no version")
    if version > VERSION:
        raise UnsupportedError(
            f"{file} was compiled as version {version}, and version {VERSION} is read here: use a "
            "newer webpte, or compile the program again"
        )
    checker.need(version == VERSION, f"there is no version {version}")
    try:
        checker.check(table)
    except (TypeError, KeyError, ValueError, AttributeError, IndexError) as error:
        raise DescriptionError(file, f"{type(error).__name__}: {error}") from None
    return table


def _is_count(value: object, below: int = _LARGEST) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < below


class _Checker:
    def __init__(self, file: str) -> None:
        self._file = file
        self._sizes: list[int] = []
        self._kernels: list[Table] = []

    def need(self, holds: bool, problem: str) -> None:
        if not holds:
            raise DescriptionError(self._file, problem)

    def _list(self, value: Any, what: str) -> list[Any]:
        self.need(isinstance(value, list), f"{what} are no list")
        return list(value)

    def check(self, table: Table) -> None:
        self._sizes = self._list(table["buffers"], "buffers")
        self.need(all(_is_count(size) and size for size in self._sizes), "a buffer has no size")
        uses = self._list(table["uses"], "uses of buffers")
        known = len(uses) == len(self._sizes) and all(use in _USES for use in uses)
        self.need(known, "a buffer has no use")
        files = self._list(table["files"], "files")
        for file in files:
            right = isinstance(file["name"], str) and _is_count(file["bytes"])
            self.need(right, "a file has no name, or no size")
        for buffer, file, offset, size, _convert in self._list(table["constants"], "constants"):
            self.need(self._is_buffer(buffer) and _is_count(file, len(files)), "a lost constant")
            whole = _is_count(offset) and _is_count(size)
            inside = whole and offset + size <= files[file]["bytes"]
            self.need(inside, "a constant is outside of its file")
        for buffer, offset, words in self._list(table["contents"], "contents"):
            right = all(_is_count(word, 2**32) for word in self._list(words, "contents"))
            self.need(right, "contents are no words")
            self._range(buffer, offset, 4 * len(words), "contents")
        self._kernels = self._list(table["kernels"], "kernels")
        for kernel in self._kernels:
            self._kernel(kernel)
        self.need(isinstance(table["methods"], dict), "it has no methods")
        for name, method in table["methods"].items():
            self._method(name, method)

    def _is_buffer(self, value: object) -> bool:
        return _is_count(value, len(self._sizes))

    def _range(self, buffer: object, offset: Any, size: Any, what: str) -> None:
        right = self._is_buffer(buffer) and _is_count(offset) and _is_count(size)
        at = buffer if isinstance(buffer, int) else 0
        self.need(right and offset + size <= self._sizes[at], f"{what} outside of a buffer")

    def _kernel(self, kernel: Table) -> None:
        named = isinstance(kernel["label"], str) and isinstance(kernel["wgsl"], str)
        self.need(named, "a kernel has no label, or no file")
        bindings = self._list(kernel["bindings"], "bindings")
        self.need(all(one in _ACCESS for one in bindings), "a kernel has other bindings")
        values = kernel["overrides"].values()
        numbers = all(isinstance(one, int | float) and math.isfinite(one) for one in values)
        self.need(numbers, "an override is no number")

    def _method(self, name: str, method: Table) -> None:
        for one in (*method["inputs"], *method["outputs"]):
            typed = "kind" in one or one["dtype"] in _NAMES
            self.need(isinstance(one["name"], str) and typed, f"{name}: a value has no type")
        for plan in self._list(method.get("plans", []), "plans"):
            self._plan(name, method, plan)

    def _plan(self, name: str, method: Table, plan: Table) -> None:
        shapes, packed = plan["shapes"], plan["packed"]
        same = len(shapes) == len(packed) == len(method["inputs"])
        self.need(same, f"{name}: a plan has other inputs")
        for shape in shapes:
            self.need(shape is None or _is_shape(shape), f"{name}: an input has no shape")
        for one in packed:
            self.need(one is None or _is_count(one[0]), f"{name}: an input has no place")
        for buffer, offset, size in self._list(plan["uploads"], "uploads"):
            self.need(_is_count(offset), f"{name}: an upload has no place")
            self._range(buffer, 0, size, "an upload")
        for buffer in self._list(plan["clears"], "clears"):
            self.need(self._is_buffer(buffer), f"{name}: it clears no buffer")
        self._dispatches(name, plan)
        for buffer, size, offset in self._list(plan["readbacks"], "read-backs"):
            self.need(_is_count(offset), f"{name}: a read-back has no place")
            self._range(buffer, 0, size, "a read-back")
        results = self._list(plan["results"], "results")
        self.need(len(results) == len(method["outputs"]), f"{name}: a plan has other outputs")
        for one in results:
            typed = "symint" in one or (
                _is_count(one["offset"]) and one["dtype"] in _NAMES and _is_shape(one["shape"])
            )
            self.need(typed, f"{name}: a result has no type")

    def _dispatches(self, name: str, plan: Table) -> None:
        dispatches = self._list(plan["dispatches"], "dispatches")
        labels = self._list(plan["labels"], "labels")
        told = len(labels) == len(dispatches) and all(isinstance(one, str) for one in labels)
        self.need(told, f"{name}: dispatches have no operators")
        bindings = 0
        for kernel, resources, grid in dispatches:
            self.need(_is_count(kernel, len(self._kernels)), f"{name}: there is no such kernel")
            bindings += len(resources)
            same = len(resources) == len(self._kernels[kernel]["bindings"])
            self.need(same, f"{name}: a kernel has other resources")
            for buffer, offset, size in resources:
                self._range(buffer, offset, size, "a binding")
            right = len(grid) == 3 and all(_is_count(groups, 65536) for groups in grid)
            self.need(right, f"{name}: a grid is no grid")
        if bindings > MOST_BINDINGS:
            raise UnsupportedError(
                f"{self._file}: a plan of {name} binds {bindings:,} buffers; at most "
                f"{MOST_BINDINGS:,} are shown"
            )


_NAMES = frozenset(DTYPES)


def _is_shape(value: object) -> bool:
    return isinstance(value, list) and all(_is_count(size, 2**31) for size in value)

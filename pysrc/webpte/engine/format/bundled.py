"""Reader of `.bpte` files: a program with inputs and expected outputs.

    byte  0  u32  root table            4  "BP08"

A flatbuffer has the whole `.pte` as bytes, and for each method cases of inputs with expected
outputs. ExecuTorch's devtools write it (`BundledProgram`), for checks on a device. Such files fit
into memory: the program in them is read as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from webpte.engine.dtypes import dtype_of_program
from webpte.engine.format.flat import IDENTIFIER_AT, FlatBuffer, FlatTable, Span
from webpte.engine.format.shared import ScalarType, byte_size, read_shape, shown
from webpte.errors import FormatError

__all__ = ["Bundle", "BundledCase", "is_bundle", "parse_bundle"]

KNOWN = b"BP08"
TENSOR, INT, BOOL, DOUBLE = range(1, 5)

BundledValue = np.ndarray | int | float | bool


@dataclass(frozen=True)
class BundledCase:
    """Inputs of a method, and their expected outputs."""

    inputs: tuple[BundledValue, ...]
    expected: tuple[BundledValue, ...]


@dataclass(frozen=True)
class Bundle:
    """The place of the program in the file, and the cases of each method."""

    program: Span
    cases: dict[str, tuple[BundledCase, ...]]


def is_bundle(head: bytes) -> bool:
    """Return whether a file starts like a bundled program, in any version."""
    identifier = head[IDENTIFIER_AT : IDENTIFIER_AT + 4]
    return identifier[:2] == b"BP" and identifier[2:].isdigit() and len(identifier) == 4


def parse_bundle(data: bytes) -> Bundle:
    """Parse a whole file."""
    identifier = data[IDENTIFIER_AT : IDENTIFIER_AT + 4]
    if identifier != KNOWN:
        raise FormatError(
            f"a bundled program of version {identifier!r}; {KNOWN!r} can be read. Write it again "
            "with a newer ExecuTorch",
            IDENTIFIER_AT,
        )
    root = FlatBuffer(data).root("BundledProgram")
    program = root.span(2, "program")
    if program.size == 0:
        raise root.error(2, "program", "the bundle has no program")
    cases: dict[str, tuple[BundledCase, ...]] = {}
    for suite in root.tables(1, "method_test_suites"):
        name = suite.text(0, "method_name")
        if name in cases:
            raise suite.error(0, "method_name", f"two suites are for the method {shown(name)}")
        cases[name] = tuple(_case(item, data) for item in suite.tables(1, "test_cases"))
    return Bundle(program, cases)


def _case(item: FlatTable, data: bytes) -> BundledCase:
    inputs, expected = (
        tuple(_value(value, data) for value in item.tables(slot, name))
        for slot, name in enumerate(("inputs", "expected_outputs"))
    )
    return BundledCase(inputs, expected)


def _value(item: FlatTable, data: bytes) -> BundledValue:
    tag, table = item.union(0, "val")
    if tag == TENSOR:
        return _tensor(table, data)
    if tag == INT:
        return table.i64(0, "int_val")
    if tag == BOOL:
        return table.boolean(0, "bool_val")
    if tag == DOUBLE:
        return table.f64(0, "double_val")
    raise item.error(0, "val_type", f"unknown kind of value {tag}")


def _tensor(table: FlatTable, data: bytes) -> np.ndarray:
    scalar_type = table.enum(0, "scalar_type", ScalarType)
    sizes, order = read_shape(table, 1, 3, scalar_type)
    dtype = dtype_of_program(scalar_type, "a tensor of a bundled case")
    span = table.span(2, "data")
    needed = byte_size(sizes, dtype.itemsize)
    if span.size != needed:
        raise table.error(2, "data", f"{needed} bytes are needed, {span.size} are there")
    stored = dtype.from_bytes(memoryview(data)[span.offset : span.end])
    in_memory = stored.reshape([sizes[dim] for dim in order])
    return np.ascontiguousarray(in_memory.transpose(np.argsort(order))).reshape(sizes)

"""Bundled programs: reading, loading, checking, and the errors of broken bundles."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import pytest

import webpte
from webpte.engine.format.bundled import is_bundle, parse_bundle
from webpte.errors import FormatError, InputError, WebpteError

# Two cases of x [2, 3], y [1, 2, 3, 3] -> relu(linear(x)), 2 y + 1, written by ExecuTorch 1.5
BUNDLE = Path(__file__).parents[3] / "data" / "format" / "bundled.bpte"
LONG, FLOAT = 4, 6


class BundleWriter:
    """Writes a bundle of one method and one case, table by table."""

    def __init__(self) -> None:
        self.b = flatbuffers.Builder(256)

    def vector(self, items: list[int]) -> int:
        self.b.StartVector(4, len(items), 4)
        for item in reversed(items):
            self.b.PrependUOffsetTRelative(item)
        return int(self.b.EndVector())

    def table(self, *fields: tuple[str, Any]) -> int:
        self.b.StartObject(len(fields))
        for slot, (kind, value) in enumerate(fields):
            if value is not None:
                getattr(self.b, f"Prepend{kind}Slot")(slot, value, 0)
        return int(self.b.EndObject())

    def tensor(self, array: np.ndarray, order: list[int] | None = None, code: int = FLOAT) -> int:
        order = list(range(array.ndim)) if order is None else order
        sizes = self.b.CreateNumpyVector(np.array(array.shape, np.int32))
        stored = np.ascontiguousarray(array.transpose(order)).reshape(-1)
        data = self.b.CreateNumpyVector(stored.view(np.uint8))
        dims = self.b.CreateNumpyVector(np.array(order, np.uint8))
        offset = "UOffsetTRelative"
        return self.table(("Int8", code), (offset, sizes), (offset, data), (offset, dims))

    def value(self, tag: int, table: int) -> int:
        return self.table(("Uint8", tag), ("UOffsetTRelative", table))

    def bundle(self, inputs: list[int], names: tuple[str, ...] = ("forward",)) -> bytes:
        offset, suites = "UOffsetTRelative", []
        given = self.vector(inputs)
        for name in names:
            cases = self.vector([self.table((offset, given), (offset, self.vector([])))])
            suites.append(self.table((offset, self.b.CreateString(name)), (offset, cases)))
        listed = self.vector(suites)
        program = self.b.CreateNumpyVector(np.zeros(8, np.uint8))
        root = self.table(("Uint32", 1), (offset, listed), (offset, program))
        self.b.Finish(root, file_identifier=b"BP08")
        return bytes(self.b.Output())


def read() -> bytes:
    return BUNDLE.read_bytes()


def test_cases_are_those_of_the_file() -> None:
    data = read()
    bundle = parse_bundle(data)
    assert is_bundle(data)
    assert data[bundle.program.offset + 4 :][:2] == b"ET"
    (first, second) = bundle.cases["forward"]
    assert [array.shape for array in first.inputs] == [(2, 3), (1, 2, 3, 3)]  # type: ignore[union-attr]
    assert [array.shape for array in first.expected] == [(2, 2), (1, 2, 3, 3)]  # type: ignore[union-attr]
    for case in (first, second):
        np.testing.assert_allclose(case.expected[1], np.asarray(case.inputs[1]) * 2 + 1, rtol=1e-6)
    assert not np.array_equal(first.inputs[0], second.inputs[0])


def test_a_bundle_loads_and_checks_itself() -> None:
    async def run() -> None:
        assert list(await webpte.inspect(read())) == ["forward"]
        async with await webpte.load(BUNDLE, device="numpy") as program:
            assert program.name == "bundled.bpte"
            assert (await program.check()).agrees
            for case in program.cases["forward"]:
                assert (await program.check(case.inputs, case.expected)).agrees
            wrong = [np.asarray(value) + 1 for value in program.cases["forward"][0].expected]
            assert not (await program.check(program.cases["forward"][0].inputs, wrong)).agrees

    asyncio.run(run())


def test_another_program_has_no_cases(tmp_path: Path) -> None:
    async def run() -> None:
        bundle = parse_bundle(read())
        data = read()[bundle.program.offset : bundle.program.end]
        async with await webpte.load(data, device="numpy") as program:
            assert program.cases == {}
            with pytest.raises(InputError, match="no example is beside it"):
                await program.check()

    asyncio.run(run())


def test_every_kind_of_value() -> None:
    w = BundleWriter()
    array = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)
    numbers = [
        (2, w.table(("Int64", -5))),
        (3, w.table(("Bool", True))),
        (4, w.table(("Float64", 0.5))),
    ]
    values = [
        w.value(1, w.tensor(array, [0, 2, 3, 1])),
        w.value(1, w.tensor(np.array(7), code=LONG)),
        *(w.value(tag, table) for tag, table in numbers),
    ]
    (case,) = parse_bundle(w.bundle(values)).cases["forward"]
    np.testing.assert_array_equal(case.inputs[0], array)
    assert case.inputs[1] == np.array(7)
    assert case.inputs[2:] == (-5, True, 0.5)


def test_what_is_wrong_is_told() -> None:
    w = BundleWriter()
    with pytest.raises(FormatError, match="two suites are for the method 'forward'"):
        parse_bundle(w.bundle([], ("forward", "forward")))
    w = BundleWriter()
    with pytest.raises(FormatError, match="unknown kind of value 9"):
        parse_bundle(w.bundle([w.value(9, w.table(("Int64", 1)))]))
    w = BundleWriter()
    short = w.tensor(np.zeros(3, np.float32), code=LONG)
    with pytest.raises(FormatError, match="24 bytes are needed, 12 are there"):
        parse_bundle(w.bundle([w.value(1, short)]))
    with pytest.raises(FormatError, match=r"version b'BP09'"):
        asyncio.run(webpte.inspect(read().replace(b"BP08", b"BP09", 1)))


def test_broken_bundles_raise_errors_of_ours() -> None:
    data, rng = read(), np.random.default_rng(1)
    parsed = 0
    for number in range(400):
        broken = bytearray(data[: rng.integers(9, len(data))] if number % 4 == 0 else data)
        for _ in range(rng.integers(1, 6)):
            broken[rng.integers(8, len(broken))] = rng.integers(0, 256)
        try:
            parse_bundle(bytes(broken))
            parsed += 1
        except WebpteError:
            pass
    assert 0 < parsed < 400

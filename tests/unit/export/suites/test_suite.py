"""The comparison rule and the reading of suite entries; a stub stands in for the program."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import webpte
from support.harness import extent
from support.harness.bounded import bounded_work
from support.harness.mutants import Random, damaged_json, outcomes
from webpte.engine.files.json_reader import parse_json
from webpte_export.suites.suite import SuiteError, compare, parse_entry, run_entry, suite_tolerance

F32 = np.float32
NAN = float("nan")
INF = float("inf")


def floats(*values: float) -> Any:
    return np.array(values, F32)


@pytest.mark.parametrize(
    ("got", "golden", "passes"),
    [
        pytest.param(floats(1, 2), floats(1, 2), True, id="equal"),
        pytest.param(floats(0.0009), floats(0), True, id="within atol alone"),
        pytest.param(floats(1000.5), floats(1000), True, id="within rtol alone"),
        pytest.param(floats(0.0011), floats(0), False, id="over both, golden near zero"),
        pytest.param(floats(1002), floats(1000), False, id="over both"),
        pytest.param(floats(1, 5), floats(1, 2), False, id="one element"),
        pytest.param(floats(NAN), floats(1), False, id="NaN result"),
        pytest.param(floats(NAN), floats(NAN), False, id="NaN in both"),
        pytest.param(floats(INF, -INF), floats(INF, -INF), True, id="equal infinities"),
        pytest.param(floats(INF), floats(-INF), False, id="opposite infinities"),
        pytest.param(floats(1), floats(INF), False, id="finite for infinity"),
        pytest.param(floats(1).reshape(1, 1), floats(1), False, id="shape"),
        pytest.param(floats(), floats(), True, id="empty"),
        pytest.param(floats(1).astype(np.float16), floats(1), False, id="float16 for float32"),
        pytest.param(floats(1).astype(np.float64), floats(1), False, id="float64 for float32"),
        pytest.param(np.array([3], np.int8), np.array([3], np.int8), True, id="int8"),
        pytest.param(np.array([127], np.int8), np.array([-128], np.int8), False, id="int8 far"),
        pytest.param(np.array([3000000]), np.array([3000001]), False, id="integers are exact"),
        pytest.param(np.array([3], np.int32), np.array([3], np.int64), True, id="int32 for int64"),
        pytest.param(np.array([3], np.int64), np.array([3], np.int32), True, id="int64 for int32"),
        pytest.param(np.array([4], np.int32), np.array([3], np.int64), False, id="other value"),
        pytest.param(np.array([1], np.int32), np.array([True]), False, id="int32 for bool"),
        pytest.param(np.array([True]), np.array([True]), True, id="bool"),
        pytest.param(np.array([True]), np.array([False]), False, id="bool differs"),
        pytest.param(7, np.array(7, np.int64), True, id="Python int"),
        pytest.param(0.5, np.array(0.5, F32), True, id="Python float"),
    ],
)
def test_pass_rule(got: Any, golden: Any, passes: bool) -> None:
    assert (compare(got, golden, suite_tolerance(1e-3, 1e-3)).problem is None) is passes


@pytest.mark.parametrize(
    ("got", "golden", "passes"),
    [
        (floats(NAN, 1), floats(NAN, 1), True),
        (floats(NAN), floats(1), False),
        (floats(1), floats(NAN), False),
        (floats(INF), floats(NAN), False),
    ],
)
def test_nan_for_nan_where_the_entry_says_so(got: Any, golden: Any, passes: bool) -> None:
    found = compare(got, golden, suite_tolerance(1e-3, 1e-3, equal_nan=True))
    assert (found.problem is None) is passes
    assert (found.max_abs == 0.0) is passes


def test_errors_are_measured_and_the_worst_is_named() -> None:
    found = compare(floats(1, 2.5, 3.75), floats(1, 2, 3), suite_tolerance(1e-3, 1e-3))
    assert found.max_abs == 0.75
    assert found.max_rel == 0.25
    assert found.problem == (
        "2 of 3 elements differ (atol 0.001, rtol 0.001), worst at [2]: got 3.75, expected 3.0"
    )


@pytest.mark.parametrize(
    ("got", "golden", "used"),
    [
        (floats(1, 2.5), floats(1, 2), 0.5),  # the relative tolerance allows more here
        (floats(0.25), floats(0.125), 0.125),
        (floats(3), floats(3), 0.0),
        (np.array([3]), np.array([3]), 0.0),
        (np.array([3]), np.array([4]), None),
        (floats(np.nan), floats(1), None),
    ],
)
def test_share_of_the_tolerance_that_the_worst_element_took(
    got: Any, golden: Any, used: float | None
) -> None:
    assert compare(got, golden, suite_tolerance(1.0, 0.5)).used == used


def test_a_tolerance_of_zero_has_no_shares() -> None:
    assert compare(floats(1, 2), floats(1, 2), suite_tolerance(0, 0)).used == 0.0
    assert compare(floats(1, 2), floats(1, 2.5), suite_tolerance(0, 0)).used is None
    assert compare(floats(1, 2), floats(1, 2.5), suite_tolerance(1, 0)).used == 0.5


def test_relative_error_has_a_floor() -> None:
    assert compare(floats(2e-6), floats(0), suite_tolerance(1e-3, 0)).max_rel == pytest.approx(2.0)


def entry(**changes: object) -> dict[str, Any]:
    tensor = {"path": "a.bin", "shape": [2], "dtype": "float32"}
    golden = {"path": "g.bin", "shape": [2], "dtype": "float32", "output_index": 0}
    base = {"op": "add", "case": "vec", "pte": "add__vec.pte", "atol": 1e-3, "rtol": 1e-3}
    return {**base, "inputs": [tensor], "golden": golden, "heavy": False, **changes}


def test_parses_both_kinds() -> None:
    plain = parse_entry(entry())
    assert (plain.id, plain.method, len(plain.steps)) == ("add__vec", "forward", 1)
    step = {"inputs": [], "goldens": [entry()["golden"]]}
    stepped = parse_entry(entry(steps=[step, step], method="decode", atol=0, rtol=0))
    assert (stepped.method, len(stepped.steps), stepped.atol) == ("decode", 2, 0.0)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ("add", "must be an object, not str"),
        ({}, "entry \\?__\\? lacks 'golden'"),
        (entry(atol="small"), 'atol must be a number, got "small"'),
        (entry(atol=True), "atol must be a number, got true"),
        (entry(atol=10**400), "atol must be a number, got 1000"),
        (entry(golden=entry()["golden"] | {"atol": "1"}), 'golden: atol must be a number, got "1"'),
        (entry(pte="../add.pte"), '"../add.pte" is not a path inside the suite'),
        (entry(pte="/add.pte"), "not a path inside the suite"),
        (entry(inputs=[{"path": "a.bin", "dtype": "int8"}]), r"inputs\[0\] lacks 'shape'"),
        (entry(inputs=[{"path": "a", "shape": [-1], "dtype": "int8"}]), "not a list of sizes"),
        (entry(inputs=[{"path": "a", "shape": [1], "dtype": "float7"}]), 'unknown dtype "float'),
        (entry(inputs=["a.bin"]), r'inputs\[0\] must be a table .* got "a.bin"'),
        (entry(inputs=[entry()["inputs"][0] | {"scalar": True}]), "a scalar has no shape"),
        (entry(steps=[]), "no golden output"),
        (entry(steps=[{"inputs": []}]), r"steps\[0\] lacks 'goldens'"),
    ],
)
def test_invalid_entries_are_explained(raw: object, message: str) -> None:
    with pytest.raises(SuiteError, match=message):
        parse_entry(raw)


def test_damaged_manifests() -> None:
    """An entry is checked before anything is read for it."""
    step = {"inputs": [entry()["inputs"][0]], "goldens": [entry()["golden"]]}

    def read(data: bytes) -> None:
        for one in parse_json(data, "manifest.json", SuiteError):
            parse_entry(one)

    def make(rng: Random) -> bytes:
        good = [entry(), entry(steps=[step, step], method="decode")]
        return b"[" + b",".join(damaged_json(one, rng) for one in good) + b"]"

    times = extent.count(1500, 20_000)
    with bounded_work():
        read_well, refused = outcomes(read, make, times, SuiteError, "manifest")
    assert min(read_well, refused) > times // 50


class StubProgram:
    """A program that returns its input times the number of the call."""

    def __init__(self) -> None:
        self.methods = {"forward": SimpleNamespace(ops={"aten.mul.Tensor": 1, "aten.abs": 2})}
        self.stats = SimpleNamespace(dispatches=3)
        self.report = [
            SimpleNamespace(op=op, where=where, count=count)
            for op, where, count in (
                ("aten.mul.Tensor", "gpu", 1),
                ("aten.abs", "gpu", 1),
                ("aten.abs", "host", 1),
                ("aten::abs.out", "alias", 2),
            )
        ]
        self.calls = 0
        self.given: list[Any] = []
        self.closed = False

    async def run(self, _method: str, *inputs: Any) -> tuple[Any, ...]:
        self.calls += 1
        self.given = list(inputs)
        return tuple(array * F32(self.calls) for array in inputs)

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Iterator[StubProgram]:
    program = StubProgram()

    async def load(
        _source: object, *, device: str, progress: Any, options: Any, optional: Any
    ) -> StubProgram:
        assert device == "numpy"
        assert options is None
        assert "learn" in optional
        if progress is not None:
            progress("read", 1, 1)
        return program

    monkeypatch.setattr(webpte, "load", load)
    yield program
    assert program.closed


def run(raw: object, files: dict[str, Any]) -> dict[str, Any]:
    async def fetch_bytes(path: str) -> bytes:
        data = files[path]
        return data if isinstance(data, bytes) else bytes(data.tobytes())

    report = asyncio.run(run_entry(raw, fetch_bytes, "numpy", locate=lambda path: path))
    assert json.loads(json.dumps(report, allow_nan=False)) == report
    assert report["ms"] >= 0
    return report


def test_passing_entry(program: StubProgram) -> None:
    report = run(entry(), {"a.bin": floats(1, 2), "g.bin": floats(1, 2)})
    assert report["verdict"] == "passed"
    assert report["error"] is None
    assert report["ops"] == ["aten.abs", "aten.mul.Tensor"]
    assert report["ran"] == {"dispatches": 3, "gpu": 2, "alias": 2, "host": {"aten.abs": 1}}
    assert report["outputs"] == [
        {"output_index": 0, "step": 0, "max_abs": 0.0, "max_rel": 0.0, "used": 0.0}
    ]


def test_a_golden_with_a_tolerance_of_its_own(program: StubProgram) -> None:
    for atol, verdict in ((0.5, "passed"), (0.4, "failed")):
        raw = entry(golden={**entry()["golden"], "atol": atol})
        report = run(raw, {"a.bin": floats(1, 2), "g.bin": floats(1, 2.5)})
        assert report["verdict"] == verdict


def test_a_scalar_is_given_as_a_number(program: StubProgram) -> None:
    number = {"path": "n.bin", "shape": [], "dtype": "float64", "scalar": True}
    golden = {**entry()["golden"], "shape": []}
    files = {"n.bin": np.array(0.5), "g.bin": np.array(0.5, F32)}
    report = run(entry(inputs=[number], golden=golden), files)
    assert report["error"] is None
    assert program.given == [0.5]
    assert type(program.given[0]) is float


def test_steps_share_one_program(program: StubProgram) -> None:
    step = {"inputs": entry()["inputs"], "goldens": [entry()["golden"]]}
    raw = entry(steps=[step, step])
    report = run(raw, {"a.bin": floats(1, 2), "g.bin": floats(2, 4)})
    assert program.calls == 2
    assert report["verdict"] == "failed"
    assert report["error"] == (
        "step 0, output 0: max abs 2, max rel 0.5: 2 of 2 elements differ "
        "(atol 0.001, rtol 0.001), worst at [1]: got 2.0, expected 4.0"
    )
    assert [row["step"] for row in report["outputs"]] == [0, 1]


def test_progress_is_that_of_loading_and_then_of_steps(program: StubProgram) -> None:
    step = {"inputs": entry()["inputs"], "goldens": [entry()["golden"]]}
    told: list[tuple[str, int, int]] = []

    async def fetch_bytes(_path: str) -> bytes:
        return bytes(floats(1, 2).tobytes())

    raw = entry(steps=[step, step])
    asyncio.run(run_entry(raw, fetch_bytes, "numpy", progress=lambda *args: told.append(args)))
    assert told == [("read", 1, 1), ("step", 1, 2), ("step", 2, 2)]


def test_nan_is_reported_without_numbers(program: StubProgram) -> None:
    report = run(entry(), {"a.bin": floats(NAN, 1), "g.bin": floats(1, 1)})
    assert report["outputs"][0]["max_abs"] is None
    assert report["error"].startswith("output 0: 1 of 2 elements differ")


def test_file_of_the_wrong_size(program: StubProgram) -> None:
    report = run(entry(), {"a.bin": b"123", "g.bin": floats(1, 2)})
    assert report["error"] == "SuiteError: a.bin has 3 bytes, but float32 [2] takes 8"


def test_golden_for_an_output_that_is_not_there(program: StubProgram) -> None:
    golden = {**entry()["golden"], "output_index": 3}
    report = run(entry(golden=golden), {"a.bin": floats(1, 2), "g.bin": floats(1, 2)})
    assert report["error"].endswith("g.bin is for output 3, but forward returned 1")


def test_load_failure_still_names_the_ops(monkeypatch: pytest.MonkeyPatch) -> None:
    async def load(_source: object, **_: object) -> None:
        raise webpte.errors.UnsupportedOpError("add.pte", {"aten.odd": 1})

    async def inspect(_source: object) -> dict[str, Any]:
        return {"forward": SimpleNamespace(ops={"aten.odd": 1})}

    monkeypatch.setattr(webpte, "load", load)
    monkeypatch.setattr(webpte, "inspect", inspect)
    report = run(entry(), {})
    assert report["error"].startswith("UnsupportedOpError: add.pte: 1 operator")
    assert (report["verdict"], report["ops"]) == ("failed", ["aten.odd"])

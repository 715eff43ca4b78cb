"""Untrusted JSON: a value, or the caller's error."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from support.harness import extent
from support.harness.bounded import bounded_work
from support.harness.limits import PROCESS_SECONDS
from support.harness.mutants import damaged_json, outcomes
from webpte.engine.files import json_reader
from webpte.engine.files.json_reader import MAX_DEPTH, Table, parse_json, parse_table


class OurError(Exception):
    """Asked for in these tests."""


@pytest.mark.parametrize(
    "value", [None, 5, "x", [], {"a": [1, {"b": 'brackets in "texts": [[[{{ \\'}]}, '"\\"[']
)
def test_values_are_those_of_json(value: Any) -> None:
    assert parse_json(json.dumps(value), "x.json", OurError) == value
    assert parse_json(json.dumps(value).encode(), "x.json", OurError) == value
    assert parse_json("\ufeff".encode() + json.dumps(value).encode(), "x", OurError) == value


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "x.json is not JSON: Expecting value"),
        (b"{]", "x.json is not JSON"),
        (b'"\xff"', "x.json is not UTF-8"),
        (b"9" * 5000, "x.json is not JSON: Exceeds the limit"),
        (b"NaN", "NaN is not a JSON number"),
        (b"[-Infinity]", "-Infinity is not a JSON number"),
        (b"1e999", "1e999 is beyond"),
        (b"[" * 100_000, "nested deeper than 100"),
        (b'{"a":' * 5000 + b"1" + b"}" * 5000, "nested deeper than 100"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_is_wrong_is_told(data: bytes, says: str) -> None:
    with pytest.raises(OurError, match=says):
        parse_json(data, "x.json", OurError)


def test_not_finite_numbers_where_a_format_has_them() -> None:
    assert parse_json("[Infinity]", "x", OurError, not_finite=True) == [float("inf")]


def test_size() -> None:
    assert parse_json(b"[1, 2]", "x", OurError, max_bytes=6) == [1, 2]
    with pytest.raises(OurError, match="x has 7 bytes; at most 6"):
        parse_json(b"[1,  2]", "x", OurError, max_bytes=6)


def test_depth_is_counted_outside_of_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever a text lies on the border of two of the pieces that are looked at."""
    monkeypatch.setattr(json_reader, "_STEP", 7)
    brackets = '[{"\\' * MAX_DEPTH
    for texts in (["]" * 300, brackets], [brackets], ['\\"' * 300, "[" * 300]):
        value: Any = texts
        for _ in range(MAX_DEPTH - 1):
            value = [value, *texts]
        assert parse_json(json.dumps(value), "x", OurError) == value
        with pytest.raises(OurError, match="nested deeper"):
            parse_json(json.dumps([value]), "x", OurError)


FIELDS = {"order": "first", "n": 3, "ratio": 0.5, "on": True, "t": {"x": [1]}, "l": [{"a": 1}, 5]}


def test_kinds_of_fields() -> None:
    table = parse_table(json.dumps(FIELDS), "card.json", OurError)
    assert (table.text("order"), table.integer("n"), table.number("n")) == ("first", 3, 3)
    assert (table.number("ratio"), table.flag("on"), table.number("none", 50)) == (0.5, True, 50)
    inner = table.table("t")
    assert inner.listed("x") == [1]
    assert "n" in table
    for ask, says in (
        (lambda: table.number("order"), 'card.json: order must be a number, got "first"'),
        (lambda: table.number("on"), "card.json: on must be a number, got true"),
        (lambda: table.integer("ratio"), "ratio must be an integer, got 0.5"),
        (lambda: table.integer("n", low=4), "n must be from 4 to"),
        (lambda: table.text("n"), "n must be a text, got 3"),
        (lambda: table.flag("n", False), "n must be true or false, got 3"),
        (lambda: table.listed("t"), "t must be a list"),
        (lambda: table.table("l", None), "l must be a table"),
        (lambda: inner.text("name"), "card.json: t lacks 'name'"),
        (lambda: list(table.tables("l")), r"card.json: l\[1\] must be a table \(.*\), got 5"),
    ):
        with pytest.raises(OurError, match=says):
            ask()
    with pytest.raises(OurError, match=r"x\.json must be a table"):
        parse_table("[1]", "x.json", OurError)
    huge = Table({"n": 10**400, "f": float("nan")}, "x", OurError)
    for key in huge.content:
        with pytest.raises(OurError, match="must be a number"):
            huge.number(key)


def test_damaged_texts() -> None:
    def read(data: bytes) -> None:
        table = parse_table(data, "x", OurError)
        table.number("order", 5)
        table.text("order", "")

    times = extent.count(3000, 30_000)
    with bounded_work():
        good, bad = outcomes(read, lambda rng: damaged_json(FIELDS, rng), times, OurError, "json")
    assert min(good, bad) > 0


def test_it_needs_nothing_but_the_standard_library() -> None:
    """The host loads it where NumPy is not installed."""
    code = (
        "import sys, runpy; before = set(sys.modules); runpy.run_path(sys.argv[1]);"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before};"
        "sys.exit(str(new - sys.stdlib_module_names) if new - sys.stdlib_module_names else 0)"
    )
    command = [sys.executable, "-I", "-S", "-c", code, str(json_reader.__file__)]
    done = subprocess.run(command, capture_output=True, check=False, timeout=PROCESS_SECONDS)
    assert done.returncode == 0, done.stderr

from __future__ import annotations

import math

import pytest

from page.shared.html.units import (
    bytes_text,
    count_text,
    ms_text,
    number_text,
    plural,
    shape_text,
    us_text,
)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (1536, "1.50 KiB"),
        (999 * 1024, "999 KiB"),
        (1000 * 1024, "0.98 MiB"),
        (5 * 1024**3, "5.00 GiB"),
        (4000 * 1024**3, "4000 GiB"),
    ],
)
def test_bytes(count: int, text: str) -> None:
    assert bytes_text(count) == text


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0.042, "42 µs"),
        (0.42, "0.42 ms"),
        (12.345, "12.3 ms"),
        (345.6, "346 ms"),
        (1234, "1.23 s"),
        (61_000, "1 min 1 s"),
    ],
)
def test_times(milliseconds: float, text: str) -> None:
    assert ms_text(milliseconds) == text


@pytest.mark.parametrize(
    ("microseconds", "text"),
    [(None, "-"), (0.0421, "0.0421 µs"), (3.25, "3.2 µs"), (42, "42 µs"), (4200, "4.20 ms")],
)
def test_times_of_kernels(microseconds: float | None, text: str) -> None:
    assert us_text(microseconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (-7, "-7"),
        (2**40, str(2**40)),
        (0.123456789, "0.12346"),
        (-0.0, "0"),
        (1e-30, "1e-30"),
        (math.nan, "NaN"),
        (math.inf, "∞"),
        (-math.inf, "-∞"),
        ("text", "text"),
        (None, "None"),
    ],
)
def test_numbers(value: object, text: str) -> None:
    assert number_text(value) == text


def test_counts() -> None:
    assert count_text(1234567) == "1,234,567"
    assert plural(1, "input") == "1 input"
    assert plural(0, "input") == "0 inputs"
    assert plural(2, "entry", "entries") == "2 entries"


def test_shapes() -> None:
    assert shape_text(()) == "scalar"
    assert shape_text((3, 64)) == "3 × 64"
    assert shape_text((9, 32, 5), ((1, 9), (8, 32), (5, 5))) == "≤9 × 8…32 × 5"
    assert shape_text((4, 5), ((0, 2**31 - 1), (5, 5))) == "any × 5"

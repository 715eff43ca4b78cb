"""Grids and uniform blocks."""

from __future__ import annotations

import pytest

from webpte.engine.ops.core.quads import clamp_int32, fits_int32, pack_axes, quad_count, quad_grid
from webpte.engine.ops.core.records import MAX_WORKGROUPS, ceil_div, fold_grid, pack
from webpte.errors import GraphError

LIMIT = MAX_WORKGROUPS


@pytest.mark.parametrize("workgroups", [0, 1, 2, LIMIT - 1, LIMIT])
def test_one_dimension_up_to_the_limit(workgroups: int) -> None:
    assert fold_grid(workgroups) == (workgroups, 1, 1)


@pytest.mark.parametrize(
    "workgroups",
    [LIMIT + 1, LIMIT + 2, 2 * LIMIT, 65537, 100_003, 2**24 + 1, LIMIT**2 - LIMIT + 1, LIMIT**2],
)
def test_two_dimensions_beyond_it(workgroups: int) -> None:
    x, y, z = fold_grid(workgroups)
    assert z == 1
    assert 1 < x <= LIMIT
    assert 1 < y <= LIMIT
    assert x * y >= workgroups, "every workgroup is there"
    assert x * (y - 1) < workgroups, "no row is for nothing"


def test_not_even_two_are_enough() -> None:
    with pytest.raises(
        GraphError, match=f"{LIMIT**2 + 1} workgroups are more than a 65535 x 65535"
    ):
        fold_grid(LIMIT**2 + 1)


@pytest.mark.parametrize(("a", "b", "expected"), [(0, 4, 0), (1, 4, 1), (4, 4, 1), (5, 4, 2)])
def test_ceil_div(a: int, b: int, expected: int) -> None:
    assert ceil_div(a, b) == expected


@pytest.mark.parametrize(
    ("numel", "quads", "workgroups"), [(1, 1, 1), (4, 1, 1), (5, 2, 1), (257, 65, 2)]
)
def test_quads(numel: int, quads: int, workgroups: int) -> None:
    assert quad_count(numel) == quads
    assert quad_grid(quads) == (workgroups, 1, 1)


def test_blocks_are_little_endian_without_gaps() -> None:
    assert pack("Iif", 1, -1, 0.5) == bytes.fromhex("01000000 ffffffff 0000003f")


@pytest.mark.parametrize(
    ("value", "fits"),
    [
        (0, True),
        (2**31 - 1, True),
        (-(2**31), True),
        (2**31, False),
        (-(2**31) - 1, False),
        (0.5, False),
        (3.0, True),
        (float("inf"), False),
        (float("nan"), False),
    ],
)
def test_fits_int32(value: float, fits: bool) -> None:
    assert fits_int32(value) is fits


@pytest.mark.parametrize(
    ("value", "clamped"),
    [(5, 5), (2**40, 2**31 - 1), (-(2**40), -(2**31)), (float("inf"), 2**31 - 1)],
)
def test_clamp_int32(value: float, clamped: int) -> None:
    assert clamp_int32(value) == clamped


def test_axes_are_padded_to_what_the_shader_declares() -> None:
    rank, words = pack_axes("here", (5, 7), (7, 1), (1, 0))  # type: ignore[arg-type]
    assert rank == 2
    assert words[:8] == [5, 7, 1, 0, 7, 1, 0, 0]
    assert len(words) == 48
    assert not any(words[8:])

"""GEMMs with subgroup matrices: when they are used, and the precision of split f16."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest

from support.cases.gemm.linear_q4_cases import DQ8CA, dq8ca, int8, q4gsw, qcs4w
from support.cases.gemm.matmul_cases import MATRIX_CASES as MATMUL_CASES
from support.cases.gemm.matmul_cases import linear, mm
from support.cases.row_cases import RowCase, normal
from support.graphs.graphs import make_planner, read_graph
from webpte.engine.ops.core.records import Dispatch, Scratch
from webpte.engine.ops.core.target import GPU, Target, Tunable
from webpte.engine.ops.gemm.lib.gemm import Gemm
from webpte.engine.ops.gemm.subgroup_matrix import (
    linear_q4,
    matmul,
    tiles,
)
from webpte.engine.ops.gemm.subgroup_matrix.tiles import (
    MATRIX_TILE_CONFIGS,
    SHARED_BYTES,
    choose_matrix_tile_config,
)
from webpte.engine.plan.shaders import shader_folder

Array = np.ndarray
MATRICES = Target(shared_bytes=SHARED_BYTES, subgroup_matrices=True)


def lowered(case: RowCase, target: Target) -> tuple[Dispatch, ...]:
    planner, _ = make_planner(read_graph(case.program()), target)
    planner.lower_all()
    return planner.dispatches()


def kernels(case: RowCase, target: Target) -> list[str]:
    return [dispatch.kernel for dispatch in lowered(case, target)]


MANY = [
    q4gsw((40, 64), 8, 32),
    q4gsw((40, 20), 8, 5),
    qcs4w((40, 64), 8),
    int8((40, 64), 8),
    dq8ca((40, 64), 8, 32),
]
BLOCKS = MANY[0], MANY[3]  # whole blocks of 32 share a scale


@pytest.mark.parametrize("case", MANY, ids=str)
def test_products_of_many_rows(case: RowCase) -> None:
    assert kernels(case, MATRICES) == ["linear_q4_split_f16", "linear_q4_subgroup_matrix"]
    integers = ["linear_q4_codes", "linear_q4_int8"]
    rounded, blocks = case.op == DQ8CA, any(case is one for one in BLOCKS)
    assert kernels(case, GPU) == (integers if rounded else ["linear_q4"])
    assert kernels(case, replace(GPU, packed_dot=False)) == ["linear_q4"]
    with_option = replace(GPU, int8_products=True)
    assert kernels(case, with_option) == (integers if blocks or rounded else ["linear_q4"])


def test_linear_layers_of_floats() -> None:
    by_matrices = ["matmul_split_f16", "matmul_subgroup_matrix"]
    for case in MATMUL_CASES:
        assert kernels(case, MATRICES) == by_matrices
        assert kernels(case, GPU) == ["matmul"]
    assert kernels(linear((127, 37), 133, None), MATRICES) == ["matmul"]
    assert kernels(mm(131, 133, 37), MATRICES) == ["matmul"]  # B is [k, n]
    with patch.object(matmul, "MOST_BYTES", 1 << 15):
        assert kernels(MATMUL_CASES[0], MATRICES) == ["matmul"]


@pytest.mark.parametrize(
    "target",
    [
        replace(MATRICES, software=True),
        replace(MATRICES, shared_bytes=SHARED_BYTES - 1),
        replace(MATRICES, subgroup_matrices=False),
    ],
)
def test_where_there_are_none_nothing_changes(target: Target) -> None:
    without = replace(target, subgroup_matrices=False)
    for case in (MANY[0], MATMUL_CASES[0]):
        assert lowered(case, target) == lowered(case, without)


def test_few_rows_stay_as_they_are() -> None:
    for rows in (1, 2, 16):
        case = q4gsw((rows, 64), 8, 32)
        assert lowered(case, MATRICES) == lowered(case, replace(MATRICES, subgroup_matrices=False))


def test_few_large_tiles_are_cut_or_made_smaller() -> None:
    """A GPU has more cores than a prompt's GEMMs have tiles of 128 x 128."""
    for m, n, k in ((512, 2048, 2048), (128, 512, 8192), (17, 64, 64)):
        tiling, k_parts = choose_matrix_tile_config(Gemm(m, n, k))
        whole = MATRIX_TILE_CONFIGS[0].tiles(Gemm(m, n, k))
        assert tiling.tiles(Gemm(m, n, k)) * k_parts >= whole
    assert choose_matrix_tile_config(Gemm(4096, 8192, 2048)) == (MATRIX_TILE_CONFIGS[0], 1)


# Rows, columns and k with the tile and the parts of k that were fastest on an H200.
FASTEST = {
    (128, 3072, 2048): (128, 128, 8),
    (128, 2048, 8192): (128, 128, 16),
    (512, 3072, 2048): (128, 128, 2),
    (512, 2048, 8192): (128, 128, 4),
    (2047, 3072, 2048): (128, 128, 2),
    (2047, 2048, 2048): (128, 128, 1),
    (2047, 2048, 8192): (128, 128, 1),
}


def test_the_choice_is_what_was_measured_fastest() -> None:
    for (m, n, k), (rows, columns, k_parts) in FASTEST.items():
        tiling, parts = choose_matrix_tile_config(Gemm(m, n, k))
        assert (tiling.rows, tiling.columns, parts) == (rows, columns, k_parts), (m, n, k)


def test_tuning_may_choose_another_cut() -> None:
    asked: list[Tunable] = []
    chosen = lowered(MANY[0], replace(MATRICES, asked=asked))
    assert chosen == lowered(MANY[0], MATRICES)
    (question,) = asked
    assert question.key == "linear_q4_subgroup_matrix tiles m64 n8 k64 f32"
    other = next(label for label in question.labels if label != question.default)
    tuned = lowered(MANY[0], replace(MATRICES, choices=((question.key, other),)))
    assert tuned != chosen


def test_memory_that_kernels_share() -> None:
    halves, multiply = lowered(q4gsw((40, 72), 8, 12), MATRICES)
    pairs, exponents = halves.bindings[-2:]
    assert multiply.bindings[:2] == (pairs, exponents)
    assert isinstance(pairs, Scratch)
    assert isinstance(exponents, Scratch)
    assert pairs.nbytes >= 40 * 96 * 4  # rows of 72 are filled up to 96
    assert exponents.nbytes >= (40 + 8) * 4


@pytest.mark.parametrize(
    ("value", "file", "pattern"),
    [
        (tiles.K_FILL, "lib/matrix/subgroup_matrix_tile.wgsl", r"const K_FILL = (\d+)u;"),
        (tiles.K_FILL, "lib/matrix/split_f16.wgsl", r"const K_FILL = (\d+)u;"),
        (
            linear_q4.COLUMNS,
            "gemm/subgroup_matrix/linear_q4_split_f16.wgsl",
            r"const COLUMNS = (\d+)u;",
        ),
    ],
)
def test_numbers_that_stand_in_python_and_in_wgsl_agree(
    value: int, file: str, pattern: str
) -> None:
    match = re.search(pattern, (shader_folder() / file).read_text(encoding="utf-8"))
    assert match is not None
    assert int(match[1]) == value


# The arithmetic of wgsl/lib/matrix/: f16_scaling.wgsl and subgroup_matrix_tile.wgsl in NumPy


def split(rows: Array, largest: Array, power: int) -> tuple[Array, Array, Array]:
    """Return the first and the second f16 of numbers, and the exponent of each row."""
    biased = np.abs(largest).astype(np.float32).view(np.uint32) >> 23
    exponents = np.maximum(biased.astype(np.int64), power) - 127 - power
    scaled = rows.astype(np.float32) * np.ldexp(np.float32(1), -exponents)[:, None]
    high = scaled.astype(np.float16)
    return high, (scaled - high.astype(np.float32)).astype(np.float16), exponents


def cut(sums: Array) -> Array:
    """float64 to float32 towards zero, as tensor cores may do it."""
    near = sums.astype(np.float32)
    return np.where(np.abs(near) > np.abs(sums), np.nextafter(near, np.float32(0)), near)


def rounded(sums: Array) -> Array:
    return sums.astype(np.float32)


def by_matrices(
    x: Array, weights: Array, scales: Array, kept: Callable[[Array], Array] = cut
) -> Array:
    """x @ weights.T, 16 k at a time; `scales` are the largest of each row of weights."""
    high, low, rows = split(x, np.abs(x).max(axis=1), 14)
    w_high, w_low, columns = split(weights, scales, linear_q4.SCALE_POWER)
    sums = np.zeros((len(x), len(weights)), np.float32)
    for k in range(0, x.shape[1], 16):
        step = slice(k, k + 16)
        for a, b in ((high, w_low), (low, w_high), (high, w_high)):
            sums = kept(sums + a[:, step].astype(np.float64) @ b[:, step].astype(np.float64).T)
    return np.ldexp(sums, rows[:, None] + columns)


def weights_of(n: int, k: int, group: int, spread: float) -> tuple[Array, Array]:
    """Return codes times scales, which differ by powers of `spread`, and the largest per row."""
    random = np.random.default_rng(3)
    codes = random.integers(-8, 8, (n, k))
    scales = np.exp2(random.uniform(-spread, spread, (n, k // group))).astype(np.float32)
    return (codes * np.repeat(scales, group, axis=1)).astype(np.float32), scales.max(axis=1)


@pytest.mark.parametrize(("kept", "bound"), [(rounded, 2.0**-22), (cut, 2.0**-19)])
@pytest.mark.parametrize("spread", [0, 4, 8])
@pytest.mark.parametrize("size", [1e-36, 1e-20, 1, 60000, 1e30])
def test_pairs_of_half_floats_are_nearly_float32(
    size: float, spread: float, kept: Callable[[Array], Array], bound: float
) -> None:
    """The error is bounded by a share of the sum of the absolute products."""
    x = normal((7, 512)) * np.float32(size)
    x[2] = 0
    x[3, 5:] = 0
    weights, scales = weights_of(9, 512, 32, spread)
    with np.errstate(over="ignore", under="ignore"):
        got = by_matrices(x, weights, scales, kept)
    exact = x.astype(np.float64) @ weights.astype(np.float64).T
    together = np.abs(x).astype(np.float64) @ np.abs(weights).astype(np.float64).T
    assert np.all(np.abs(got - exact) <= bound * together + 1e-45)
    assert np.all(got[2] == 0)


@pytest.mark.parametrize(("largest", "power"), [(8, 11), (128, 7)])
def test_codes_times_scales_keep_their_digits(largest: int, power: int) -> None:
    """Scales are split, not products; a step rounds once, and 2^-20 is lost at most."""
    random = np.random.default_rng(5)
    scale = np.exp2(random.uniform(power, power + 1, (2000, 1))).astype(np.float32)
    codes = random.integers(-largest, largest, (2000, 64)).astype(np.float64)
    high = scale.astype(np.float16)
    low = (scale - high.astype(np.float32)).astype(np.float16).astype(np.float64)
    product = (codes * high).astype(np.float16)
    assert np.isfinite(product).all()
    rest = (codes * high - product).astype(np.float16)
    rest = (codes * low + rest).astype(np.float16)
    error = np.abs(product.astype(np.float64) + rest - codes * scale)
    assert (error <= 2.0**-20 * np.abs(codes * scale)).all()
    assert error.mean() < 2.0**-24 * np.abs(codes * scale).mean()


def test_products_of_half_floats_if_requested() -> None:
    """One f16 for each number, half the scratch memory, and longer steps along k."""
    halves = replace(MATRICES, half_products=True)
    for case in (MANY[0], MATMUL_CASES[0]):
        split, multiply = lowered(case, halves)
        types = dict(multiply.types)
        assert dict(split.types)["PARTS"] == types["A_PARTS"] == types["B_PARTS"] == "1"
        assert types["STEPS"] == "2"
        types = dict(lowered(case, MATRICES)[1].types)
        assert (types["A_PARTS"], types["B_PARTS"], types["STEPS"]) == ("2", "2", "1")
    without = replace(halves, subgroup_matrices=False)
    assert lowered(MANY[0], without) == lowered(MANY[0], GPU)


def test_tuned_configs_are_those_of_the_products() -> None:
    keys = []
    for target in (MATRICES, replace(MATRICES, half_products=True)):
        asked: list[Tunable] = []
        lowered(MANY[0], replace(target, asked=asked))
        keys += [question.key for question in asked]
    assert len(set(keys)) == 2


def test_parts_of_k_are_whole_steps() -> None:
    """No step of 32 reaches into the next part of k."""
    config = MATRIX_TILE_CONFIGS[2], 3
    with patch.object(tiles, "choose_matrix_tile_config", lambda *_: config):
        multiply = lowered(q4gsw((40, 400), 8, 16), MATRICES)[1]
    parts, length = np.frombuffer(multiply.params, np.uint32, 2, 24)
    assert length % tiles.K_FILL == 0
    assert (parts - 1) * length < 400 <= parts * length


def test_numbers_of_very_different_sizes_in_a_row() -> None:
    """A number that is 2^-30 of the largest of its row is kept to 2^-9 of itself."""
    x = np.full((1, 16), 2.0**-30, np.float32) * np.linspace(1, 2, 16, dtype=np.float32)
    x[0, 0] = 1
    weights = np.ones((1, 16), np.float32)
    weights[0, 0] = 0
    got = by_matrices(x, weights, np.ones(1, np.float32))
    exact = x.astype(np.float64) @ weights.T
    assert abs(got[0, 0] / exact[0, 0] - 1) < 2.0**-9


def test_long_sums_lose_what_is_cut() -> None:
    """Terms of one sign are the worst case for truncated sums: 3 truncations for each 16 of k."""
    x, weights = np.abs(normal((3, 8192))), np.abs(normal((2, 8192), 2))
    got = by_matrices(x, weights, np.abs(weights).max(axis=1))
    exact = x.astype(np.float64) @ weights.astype(np.float64).T
    assert np.all(np.abs(got / exact - 1) < 3 * 8192 / 16 * 2.0**-23)

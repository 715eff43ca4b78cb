"""Matmuls of plain matrices: references, the choice of kernels, and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.cases.gemm.matmul_cases import ADDMM, BMM, GRADIENT, LINEAR, MM
from support.cases.live_cases import LiveCase, lowered
from support.cases.row_cases import normal, write_given
from support.graphs.graphs import build_graph, make_planner, run_once, wait
from support.write.pte_writer import GraphWriter
from webpte.engine.ops.core.records import Dispatch, Scratch
from webpte.engine.ops.gemm.lib.gemm import (
    MAX_SKINNY_ROWS,
    TILE_CONFIGS,
    Gemm,
    GemmKernel,
    SkinnyConfig,
    TileConfig,
    choose_skinny_config,
    choose_tile_config,
    skinny_dispatches,
    split_k_length,
    tile_dispatches,
)
from webpte.engine.plan.planner import Planner
from webpte.engine.rewrite.passes import store_f16
from webpte.errors import GraphError

X = np.array([[1.5, -2, 3], [0.25, 4, -1]], np.float32)
W = np.array([[1, 2, -1], [0.5, -0.25, 4]], np.float32)
NAN = np.array(np.nan, np.float32)
INT = np.array([[2**20, 3]], np.int32), np.array([[2**12], [5]], np.int32)


@pytest.mark.parametrize(
    ("op", "args", "wanted"),
    [
        (LINEAR, (X, W, np.array([10, -20], np.float32)), [[4.5, -6.75], [19.25, -24.875]]),
        (
            ADDMM,
            (np.array([[1], [2]], np.float32), X, W.T.copy(), 2, 3),
            [[-14.5, 41.75], [31.75, -10.625]],
        ),
        (ADDMM, (NAN, X, W.T.copy(), 0, 1), [[-5.5, 13.25], [9.25, -4.875]]),
        (MM, INT, [[15]]),
    ],
)
def test_answers_of_pytorch(op: str, args: tuple[Any, ...], wanted: list[list[float]]) -> None:
    g = GraphWriter()
    ids = [write_given(g, arg) for arg in args]
    inputs = [i for i, arg in zip(ids, args, strict=True) if isinstance(arg, np.ndarray)]
    out = g.tensor(np.shape(wanted), "int32" if args is INT else "float32")
    g.outputs(g.op(op, *ids, out))
    g.inputs(*inputs)
    arrays = [arg for arg in args if isinstance(arg, np.ndarray)]
    (result,) = wait(run_once(g, *arrays))
    assert result.tolist() == wanted


# Lowering


def mm_dispatches(m: int, n: int, k: int) -> tuple[Dispatch, ...]:
    arrays = np.zeros((m, k), np.float32), np.zeros((k, n), np.float32)
    case = LiveCase(MM, [arrays], lambda a, b: np.zeros((m, n)), exact=False)
    return lowered(case)[0].dispatches()


@pytest.mark.parametrize(
    ("sizes", "kernels"),
    [
        ((1, 100, 100), ["matmul_skinny"]),
        ((MAX_SKINNY_ROWS, 100, 100), ["matmul_skinny"]),
        ((MAX_SKINNY_ROWS + 1, 100, 100), ["gemm_small"]),
        ((MAX_SKINNY_ROWS + 1, 100, 102), ["matmul"]),
        ((2000, 2000, 1000), ["matmul"]),
        ((500, 1, 100), ["matmul_skinny"]),
        ((100, 100, 1002), ["matmul", "gemm_split_k_sum"]),
        ((0, 100, 100), []),
        ((100, 0, 100), []),
    ],
)
def test_the_kernel_follows_the_sizes(sizes: tuple[int, int, int], kernels: list[str]) -> None:
    assert [dispatch.kernel for dispatch in mm_dispatches(*sizes)] == kernels


def test_one_column_is_one_row() -> None:
    (dispatch,) = mm_dispatches(500, 1, 100)
    m, n, k = np.frombuffer(dispatch.params, np.uint32)[:3]
    assert (m, n, k) == (1, 500, 100)
    assert dict(dispatch.overrides)["B_K_FIRST"]


@pytest.mark.parametrize("tiling", TILE_CONFIGS)
def test_tiles_cover_the_matrix(tiling: TileConfig) -> None:
    product = Gemm(5 * tiling.rows + 1, 3 * tiling.columns - 1, 64, batches=2)
    assert tiling.tiles(product) == 6 * 3 * 2


@pytest.mark.parametrize("k", [0, 1, 16, 255, 256, 300, 8192, 100_003])
@pytest.mark.parametrize("parts", [1, 2, 8, 64])
def test_parts_along_k_cover_it(k: int, parts: int) -> None:
    length = split_k_length(k, parts)
    assert length > 0
    assert length % 16 == 0
    assert parts * length >= k
    assert length - 16 < max(1, -(-k // parts))


@pytest.mark.parametrize(
    ("sizes", "rows", "parts"),
    [
        ((2048, 2048, 2048), 128, 1),
        ((2048, 8192, 2048), 128, 1),
        ((512, 2048, 2048), 128, 4),
        ((128, 2048, 8192), 128, 16),
        ((32, 2048, 2048), 32, 8),
        ((20, 20, 64), 32, 1),
    ],
)
def test_tiles_fill_a_large_gpu(sizes: tuple[int, int, int], rows: int, parts: int) -> None:
    tiling, k_parts = choose_tile_config(Gemm(*sizes))
    assert (tiling.rows, k_parts) == (rows, parts)


@pytest.mark.parametrize(
    ("steps", "threads", "most", "lanes"),
    [
        (1, 128, 128, 128),
        (3, 128, 128, 32),
        (16, 128, 128, 8),
        (500, 128, 128, 1),
        (500, 64, 16, 4),
    ],
)
def test_slices(steps: int, threads: int, most: int, lanes: int) -> None:
    assert choose_skinny_config(steps, threads, most) == SkinnyConfig(lanes, threads)


def test_parts_of_changing_sizes_share_memory() -> None:
    sizes = {
        binding.nbytes
        for m in range(50, 60)
        for binding in mm_dispatches(m, 100, 1002)[0].bindings
        if isinstance(binding, Scratch)
    }
    assert len(sizes) == 1


def test_more_tiles_than_a_dim_of_the_grid_holds() -> None:
    kernel = GemmKernel("matmul", (0, 1))
    for product in (Gemm(20, 20, 4, batches=70_000), Gemm(1, 1, 4, batches=70_000)):
        tiled = tile_dispatches(kernel, product, 2)[0]
        sliced = skinny_dispatches(kernel, product, 2, SkinnyConfig(1, 64))[0]
        for x, y, z in (tiled.grid, sliced.grid):
            assert x <= 65_535
            assert x * y >= 70_000
            assert z == 1


def native_planner(*dtypes: str) -> Planner:
    """Plan a GEMM with a long k, with the given dtypes, on a device with f16."""
    g = GraphWriter()
    shapes = (100, 1002), (1002, 100), (100, 100)
    a, b, out = (g.tensor(shape, dtype) for shape, dtype in zip(shapes, dtypes, strict=True))
    g.inputs(a, b)
    g.outputs(g.op(MM, a, b, out))
    planner, _ = make_planner(store_f16(build_graph(g)))
    planner.lower_all()
    return planner


def test_parts_of_sums_are_never_halves() -> None:
    dispatches = native_planner("float16", "float16", "float16").dispatches()
    parts, total = (dict(dispatch.types) for dispatch in dispatches)
    assert (parts["STORED"], parts["TYPE"], parts["OUT"]) == ("f16", "f32", "f32")
    assert (total["STORED"], total["TYPE"], total["OUT"]) == ("f16", "f32", "f16")


def test_halves_do_not_mix_with_other_floats() -> None:
    (step,) = native_planner("float16", "float32", "float16").calls
    assert step.host is not None
    assert "does not mix tensors of ['f16', 'f32']" in step.host


# Errors


def refused(op: str, *args: Any, out: str = "float32") -> LiveCase:
    return LiveCase(op, [args], lambda *_: np.zeros((2, 3)), out=out, exact=False)


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (refused(MM, normal((2, 3)), normal((4, 3))), "cannot be multiplied"),
        (refused(MM, normal((2,)), normal((2, 3))), "cannot be multiplied"),
        (refused(BMM, normal((2, 3)), normal((3, 3))), "cannot be multiplied"),
        (
            refused(BMM, normal((2, 3, 3)), normal((1, 3, 3))),
            "cannot be multiplied",
        ),
        (refused(LINEAR, normal((2, 3)), normal((3, 4)), None), "cannot be multiplied"),
        (
            refused(LINEAR, normal((2, 3)), normal((3, 3)), normal((2,))),
            r"bias \[2\] for \[3\] columns",
        ),
        (
            refused(ADDMM, normal((3, 3)), normal((2, 3)), normal((3, 3)), 1, 1),
            "do not broadcast",
        ),
        (
            refused(ADDMM, normal((4, 2, 3)), normal((2, 3)), normal((3, 3)), 1, 1),
            "does not broadcast",
        ),
        (refused(GRADIENT, normal((4, 2)), normal((5, 3))), "cannot be multiplied"),
        (
            refused(
                ADDMM,
                *(np.zeros(shape, np.int32) for shape in ((3,), (2, 3), (3, 3))),
                0.5,
                1,
                out="int32",
            ),
            "alpha and beta of integers",
        ),
    ],
)
def test_refuses(case: LiveCase, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        lowered(case)


def test_small_integers_have_no_kernel() -> None:
    case = refused(MM, np.zeros((2, 3), np.int8), np.zeros((3, 3), np.int8), out="int8")
    (step,) = lowered(case)[0].calls
    assert step.host is not None
    assert "all floats or all int32" in step.host

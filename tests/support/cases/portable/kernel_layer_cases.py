"""Calls of the kernels that are layers of networks: products, convolutions, norms, pooling."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from support.cases.portable.kernel_cases import (
    INF,
    NAN,
    KernelCase,
    ints,
    odd,
    positives,
    reals,
    units,
)

FLOAT, LONG = 6, 4  # as files number element types
WITH_PLACES = ("float32", "int64")
RANK0 = np.full((), 2.5, "float32")


def layers() -> Iterator[KernelCase]:
    a, b, image = reals(3, 4), units(4, 5), reals(2, 4, 5, 6)
    three: Any = ("float32",) * 3
    for name in ("_softmax", "_log_softmax"):
        yield KernelCase(f"aten::{name}.out", (a, 1, False))
        yield KernelCase(f"aten::{name}.out", (reals(2, 3, 4), 0, False), name="first dim")
    yield KernelCase("aten::mm.out", (a, b))
    yield KernelCase("aten::mm.out", (ints(2, 3), ints(3, 2)), ("int64",), "int64")
    yield KernelCase("aten::bmm.out", (reals(2, 3, 4), units(2, 4, 5)))
    yield KernelCase("aten::addmm.out", (reals(5), a, b, 0.5, 2.0))
    yield KernelCase("aten::baddbmm.out", (reals(5), reals(2, 3, 4), units(2, 4, 5), 0.5, 2.0))
    yield KernelCase("aten::linear.out", (a, units(5, 4), reals(5)))
    yield KernelCase("aten::matmul.out", (reals(2, 3, 4), b))
    yield KernelCase("aten::dot.out", (reals(5), units(5)))
    yield KernelCase("aten::mv.out", (a, units(4)))
    weight = units(6, 2, 3, 2)
    yield KernelCase(
        "aten::convolution.out",
        (image, weight, reals(6), [2, 1], [1, 0], [1, 2], False, [0, 0], 2),
    )
    yield KernelCase(
        "aten::convolution.out",
        (image, units(4, 3, 2, 2), None, [2, 2], [1, 1], [1, 1], True, [1, 0], 1),
        name="transposed",
    )
    yield KernelCase(
        "aten::convolution.out",
        (reals(1, 2, 7), units(3, 2, 3), None, [1], [1], [1], False, [0], 1),
        name="one dim",
    )
    cube = reals(2, 4, 5, 4, 3)
    for name, rest in {
        "volume": (units(3, 4, 2, 3, 1), reals(3), [1], [0], [1], False, [0], 1),
        "volume, far": (units(6, 2, 2, 2, 2), None, [2, 1, 1], [1, 0, 2], [1, 2, 1], False, [0], 2),
        "volume, transposed": (units(4, 3, 2, 3, 2), reals(3), [2], [1], [1], True, [1, 0, 1], 1),
        "volume, apart": (units(4, 3, 2, 2, 2), None, [1, 2, 1], [0], [2, 1, 1], True, [0], 2),
    }.items():
        yield KernelCase("aten::convolution.out", (cube, *rest), name=name)
    yield KernelCase("aten::avg_pool2d.out", (image, [3, 2], [2, 1], [1, 0], True, False, None))
    yield KernelCase(
        "aten::max_pool2d_with_indices.out",
        (image, [2, 3], [], [1, 1], [1, 1], False),
        WITH_PLACES,
    )
    yield KernelCase("aten::native_layer_norm.out", (a, [4], units(4), reals(4), 1e-5), three)
    yield KernelCase(
        "aten::native_group_norm.out", (image, units(4), None, 2, 4, 30, 2, 1e-5), three
    )
    yield KernelCase(
        "aten::_native_batch_norm_legit_no_training.out",
        (image, units(4), reals(4), units(4), positives(4), 0.1, 1e-3),
        three,
    )
    yield KernelCase(
        "aten::_native_batch_norm_legit.no_stats_out",
        (image, units(4), reals(4), True, 0.1, 1e-3),
        three,
    )
    yield KernelCase(
        "aten::_native_batch_norm_legit.out",
        (image, units(4), reals(4), units(4), positives(4), False, 0.1, 1e-3),
        three,
    )
    volume = reals(2, 3, 5, 6, 7)
    for name, call in {
        "": ([2], [], [0], False, True, None),
        "padded": ([3, 2, 3], [2, 1, 2], [1, 0, 1], False, True, None),
        "inside": ([3], [2], [1], True, False, None),
        "rounded up": ([2, 3, 2], [2, 3, 3], [1, 1, 0], True, True, None),
        "divided": ([2], [1], [0], False, True, 3),
    }.items():
        yield KernelCase("aten::avg_pool3d.out", (volume, *call), name=name)
    numbered = volume[0].copy()
    numbered[0, 1, 2, 3] = NAN
    for name, asked in {
        "": (volume, [2], [], [0], [1], False),
        "padded": (volume, [3], [2, 1, 2], [1], [1], False),
        "rounded up": (volume, [2, 3, 2], [3], [1], [1], True),
        "apart": (numbered, [2], [1], [0], [2, 1, 3], False),
    }.items():
        yield KernelCase("aten::max_pool3d_with_indices.out", asked, WITH_PLACES, name)
    yield KernelCase("aten::_adaptive_avg_pool3d.out", (volume, [2, 3, 4]))
    batch = (reals(2, 3, 4), units(2, 4, 5))
    yield KernelCase("aten::addbmm.out", (reals(3, 5), *batch, 0.5, 2.0))
    yield KernelCase("aten::addbmm.out", (odd(NAN), *batch, 0.0, 1.0), name="beta 0")
    yield KernelCase("aten::addmv.out", (reals(3), a, units(4), 0.5, 2.0))
    yield KernelCase("aten::glu.out", (reals(3, 4), -1))
    yield KernelCase("aten::_adaptive_avg_pool2d.out", (image, [3, 4]))
    yield KernelCase("aten::adaptive_avg_pool2d.out", (image, [1, 1]))
    yield KernelCase("aten::adaptive_avg_pool1d.out", (reals(2, 3, 7), [3]))
    yield from adaptive_maxima(image, numbered)
    for p in (2.0, 1.0, 0.0, INF):
        yield KernelCase("aten::_cdist_forward.out", (a, units(5, 4), p, None), name=str(p))
    yield KernelCase("aten::_pdist_forward.out", (reals(4, 3), 2.0))
    for p in (2.0, 1.0, 0.0, INF):
        yield KernelCase("aten::dist.out", (a, units(4), p), name=str(p))
    for reduction in (0, 1, 2):
        yield KernelCase("aten::mse_loss.out", (a, units(3, 4), reduction), name=str(reduction))


def adaptive_maxima(image: np.ndarray, numbered: np.ndarray) -> Iterator[KernelCase]:
    """`numbered` has a NaN."""
    flat, cube = "aten::adaptive_max_pool2d.out", "aten::adaptive_max_pool3d.out"
    yield KernelCase(flat, (image, [3, 4]), WITH_PLACES)
    yield KernelCase(flat, (odd(*[NAN, 1, 1] * 4).reshape(1, 3, 4), [2, 3]), WITH_PLACES, "nan")
    yield KernelCase(flat, (image[:0], [1, 1]), WITH_PLACES, "empty")
    yield KernelCase(cube, (reals(2, 3, 5, 6, 7), [2, 3, 4]), WITH_PLACES)
    yield KernelCase(cube, (numbered, [1, 1, 1]), WITH_PLACES, "nan")
    yield KernelCase(cube, (reals(1, 1, 2, 1, 3), [3, 2, 5]), WITH_PLACES, "larger")


def bags() -> Iterator[KernelCase]:
    table, rows = reals(6, 5), np.array([1, 3, 2, 3, 5, 0, 2, 1])
    starts, ends = np.array([0, 3, 3, 6]), np.array([0, 3, 3, 8])
    out, name = ("float32", "int64", "int64", "int64"), "aten::_embedding_bag.out"
    for mode, kind in enumerate(("sum", "mean", "max")):
        call = (False, mode, False, None)
        yield KernelCase(name, (table, rows, starts, *call, False, -1), out, kind)
        yield KernelCase(name, (table, rows, ends, *call, True, -1), out, f"{kind}, last")
        yield KernelCase(name, (table, rows, starts, *call, False, 2), out, f"{kind}, padding")
        yield KernelCase(name, (table, rows[:0], starts * 0, *call, False, -1), out, f"{kind}, 0")
    early = np.array([0, 3, 6])  # the last bag ends before the indices do
    for mode, kind in enumerate(("sum", "mean")):
        call = (False, mode, False, None)
        yield KernelCase(name, (table, rows, early, *call, True, -1), out, f"{kind}, early end")
    weighted = (False, 0, False, units(8))
    yield KernelCase(name, (table, rows, starts, *weighted, False, -1), out, "weighted")
    yield KernelCase(name, (table, rows, ends, *weighted, True, 3), out, "weighted, padding")
    odd_table = odd(NAN, 1, 2, 2, NAN, 2).reshape(3, 2)
    taken = np.array([0, 2, 1, 0, 2]), np.array([0, 3])
    yield KernelCase(name, (odd_table, *taken, False, 2, False, None, False, -1), out, "max, nan")
    small = (table.astype("float64"), rows.astype("int32"), starts.astype("int32"), *weighted[:3])
    yield KernelCase(name, (*small, None, False, -1), ("float64", *["int32"] * 3), "float64")


def spatial() -> Iterator[KernelCase]:
    image = reals(2, 3, 4, 5)
    yield KernelCase("aten::constant_pad_nd.out", (image, [1, 2, -1, 0], 7.5))
    for name in ("reflection", "replication"):
        yield KernelCase(f"aten::{name}_pad1d.out", (reals(2, 5), [2, 1]))
        yield KernelCase(f"aten::{name}_pad2d.out", (image, [1, 2, 0, 3]))
        yield KernelCase(f"aten::{name}_pad3d.out", (image, [1, 2, 0, 3, 2, 1]))
    yield KernelCase("aten::grid_sampler_2d.out", (image, units(2, 2, 3, 2), 0, 0, False))
    yield KernelCase("aten::upsample_nearest2d.vec_out", (image, None, [1.5, 2.0]))
    yield KernelCase("aten::upsample_bilinear2d.vec_out", (image, [7, 3], False, None))
    yield KernelCase("aten::upsample_nearest2d.out", (image, [7, 9], None, None))
    yield KernelCase("aten::upsample_bilinear2d.out", (image, [7, 9], True, None, None))
    yield KernelCase("aten::upsample_bilinear2d.out", (image, [6, 7], False, 1.6, 1.5), name="by")
    for size in ([2, 3], [7, 9]):
        yield KernelCase(
            "aten::_upsample_bilinear2d_aa.out", (image, size, False, None, None), name=str(size)
        )
    yield KernelCase(
        "aten::_upsample_bilinear2d_aa.out", (image, [3, 2], True, None, None), name="aligned"
    )


CASES = [*layers(), *bags(), *spatial()]

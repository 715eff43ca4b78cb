"""Calls of kernels that see more than one element at a time, or make elements."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from support.cases.portable.kernel_cases import (
    INF,
    NAN,
    KernelCase,
    bools,
    ints,
    odd,
    positives,
    reals,
    units,
)

FLOAT, LONG = 6, 4  # as files number element types
WITH_PLACES = ("float32", "int64")
RANK0 = np.full((), 2.5, "float32")


def reductions() -> Iterator[KernelCase]:
    x, whole, ties = reals(2, 3, 5), ints(3, 5), odd(1, 3, 3, NAN, 2, NAN)
    for name in ("amax", "amin"):
        yield KernelCase(f"aten::{name}.out", (x, [0, -1], False))
        yield KernelCase(f"aten::{name}.out", (x, [], True), name="all")
        yield KernelCase(f"aten::{name}.out", (whole, [1], False), ("int64",), "int64")
        yield KernelCase(f"aten::{name}.out", (RANK0, [0], False), name="rank 0")
    for name in ("argmax", "argmin"):
        yield KernelCase(f"aten::{name}.out", (x, 1, False), ("int64",))
        yield KernelCase(f"aten::{name}.out", (x, None, True), ("int64",), "all")
        yield KernelCase(f"aten::{name}.out", (ties, 0, False), ("int64",), "nan")
    for name in ("mean.out", "sum.IntList_out"):
        yield KernelCase(f"aten::{name}", (x, [0, 2], True, None))
        yield KernelCase(f"aten::{name}", (x, None, False, None), name="all")
        yield KernelCase(f"aten::{name}", (whole, [0], False, FLOAT), name="int64 to float32")
        yield KernelCase(f"aten::{name}", (reals(0, 3), [0], False, None), name="empty")
        yield KernelCase(f"aten::{name}", (RANK0, [], False, None), name="rank 0")
    yield KernelCase("aten::sum.IntList_out", (bools(3, 5), [1], False, None), ("int64",), "bool")
    yield KernelCase(
        "aten::sum.IntList_out", (whole.astype("int32"), [1], False, None), ("int64",), "int32"
    )
    yield KernelCase("aten::sum.out", (x, None))
    yield KernelCase("aten::mean.dtype_out", (x, None))
    yield KernelCase("aten::prod.int_out", (units(2, 3), 1, True, None))
    yield KernelCase("aten::prod.int_out", (ints(2, 3), 0, False, None), ("int64",), "int64")
    yield KernelCase("aten::prod.out", (units(2, 3), None))
    for name in ("cumsum", "cumprod"):
        yield KernelCase(f"aten::{name}.out", (reals(3, 4), -1, None))
        yield KernelCase(f"aten::{name}.out", (ints(4, dtype="int32"), 0, None), ("int64",), "int")
        yield KernelCase(f"aten::{name}.out", (RANK0, 0, None), name="rank 0")
    yield KernelCase("aten::logsumexp.out", (x, [1, 2], True))
    yield KernelCase("aten::logsumexp.out", (odd(-INF, -INF), [0], False), name="infinite")
    yield KernelCase("aten::logcumsumexp.out", (x, 1))
    yield KernelCase("aten::logcumsumexp.out", (odd(-INF, -INF, 1, INF, 2), 0), name="infinite")
    steps = odd(1, 3, 3, -2, NAN, 5, NAN, -2)
    for name in ("cummax", "cummin"):
        yield KernelCase(f"aten::{name}.out", (x, -2), WITH_PLACES)
        yield KernelCase(f"aten::{name}.out", (steps, 0), WITH_PLACES, "ties")
        yield KernelCase(f"aten::{name}.out", (RANK0, 0), WITH_PLACES, "rank 0")
    for name in ("any", "all"):
        yield KernelCase(f"aten::{name}.out", (bools(3, 4), 1, False), ("bool",))
        yield KernelCase(f"aten::{name}.all_out", (ints(3, 4, low=0, high=2),), ("bool",))
        yield KernelCase(f"aten::{name}.dims_out", (bools(2, 3, 4), [0, 2], True), ("bool",))
        yield KernelCase(f"aten::{name}.out", (bools(0, 3), 0, True), ("bool",), "empty")
        yield KernelCase(f"aten::{name}.out", (RANK0, 0, False), ("bool",), "rank 0")
    for name in ("max", "min"):
        yield KernelCase(f"aten::{name}.unary_out", (x,))
        yield KernelCase(f"aten::{name}.dim_{name}", (x, 1, False), WITH_PLACES)
        yield KernelCase(f"aten::{name}.dim_{name}", (x, -1, True), WITH_PLACES, "kept")
        yield KernelCase(f"aten::{name}.dim_{name}", (ties, 0, False), WITH_PLACES, "nan")
        yield KernelCase(f"aten::{name}.dim_{name}", (RANK0, 0, False), WITH_PLACES, "rank 0")
    for name in ("var", "std"):
        yield KernelCase(f"aten::{name}.correction_out", (x, [0, 2], None, True))
        yield KernelCase(f"aten::{name}.correction_out", (x, None, 0, False), name="all")
        yield KernelCase(f"aten::{name}.out", (x, [1], True, False))
        yield KernelCase(f"aten::{name}.out", (x, [1], False, True), name="biased")
    yield KernelCase("aten::var.out", (reals(1), [0], True, False), name="one element")
    yield KernelCase("aten::var_mean.correction_out", (x, [1], 1, False), ("float32", "float32"))
    for order in (2.0, 1.0, 3.0, 0.0, INF, -INF):
        yield KernelCase(
            "aten::linalg_vector_norm.out", (x, order, [1], False, None), name=str(order)
        )
    yield KernelCase("aten::norm.out", (x, None, [0, 1], True))
    yield KernelCase("aten::norm.Scalar_out", (x, 2.0))


def creation() -> Iterator[KernelCase]:
    yield KernelCase("aten::full.out", ([2, 3], 1.5))
    yield KernelCase("aten::full.out", ([2], -3), ("int64",), "int64")
    yield KernelCase("aten::full.out", ([0, 2], True), ("bool",), "bool")
    yield KernelCase("aten::full_like.out", (reals(2, 3), INF, None))
    yield KernelCase("aten::fill.Scalar_out", (reals(2, 3), 2.5))
    yield KernelCase("aten::fill.Tensor_out", (ints(2, 3), np.array(7)), ("int64",))
    yield KernelCase("aten::scalar_tensor.out", (2.5,))
    yield KernelCase("aten::scalar_tensor.out", (3,), ("int32",), "int32")
    for name in ("zeros", "ones"):
        yield KernelCase(f"aten::{name}.out", ([2, 3],))
        yield KernelCase(f"aten::{name}_like.out", (reals(2, 3), None))
    yield KernelCase("aten::arange.out", (5,), ("int64",))
    yield KernelCase("aten::arange.out", (2.5,), name="float32")
    yield KernelCase("aten::arange.start_out", (2, 11, 3), ("int64",))
    yield KernelCase("aten::arange.start_out", (1.0, -0.5, -0.25), name="down")
    yield KernelCase("aten::arange.start_out", (3, 3, 1), ("int64",), "empty")
    yield KernelCase("aten::linspace.out", (-1.0, 1.0, 5))
    yield KernelCase("aten::eye.out", (3,))
    yield KernelCase("aten::tril_indices.out", (3, 2, -1), out=("int64",))
    yield KernelCase("aten::triu_indices.out", (2, 3, 1), out=("int64",))


def movement() -> Iterator[KernelCase]:
    x = reals(2, 3, 4)
    for name, args in {
        "expand_copy.out": (reals(2, 1, 4), [3, 2, 5, -1], False),
        "flip.out": (x, [0, -1]),
        "permute_copy.out": (x, [2, 0, -2]),
        "pixel_shuffle.out": (reals(1, 8, 2, 3), 2),
        "pixel_unshuffle.out": (reals(2, 4, 6), 2),
        "repeat.out": (reals(2, 3), [2, 1, 3]),
        "select_copy.int_out": (x, -1, 2),
        "slice_copy.Tensor_out": (x, 1, -2, 9, 2),
        "squeeze_copy.dims_out": (reals(1, 3, 1, 2), [0, 1, -2]),
        "squeeze_copy.dim_out": (reals(1, 3, 1, 2), 2),
        "squeeze_copy.out": (reals(1, 3, 1, 2),),
        "t_copy.out": (reals(2, 3),),
        "transpose_copy.int_out": (x, 0, -1),
        "unfold_copy.out": (reals(2, 7), 1, 3, 2),
        "unsqueeze_copy.out": (x, -2),
        "view_copy.out": (x, [4, -1]),
        "alias_copy.out": (x,),
        "clone.out": (x, None),
        "detach_copy.out": (x,),
        "lift_fresh_copy.out": (x,),
        "copy.out": (x, reals(4), False),
        "copy_": (x.copy(), reals(4), False),
        "as_strided_copy.out": (reals(12), [2, 3], [1, 4], 2),
        "diagonal_copy.out": (x, 1, -1, 0),
        "diagonal_scatter.out": (x, units(*np.diagonal(x, 1, -1, 0).shape), 1, -1, 0),
        "narrow_copy.out": (x, 2, -3, 2),
        "cat.out": ([reals(2, 3), reals(1, 3)], 0),
        "stack.out": ([reals(2, 3), units(2, 3)], -1),
        "roll.out": (x, [1, -2], [0, 2]),
        "tril.out": (reals(2, 4, 3), 1),
        "triu.out": (reals(2, 4, 3), -1),
        "slice_scatter.out": (x, units(2, 2, 4), 1, 0, 3, 2),
        "select_scatter.out": (x, units(2, 4), 1, -1),
    }.items():
        yield KernelCase(f"aten::{name}", args)
    yield KernelCase("aten::roll.out", (reals(2, 3), [2], []), name="flat")
    yield KernelCase("aten::cat.out", ([reals(0), reals(2, 3)], 1), name="with an empty one")
    yield KernelCase("aten::cat.out", ([ints(2), reals(2)], 0), name="mixed")
    yield KernelCase("aten::split_copy.Tensor_out", (reals(7, 2), 3, 0), ("float32",) * 3)
    yield KernelCase(
        "aten::split_with_sizes_copy.out", (reals(2, 7), [3, 0, 4], 1), ("float32",) * 3
    )
    yield KernelCase("aten::unbind_copy.int_out", (reals(2, 3), 1), ("float32",) * 3)
    for out in ("int64", "bool", "float16", "uint8"):
        yield KernelCase("aten::_to_copy.out", (positives(5), False, None), (out,), out)


def indexing() -> Iterator[KernelCase]:
    x, rows = reals(3, 4), np.array([[2, 0], [-1, 1]])
    yield KernelCase("aten::embedding.out", (x, np.array([[2, 0], [1, 1]]), -1, False, False))
    yield KernelCase("aten::gather.out", (x, 1, np.array([[2, 0], [3, 1]]), False))
    yield KernelCase("aten::index_select.out", (x, 1, np.array([3, 0, 3])))
    yield KernelCase("aten::index.Tensor_out", (x, [rows, np.array([3, 1])]))
    yield KernelCase("aten::index.Tensor_out", (reals(2, 3, 4), [None, rows]), name="middle")
    yield KernelCase(
        "aten::index.Tensor_out",
        (reals(2, 3, 4), [np.array([1, 0]), None, np.array([[2], [3]])]),
        name="apart",
    )
    yield KernelCase("aten::index.Tensor_out", (x, [bools(3, 4)]), name="mask")
    for kernel in ("aten::index_put.out", "aten::index_put_"):
        yield KernelCase(kernel, (x.copy(), [np.array([0, 2, 0])], units(4), True), name="added")
        yield KernelCase(kernel, (x.copy(), [None, np.array([1, -1])], units(3, 2), False))
    yield KernelCase(
        "aten::index_put.out", (x, [bools(3, 4)], np.full((), 9, "float32"), False), name="mask"
    )
    places = np.array([[2, 0, 1], [0, 1, 2]])
    yield KernelCase("aten::scatter.src_out", (x, 0, places, units(2, 4)))
    yield KernelCase("aten::scatter.value_out", (x, 1, places, 7.5))
    yield KernelCase("aten::scatter_add.out", (x, 0, places * 0, units(3, 4)))
    yield KernelCase("aten::scatter_add.out", (RANK0, 0, np.array(0), RANK0), name="rank 0")
    whole = ints(3, 4)
    for kind in ("sum", "prod", "mean", "amax", "amin"):
        for own in (True, False):
            name = f"{kind} {'with' if own else 'without'} self"
            call = (x, 0, places, reals(2, 3), kind, own)
            yield KernelCase("aten::scatter_reduce.two_out", call, name=name)
            call = (whole, 1, places, ints(2, 4, low=3), kind, own)
            yield KernelCase("aten::scatter_reduce.two_out", call, ("int64",), f"{name}, int")
    yield KernelCase("aten::index_add.out", (x, 1, np.array([1, 1]), units(3, 2), 2.0))
    yield KernelCase("aten::index_copy.out", (x, 1, np.array([3, 1]), units(3, 2)))
    yield KernelCase("aten::index_fill.int_Scalar_out", (x, 0, np.array([1]), 3.5))
    yield KernelCase("aten::take.out", (x, np.array([5, 11])))
    yield KernelCase("aten::masked_select.out", (x, bools(4)))
    yield KernelCase("aten::masked_scatter.out", (x, bools(4), units(6)))
    yield KernelCase("aten::nonzero.out", (bools(3, 4),), ("int64",))
    yield KernelCase("aten::nonzero.out", (RANK0,), ("int64",), "rank 0")
    yield KernelCase("aten::repeat_interleave.Tensor_out", (np.array([2, 0, 3]), None), ("int64",))
    numbers = odd(3, NAN, -1, INF, 2, -INF)
    yield KernelCase("aten::kthvalue.values", (x, 2, 0, False), WITH_PLACES)
    yield KernelCase("aten::kthvalue.values", (numbers, 5, -1, True), WITH_PLACES, "kept")
    yield KernelCase("aten::median.out", (x,))
    yield KernelCase("aten::median.out", (numbers,), name="nan")
    yield KernelCase("aten::median.dim_values", (x, 1, False), WITH_PLACES)
    yield KernelCase("aten::median.dim_values", (x, 0, True), WITH_PLACES, "kept")
    yield KernelCase("aten::median.dim_values", (numbers, -1, False), WITH_PLACES, "nan")
    for name, descending in (("", False), ("down", True)):
        yield KernelCase("aten::sort.values", (x, 1, descending), WITH_PLACES, name)
        yield KernelCase(
            "aten::sort.values_stable",
            (ints(8, low=0, high=3), True, 0, descending),
            ("int64", "int64"),
            name,
        )
        yield KernelCase(
            "aten::argsort.stable_out", (numbers, True, 0, descending), ("int64",), name
        )
    yield KernelCase("aten::topk.values", (x, 2, 0, True, True), WITH_PLACES)
    yield KernelCase("aten::topk.values", (x, 3, -1, False, True), WITH_PLACES, "smallest")
    yield KernelCase("aten::topk.values", (numbers, 2, 0, True, True), WITH_PLACES, "nan")
    yield KernelCase(
        "aten::bucketize.Tensor_out", (reals(2, 3), odd(-1, 0, 1), False, True), ("int64",)
    )
    search = (False, False, None, None)
    ordered = np.sort(reals(2, 7), axis=-1)
    for name, asked in {
        "": (ordered[0], reals(2, 3), *search),
        "rows": (ordered, reals(2, 3), *search),
        "right": (ordered[0], ordered, False, True, "right", None),
        "sorter": (reals(2, 7), reals(2, 3), True, False, None, np.argsort(reals(2, 7), axis=-1)),
    }.items():
        out = ("int32" if asked[2] else "int64",)
        yield KernelCase("aten::searchsorted.Tensor_out", asked, out, name)


CASES = [*reductions(), *creation(), *movement(), *indexing()]

"""Every kernel against PyTorch's results for the same call."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from support.cases.portable import (
    kernel_elementwise_cases,
    kernel_layer_cases,
    kernel_model_cases,
    kernel_other_cases,
    kernel_tensor_cases,
)
from support.cases.portable.kernel_cases import KernelCase
from support.harness.every import check_every
from webpte.engine.dtypes import DTYPES
from webpte.engine.portable import OutSpec, fit_output, kernel_names, lookup_kernel
from webpte.engine.portable.eager import run_op

CASES = [
    *kernel_elementwise_cases.CASES,
    *kernel_tensor_cases.CASES,
    *kernel_layer_cases.CASES,
    *kernel_other_cases.CASES,
    *kernel_model_cases.CASES,
]
DATA = Path(__file__).parents[3] / "data" / "kernels"
EXPECTED: dict[str, list[tuple[str, list[int], list[Any]]]] = json.loads(
    (DATA / "expected.json").read_text(encoding="utf-8")
)
# Chance has no expectation, and uninitialised memory neither: see test_registry.py.
UNEXPECTED = {
    "aten::rand.out",
    "aten::randn.out",
    "aten::native_dropout.out",
    "aten::empty.out",
    "aten::empty_like.out",
    "aten::empty_permuted.out",
    "dim_order_ops::_empty_dim_order.out",
}
TOLERANCE = {"float16": 2e-3, "float32": 3e-6, "float64": 1e-9}


def test_every_kernel_has_a_case() -> None:
    assert {case.kernel for case in CASES} == set(kernel_names()) - UNEXPECTED


def test_every_case_has_an_expectation() -> None:
    assert [str(case) for case in CASES] == list(EXPECTED)


def test_as_pytorch() -> None:
    check_every(CASES, check_kernel)


def check_kernel(case: KernelCase) -> None:
    kernel, expected = lookup_kernel(case.kernel), EXPECTED[str(case)]
    assert kernel is not None
    assert len(case.args) == kernel.arguments
    outs = [
        OutSpec(DTYPES[dtype], tuple(shape), dynamic=False)
        for dtype, shape, _ in expected
        if dtype != "number"
    ]
    results = kernel.run(case.args, outs)
    assert len(results) == len(expected)
    for index, (dtype, shape, items) in enumerate(expected):
        if dtype == "number":
            assert type(results[index]) is type(items[0])
            assert results[index] == items[0]
            continue
        got = fit_output(case.kernel, results[index], outs[index])
        check(got, np.array(items, dtype).reshape(shape))


def check(got: np.ndarray, want: np.ndarray) -> None:
    assert got.dtype == want.dtype
    if want.dtype.kind == "f":
        limit = TOLERANCE[want.dtype.name]
        np.testing.assert_allclose(got, want, rtol=limit, atol=limit)
    else:
        np.testing.assert_array_equal(got, want)


def types_of(case: KernelCase) -> set[str]:
    """The element types of a call's tensors."""
    given = [item for arg in case.args for item in (arg if isinstance(arg, list) else [arg])]
    arrays = {str(item.dtype) for item in given if isinstance(item, np.ndarray)}
    return arrays | {dtype for dtype, _, _ in EXPECTED[str(case)]}


OF_FLOATS = [
    case
    for case in CASES
    if (kernel := lookup_kernel(case.kernel)) is not None
    and kernel.op is not None
    and types_of(case) in ({"float32"}, {"float16"})
]


def test_the_op_of_a_kernel_means_the_same_for_floats() -> None:
    check_every(OF_FLOATS, check_op)


def check_op(case: KernelCase) -> None:
    kernel, expected = lookup_kernel(case.kernel), EXPECTED[str(case)]
    assert kernel is not None
    assert kernel.op is not None
    expected = expected[-len(kernel.changes) :]  # an operator returns changed values
    outs = [(DTYPES[dtype], tuple(shape)) for dtype, shape, _ in expected]
    results = run_op(kernel.op, kernel.op_arguments(case.args), outs)
    for result, (dtype, shape, items) in zip(results, expected, strict=True):
        check(result.astype(dtype), np.array(items, dtype).reshape(shape))

"""Kernels on WebGPU against the NumPy references: the tables of the unit tests, and more."""

from __future__ import annotations

import numpy as np
import pytest

import webpte
from support.cases.cases import Array
from support.cases.elementwise.binary_cases import BINARY_CASES
from support.cases.elementwise.function_cases import FUNCTION_CASES
from support.cases.elementwise.unary_cases import UNARY_CASES
from support.cases.gpu_kernels import for_browser
from support.cases.move.view_cases import VIEW_CASES, view
from support.harness.reading import run_apart as finish
from support.page.page import HarnessSource, Outcome, Run, encode_bytes, python, run_all
from support.write.pte_writer import GraphWriter, write_pte
from webpte_host.harness.browser import Harness

CASES = [*for_browser([*UNARY_CASES, *FUNCTION_CASES, *BINARY_CASES]), *VIEW_CASES]
VIEW_OPS = {case.op for case in VIEW_CASES}


def references(program: bytes, steps: list[tuple[Array, ...]]) -> list[list[Array]]:
    async def compute() -> list[list[Array]]:
        loaded = await webpte.load(program, device="numpy")
        return [list(await loaded.forward(*inputs)) for inputs in steps]

    return finish(compute())


@pytest.fixture(scope="module")
def outcomes(shared_harness: HarnessSource) -> list[Outcome]:
    """All cases in one call; each is then a test of its own."""
    return run_all(shared_harness.get(), [Run(case.program(), [case.inputs]) for case in CASES])


@pytest.mark.parametrize("index", range(len(CASES)), ids=[str(case) for case in CASES])
def test_kernel(index: int, outcomes: list[Outcome]) -> None:
    case, outcome = CASES[index], outcomes[index]
    assert outcome.error is None
    ((result,),) = outcome.outputs
    case.check(result)
    ((reference,),) = references(case.program(), [case.inputs])
    case.check(result, reference)


def test_a_copied_view_keeps_every_bit(outcomes: list[Outcome]) -> None:
    """NaN payloads, -0.0 and subnormals, which comparing numbers does not see."""
    checked = 0
    for case, outcome in zip(CASES, outcomes, strict=True):
        if case.op in VIEW_OPS and case.copied and case.inputs[0].size:
            ((result,),) = outcome.outputs
            assert result.tobytes() == case.inputs[0].tobytes(), str(case)
            checked += 1
    assert checked > 20


def test_more_workgroups_than_one_dimension_holds(harness: Harness) -> None:
    """65,536 workgroups and a bit: the grid is folded, and the last quad is a partial one."""
    count = 65_536 * 64 * 4 + 5
    g = GraphWriter()
    x = g.tensor((count,), "uint8")
    g.inputs(x)
    g.outputs(g.op("aten.bitwise_not.default", x, g.tensor((count,), "uint8")))
    code = """
    x = (np.arange(count) * 7 % 251).astype(np.uint8)
    async with await webpte.load(base64.b64decode(program)) as loaded:
        (y,) = await loaded.forward(x)
    return [y.shape == x.shape, np.flatnonzero(y != ~x)[:5]]
    """
    same_shape, wrong = python(harness, code, program=encode_bytes(write_pte(g)), count=count)
    assert same_shape
    assert wrong == []


@pytest.mark.parametrize("shape", [(3, 5), (5, 3)])
def test_views_that_are_aliases_and_views_that_are_copies_agree(
    harness: Harness, shape: tuple[int, int]
) -> None:
    x = np.arange(15, dtype=np.float32).reshape(shape)
    cases = [
        view("aten.view_copy.default", x, ([15],), (15,), copied=copied) for copied in (True, False)
    ]
    done = run_all(harness, [Run(case.program(), [case.inputs]) for case in cases])
    for case, outcome in zip(cases, done, strict=True):
        assert outcome.error is None
        case.check(outcome.outputs[0][0])


# Dynamic shapes


def dynamic_program() -> bytes:
    """x, y [<=37, 5] -> gelu(x * w + y), its sign, and its rows with a dim between."""
    g = GraphWriter()
    x, y = g.tensor((37, 5)), g.tensor((37, 5))
    w = g.prepack(g.tensor((5,), constant=np.array([1, -2, 0.5, 3, -1], np.float32)))
    a = g.op("aten.mul.Tensor", x, w, g.tensor((37, 5)))
    b = g.op("aten.add.Tensor", a, y, g.int(1), g.tensor((37, 5)))
    c = g.op("aten.gelu.default", b, g.string("none"), g.tensor((37, 5)))
    flags = g.op("aten.gt.Scalar", c, g.int(0), g.tensor((37, 5), "bool"))
    d = g.op("aten.unsqueeze_copy.default", c, g.int(1), g.tensor((37, 1, 5)))
    sums = g.op("aten.add.Tensor", d, b, g.int(1), g.tensor((37, 37, 5)))
    size = g.symint(37)
    g.op("sym_size.int", x, g.int(0), size)
    flat = g.op("aten.view_copy.default", c, g.value_list([g.int(5), size]), g.tensor((5, 37)))
    g.inputs(x, y)
    g.outputs(c, flags, d, sums, flat)
    for value in (x, y, c, flags, d, sums, flat):
        g.host(value, dynamic=True)
    return write_pte(g)


SIZES = (37, 3, 1, 36, 0, 7, 37, 2, 3)


def test_one_program_at_many_sizes(harness: Harness) -> None:
    program = dynamic_program()
    rng = np.random.default_rng(11)
    steps = [
        tuple(rng.uniform(-2, 2, (rows, 5)).astype(np.float32) for _ in range(2)) for rows in SIZES
    ]
    (outcome,) = run_all(harness, [Run(program, steps)])
    assert outcome.error is None
    for rows, results, wanted in zip(
        SIZES, outcome.outputs, references(program, steps), strict=True
    ):
        shapes = [(rows, 5), (rows, 5), (rows, 1, 5), (rows, rows, 5), (5, rows)]
        assert [result.shape for result in results] == shapes
        for result, reference in zip(results, wanted, strict=True):
            assert result.dtype == reference.dtype
            np.testing.assert_allclose(result, reference, rtol=1e-5, atol=2e-6)

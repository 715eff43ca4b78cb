"""Programs on WebGPU whose shapes change from call to call, and views of several shapes."""

from __future__ import annotations

import numpy as np
import pytest

import webpte
from support.cases.cases import Array
from support.cases.move.view_cases import view
from support.harness.reading import run_apart as finish
from support.page.page import Run, run_all
from support.write.pte_writer import GraphWriter, write_pte
from webpte_host.harness.browser import Harness


def references(program: bytes, steps: list[tuple[Array, ...]]) -> list[list[Array]]:
    async def compute() -> list[list[Array]]:
        loaded = await webpte.load(program, device="numpy")
        return [list(await loaded.forward(*inputs)) for inputs in steps]

    return finish(compute())


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

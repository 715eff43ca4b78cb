"""Rotary embeddings on WebGPU: against complex numbers in float64, and the references."""

from __future__ import annotations

import numpy as np
import pytest

import webpte
from support.cases.attention.rope_cases import (
    INTERLEAVED,
    PAIRS,
    ROPE,
    TOLERANCE,
    ComplexCase,
    RopeCase,
)
from support.cases.gpu_kernels import for_browser
from support.harness.reading import run_apart as finish
from support.page.page import Outcome, Run, encode_bytes, python, run_all
from support.write.pte_writer import GraphWriter, write_pte
from webpte_host.harness.browser import Harness, SharedHarness

CASES: list[RopeCase | ComplexCase] = [*for_browser(ROPE), *for_browser(INTERLEAVED)]


@pytest.fixture(scope="module")
def outcomes(shared_harness: SharedHarness) -> list[Outcome]:
    """All cases in one call; each is then a test of its own."""
    runs = [Run(c.program(), [c.inputs(i) for i in range(len(c.steps))]) for c in CASES]
    return run_all(shared_harness.get(), runs)


@pytest.mark.parametrize("index", range(len(CASES)), ids=[str(case) for case in CASES])
def test_kernel(index: int, outcomes: list[Outcome]) -> None:
    case, outcome = CASES[index], outcomes[index]
    assert outcome.error is None

    async def references() -> list[tuple[np.ndarray, ...]]:
        program = await webpte.load(case.program(), device="numpy")
        return [await program.forward(*case.inputs(i)) for i in range(len(case.steps))]

    for step, reference in enumerate(finish(references())):
        results = outcome.outputs[step]
        case.check(step, results)
        for result, wanted in zip(results, reference, strict=True):
            np.testing.assert_allclose(result, wanted, rtol=TOLERANCE, atol=TOLERANCE)


def test_more_workgroups_than_one_dimension_holds(harness: Harness) -> None:
    """65,536 workgroups of pairs and a few more, for queries and keys together."""
    tokens = 65_536 * 64 // (64 + 32) + 5
    g = GraphWriter()
    q, k = (g.tensor((1, tokens, heads, 2)) for heads in (64, 32))
    cosines, sines = (g.tensor((tokens, 1)) for _ in range(2))
    outs = [g.tensor((1, tokens, heads, 2)) for heads in (64, 32)]
    g.op(PAIRS, q, k, cosines, sines, g.value_list(outs))
    g.inputs(q, k, cosines, sines)
    g.outputs(*outs)
    code = """
    angle = np.arange(tokens) % 977 / 100
    tables = [f(angle).astype(np.float32)[:, None] for f in (np.cos, np.sin)]
    x = (np.arange(tokens * 96 * 2) % 1009).astype(np.float32)
    q, k = (part.reshape(1, tokens, -1, 2) for part in np.split(x, [tokens * 128]))
    async with await webpte.load(base64.b64decode(program)) as loaded:
        results = await loaded.forward(q, k, *tables)
    turn = (tables[0] + 1j * tables[1])[:, :, None]
    wanted = [(part[..., 0] + 1j * part[..., 1])[..., None] * turn for part in (q, k)]
    errors = [abs(got.view(np.complex64) - want).max() for got, want in zip(results, wanted)]
    return [float(error) for error in errors]
    """
    program = encode_bytes(write_pte(g))
    assert max(python(harness, code, program=program, tokens=tokens)) < 1e-3

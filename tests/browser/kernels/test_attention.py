"""Attention kernels on WebGPU against float64: every kernel, its variants, and caches over time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from support.cases.attention.attention_cases import CACHED, PLAIN, SWEEP
from support.cases.attention.attention_programs import CacheCase, PlainCase
from support.cases.gpu_kernels import GPU, cases_for, for_browser
from support.page.page import Outcome, Run, decode, encode, encode_bytes, python, run_all
from support.write.pte_writer import GraphWriter, write_pte
from webpte_host.harness.browser import Harness, SharedHarness

Case = CacheCase | PlainCase

# Kernels are compiled for each number of heads and head size, which takes the CPU adapter a second
# or more each: so a choice. The unit tests run all cases, with the same expectations.
SWEPT = ("-4x2x64-", "-8x1x33-", "-4x4x6-")
CHOSEN = (
    *("talk", "10x1x8", "not-causal", "tiny", "all-ones", "B3", "int", "full", "256", "260"),
    *("many-splits", "more-than-64", "tiles-with-splits", "caches-in", "custom_sdpa-4x2x16-caus"),
    *("16-causal-SP:bool", "6-SP:float32", "6-causal-1HSP", "B1SN"),
    *("4x2x6-causal-S1", "16-causal-N:", "tiles", "shared", "wider", "slices"),
    *("one-head", "no-queries", "splits", "dynamic", "mask-[40,-9]"),
    *("mask-[]", "mask-[2,-1,-5,-9]-bool", "[1,-2,-60,-16]"),
)


def chosen(cases: Sequence[Case], names: tuple[str, ...]) -> list[Case]:
    return [case for case in cases if any(name in str(case) for name in names)]


CASES = for_browser(chosen(SWEEP, SWEPT) + chosen(CACHED, CHOSEN) + chosen(PLAIN, CHOSEN))
BATCH = 3  # cases in one call: each call has to end within its time


def runs_of(cases: Sequence[Case]) -> list[Run]:
    return [Run(case.program(), [case.inputs(i) for i in range(len(case.steps))]) for case in cases]


class Outcomes:
    """Runs the cases of a batch when the first of them is asked for."""

    def __init__(self, harness: SharedHarness) -> None:
        self._harness = harness
        self._done: dict[int, Outcome] = {}

    def of(self, index: int) -> Outcome:
        if index not in self._done:
            first = index - index % BATCH
            outcomes = run_all(self._harness.get(), runs_of(CASES[first : first + BATCH]))
            self._done |= {first + i: outcome for i, outcome in enumerate(outcomes)}
        return self._done[index]


@pytest.fixture(scope="module")
def outcomes(shared_harness: SharedHarness) -> Outcomes:
    return Outcomes(shared_harness)


@pytest.mark.parametrize("index", range(len(CASES)), ids=[str(case) for case in CASES])
def test_kernel(index: int, outcomes: Outcomes) -> None:
    check(CASES[index], outcomes.of(index))


def check(case: Case, outcome: Outcome) -> None:
    assert outcome.error is None, f"{case}: {outcome.error}"
    assert len(outcome.outputs) == len(case.steps)
    for step, results in enumerate(outcome.outputs):
        case.check(step, results)


def test_kernels_of_a_gpu(harness: Harness) -> None:
    with cases_for(GPU, harness, CASES) as cases:
        for first in range(0, len(cases), BATCH):
            batch = cases[first : first + BATCH]
            for case, outcome in zip(batch, run_all(harness, runs_of(batch)), strict=True):
                check(case, outcome)


def test_logits_in_several_turns(harness: Harness) -> None:
    """A software adapter holds the logits of some rows at a time: here, of two or three."""
    cases: list[Case] = [PLAIN[0], CacheCase(4, 2, 16, [(9, 0), (1, 9)], positions=130)]
    limit = (
        "from webpte.ops.attention import attention_kernels; attention_kernels.LOGIT_BYTES = size"
    )
    size = python(
        harness, "from webpte.ops.attention.attention_kernels import LOGIT_BYTES as n; return n"
    )
    python(harness, limit, size=1100)
    try:
        for case, outcome in zip(cases, run_all(harness, runs_of(cases)), strict=True):
            check(case, outcome)
    finally:
        python(harness, limit, size=size)


def test_positions_lower_nothing_and_a_wrong_one_changes_nothing(harness: Harness) -> None:
    """A prompt, words one by one, positions outside of the cache in between."""
    steps = [(9, 0), (1, 9), (1, 10), (1, 11), (1, 12), (1, 13)]
    case = CacheCase(4, 2, 16, steps, positions=130)
    code = """
    results, errors, counts = [], [], []
    async with await webpte.load(base64.b64decode(program)) as loaded:
        for index, inputs in enumerate(steps):
            arrays = [unpack(item) for item in inputs]
            if index >= 2:
                for position in (130, -1):
                    wrong = [*arrays[:3], np.array([position], np.int32)]
                    call = loaded.forward(*wrong)
                    errors.append(await raises(webpte.errors.ExecutionError, call))
            (result,) = await loaded.forward(*arrays)
            results.append(pack(result))
            counts.append(loaded.stats.lowerings)
    return results, errors, counts
    """
    inputs = [[encode(array) for array in case.inputs(i)] for i in range(len(steps))]
    results, errors, counts = python(
        harness, code, program=encode_bytes(case.program()), steps=inputs
    )
    for index, item in enumerate(results):
        case.check(index, [decode(item)])
    assert len(errors) == 8
    assert all("1 tokens in 130 cache positions" in error for error in errors)
    assert len(set(counts[1:])) == 1


def test_update_cache(harness: Harness) -> None:
    """Alone, at live positions: several batches, words and quads, and bytes."""
    rng = np.random.default_rng(1)
    runs, wanted = [], []
    for shape, dtype in (
        ((2, 3, 2, 6), "float32"),
        ((1, 3, 1, 7), "float32"),
        ((3, 2, 4, 8), "int32"),
        ((2, 3, 2, 6), "int8"),
    ):
        g = GraphWriter()
        cache = rng.integers(-100, 100, (shape[0], 9, *shape[2:])).astype(dtype)
        value, held = g.tensor(shape, dtype), g.tensor(cache.shape, dtype)
        source, position = g.tensor((1,), "int32"), g.symint()
        g.op("et_vk.select_as_symint.default", source, g.int(0), g.int(0), position)
        g.op("llama.update_cache.default", value, held, position, g.tensor((1,)))
        g.inputs(value, held, source)
        g.outputs(held)
        g.host(value, dynamic=True)
        steps, results = [], []
        for tokens, at in ((shape[1], 0), (1, 8), (2, 5)):
            fresh = rng.integers(-100, 100, (shape[0], tokens, *shape[2:])).astype(dtype)
            expected = cache.copy()
            expected[:, at : at + tokens] = fresh
            steps.append([fresh, cache, np.array([at], np.int32)])
            results.append(expected)
        runs.append(Run(write_pte(g), steps))
        wanted.append(results)
    for outcome, results in zip(run_all(harness, runs), wanted, strict=True):
        assert outcome.error is None
        for (got,), expected in zip(outcome.outputs, results, strict=True):
            np.testing.assert_array_equal(got, expected)


def test_rows_without_keys_and_numbers_at_the_edge(harness: Harness) -> None:
    """Rows that a mask hides, masks of the lowest float, huge logits, NaN in unused places."""
    runs, expected = [], []
    for tokens in (3, 40):
        g = GraphWriter()
        q, k, v = (g.tensor((1, 2, n, 8)) for n in (tokens, 9, 9))
        mask = g.tensor((tokens, 9))
        out = g.tensor((1, 2, tokens, 8))
        g.op("et_vk.sdpa.default", q, k, v, mask, g.null(), out)
        g.inputs(q, k, v, mask)
        g.outputs(out)
        rng = np.random.default_rng(2)
        queries, keys, values = (
            rng.standard_normal((1, 2, n, 8)).astype(np.float32) for n in (tokens, 9, 9)
        )
        hidden = np.zeros((tokens, 9), np.float32)
        hidden[0] = -np.inf
        hidden[1] = np.finfo(np.float32).min
        hidden[2, 1:] = -np.inf
        huge = queries * 1e6
        steps = [[own, keys, values, hidden] for own in (queries, huge)]
        runs.append(Run(write_pte(g), steps))
        expected.append((values, huge, keys))
    for outcome, (values, huge, keys) in zip(run_all(harness, runs), expected, strict=True):
        assert outcome.error is None
        for (result,) in outcome.outputs:
            assert np.isfinite(result).all()
            assert not result[0, :, 0].any()
            mean = values[0].mean(axis=1)
            np.testing.assert_allclose(result[0, :, 1], mean, rtol=1e-4, atol=1e-6)
            np.testing.assert_allclose(result[0, :, 2], values[0, :, 0], rtol=1e-6)
        # So large that the best key takes all.
        best = (huge[0].astype(np.float64) @ keys[0].swapaxes(1, 2)).argmax(axis=-1)
        (result,) = outcome.outputs[1]
        for head in range(2):
            wanted = values[0, head][best[head, 3:]]
            np.testing.assert_allclose(result[0, head, 3:], wanted, rtol=1e-4)

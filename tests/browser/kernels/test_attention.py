"""Attention on WebGPU beyond its tables: caches over time, and numbers at the edge."""

from __future__ import annotations

import numpy as np
import pytest

from support.cases.attention.attention_cases import PLAIN
from support.cases.attention.attention_programs import CacheCase
from support.page.page import Run, decode, encode, encode_bytes, python, run_all
from support.page.table_page import check_rows
from support.write.pte_writer import GraphWriter, write_pte
from webpte_host.harness.browser import Harness


@pytest.mark.thorough
def test_logits_in_several_turns(harness: Harness) -> None:
    """A software adapter holds the logits of some rows at a time: here, of two or three."""
    limit = (
        "from webpte.engine.ops.attention import attention_kernels as kernels\n"
        "kernels.LOGIT_BYTES = size"
    )
    size = python(
        harness,
        "from webpte.engine.ops.attention.attention_kernels import LOGIT_BYTES as n; return n",
    )
    python(harness, limit, size=1100)
    try:
        check_rows(harness, [PLAIN[0], CacheCase(4, 2, 16, [(9, 0), (1, 9)], positions=130)])
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


@pytest.mark.thorough
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

"""Attention by subgroup matrices: when it is used, its memory, and the precision of split f16."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from support.cases.attention.attention_programs import CacheCase
from support.graphs.graphs import make_planner, read_graph
from webpte.engine.ops.attention import attention_kernels, attention_matrix
from webpte.engine.ops.core.records import Dispatch, Scratch
from webpte.engine.ops.core.target import Target
from webpte.engine.ops.gemm.subgroup_matrix.tiles import SHARED_BYTES
from webpte.engine.plan.shaders import shader_folder

Array = np.ndarray
MATRICES = Target(shared_bytes=SHARED_BYTES, subgroup_matrices=True)
PROMPT = CacheCase(8, 2, 64, [(40, 3)], positions=70)
SPLIT, BY_MATRICES = "attention_split_f16", "attention_matrix"


def lowered(case: CacheCase, target: Target = MATRICES) -> tuple[Dispatch, ...]:
    planner, _ = make_planner(read_graph(case.program()), target)
    planner.lower_all()
    return planner.dispatches()


def kernels(case: CacheCase, target: Target = MATRICES) -> list[str]:
    return [dispatch.kernel for dispatch in lowered(case, target)]


@pytest.mark.parametrize("size", attention_matrix.SIZES)
def test_prompts(size: int) -> None:
    """After the writes to the caches: the split, and one dispatch for all tiles."""
    found = kernels(replace(PROMPT, size=size))
    assert found[-2:] == [SPLIT, BY_MATRICES]
    assert found[:-2] == kernels(replace(PROMPT, size=size), Target())[:-1]


def test_long_caches_are_split_over_workgroups() -> None:
    found = kernels(replace(PROMPT, positions=2304))
    assert found[-3:] == [SPLIT, BY_MATRICES, "attention_flash_reduce"]


@pytest.mark.parametrize(
    ("case", "target"),
    [
        (replace(PROMPT, size=80), MATRICES),
        (replace(PROMPT, size=32), MATRICES),
        (replace(PROMPT, steps=[(31, 3)]), MATRICES),  # of 4 heads each: fewer than 128 rows
        (PROMPT, replace(MATRICES, subgroup_matrices=False)),
        (PROMPT, replace(MATRICES, shared_bytes=SHARED_BYTES - 1)),
        (PROMPT, replace(MATRICES, software=True)),
        (PROMPT, replace(MATRICES, binding_bytes=1 << 16)),
    ],
)
def test_others_keep_their_kernel(case: CacheCase, target: Target) -> None:
    assert lowered(case, target) == lowered(case, replace(target, subgroup_matrices=False))


def test_memory_of_keys_and_values() -> None:
    """Blocks of 32 keys, of which the last is not full, with a scale per key and per element."""
    split, attend = lowered(PROMPT)[-2:]
    units, scales = split.bindings[2:4]
    assert attend.bindings[1:3] == (units, scales)
    assert isinstance(units, Scratch)
    assert isinstance(scales, Scratch)
    assert units.nbytes >= 2 * 3 * 32 * (64 + 64) * 4
    assert scales.nbytes >= 2 * 3 * (32 + 64) * 4
    assert split.grid == (2 * 3, 1, 1)
    halves = lowered(PROMPT, replace(MATRICES, half_products=True))[-2]
    assert dict(split.types)["PARTS"] == "2"
    assert dict(halves.types)["PARTS"] == "1"


@pytest.mark.parametrize(
    ("value", "file", "pattern"),
    [
        (attention_matrix.KEYS, "lib/attention/attention_blocks.wgsl", r"const KEYS = (\d+)u;"),
        (attention_kernels.TILE_ROWS, "attention/attention_matrix.wgsl", r"const ROWS = (\d+)u;"),
    ],
)
def test_numbers_that_stand_in_python_and_in_wgsl_agree(
    value: int, file: str, pattern: str
) -> None:
    match = re.search(pattern, (shader_folder() / file).read_text(encoding="utf-8"))
    assert match is not None
    assert int(match[1]) == value


# The arithmetic of wgsl/attention/attention_matrix.wgsl in NumPy


def split(lines: Array) -> tuple[Array, Array, Array]:
    """Return the first and the second f16 of lines, and the power of two of each line."""
    exponents = np.floor(np.log2(np.abs(lines).max(axis=-1, keepdims=True))) - 14
    scaled = np.ldexp(lines.astype(np.float64), -exponents.astype(int))
    high = scaled.astype(np.float16)
    return high, (scaled - high).astype(np.float16), np.exp2(exponents)


def product(a: tuple[Array, Array], b: tuple[Array, Array], parts: int) -> Array:
    """a @ b.T as sums of products of f16: three for one, or one."""
    (high, low), (b_high, b_low) = ([x.astype(np.float64) for x in pair] for pair in (a, b))
    small = high @ b_low.T + low @ b_high.T if parts == 2 else 0
    return (small + high @ b_high.T).astype(np.float32)


def by_matrices(q: Array, k: Array, v: Array, parts: int) -> Array:
    q_high, q_low, q_scale = split(q)
    maximum, total = np.full((len(q), 1), -1e30, np.float32), np.zeros((len(q), 1), np.float32)
    result = np.zeros((len(q), v.shape[1]), np.float32)
    for first in range(0, len(k), attention_matrix.KEYS):
        block = slice(first, first + attention_matrix.KEYS)
        k_high, k_low, k_scale = split(k[block])
        v_high, v_low, v_scale = split(np.ascontiguousarray(v[block].T))
        logits = product((q_high, q_low), (k_high, k_low), parts) * q_scale * k_scale.T
        highest = np.maximum(maximum, logits.max(axis=1, keepdims=True)).astype(np.float32)
        weights = np.exp((logits - highest).astype(np.float32))
        w_high = (weights * 16384).astype(np.float16)
        w_low = (weights * 16384 - w_high.astype(np.float32)).astype(np.float16)
        correction = np.exp(maximum - highest)
        added = product((w_high, w_low), (v_high, v_low), parts) * v_scale.T / 16384
        result = result * correction + added.astype(np.float32)
        total = total * correction + weights.sum(axis=1, keepdims=True)
        maximum = highest
    return result / total


@pytest.mark.parametrize(("parts", "bound"), [(2, 1e-6), (1, 1e-3)])
@pytest.mark.parametrize("size", [1e-3, 1.0, 20.0])
def test_precision(size: float, parts: int, bound: float) -> None:
    """Logits of up to hundreds, keys and elements of values of very different sizes."""
    rng = np.random.default_rng(4)
    q, k, v = (rng.normal(0, 1, (n, 64)).astype(np.float32) for n in (40, 200, 200))
    q, k = q * np.float32(size / 8), k * np.exp2(rng.uniform(-3, 0, (200, 1))).astype(np.float32)
    v *= np.exp2(rng.uniform(-12, 12, 64)).astype(np.float32)
    logits = q.astype(np.float64) @ k.astype(np.float64).T
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    error = np.abs(by_matrices(q, k, v, parts) - weights @ v)
    assert (error < bound * max(1, size) * (weights @ np.abs(v))).all()

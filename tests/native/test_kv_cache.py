"""KV caches in f16 and 8 bits on a GPU's kernels and on plain ones, against the references."""

from __future__ import annotations

import asyncio
import io
from itertools import product

import numpy as np
import pytest

import webpte
from support.cases.attention.attention_cases import TALK
from support.cases.attention.attention_programs import CacheCase
from support.cases.attention.update_programs import UpdateCase
from support.devices.native import need_native, shared_device
from support.harness import extent
from support.llm.optimum_programs import answers, files
from webpte.engine.ops.attention.cache_packing import PACKINGS, CachePacking, unpack_whole_rows
from webpte.llm import Generator
from webpte.llm.generation import ignore_stops
from webpte_host.base.layout import ROOT

KINDS = ("f16", "int8")
# Every kernel: few and many queries, heads of odd sizes and of more than 256 elements, splits.
CASES = [
    CacheCase(4, 2, 16, TALK, label="talk"),
    CacheCase(10, 1, 8, TALK, label="ten heads in two tiles of rows"),
    CacheCase(1, 1, 1, [(1, 0), (3, 1), (1, 4)], positions=5, label="all ones"),
    CacheCase(2, 2, 6, [(3, 2), (1, 5)], batch=3, positions=9),
    CacheCase(4, 2, 33, [(40, 2), (1, 42), (3, 7)], positions=50, label="odd heads"),
    CacheCase(4, 2, 64, [(70, 3), (1, 73), (5, 20)], positions=80, label="tiles, then rolled back"),
    CacheCase(4, 2, 128, [(40, 2), (1, 42), (64, 0)], positions=80, label="large heads"),
    CacheCase(2, 1, 260, [(1, 30), (20, 31), (1, 51)], positions=70),
    CacheCase(4, 2, 16, [(1, 700), (2, 5), (1, 999)], positions=1000, label="many splits"),
    CacheCase(8, 1, 8, [(9, 500), (3, 0)], positions=600, label="tiles with splits"),
    CacheCase(4, 2, 16, [(3, 7), (1, 12)], mask="SN", mask_type="bool", causal=False),
    UpdateCase(4, 2, 7, [(1, 20), (30, 3)]),
]
# Windows and soft caps in every kernel, with floats, too.
BENT = [
    CacheCase(4, 2, 16, TALK, window=1),
    CacheCase(3, 1, 8, TALK, window=5, cap=2.5),
    CacheCase(2, 1, 6, TALK, window=3, cap=3.0),
    CacheCase(4, 2, 16, TALK, cap=0.25, scale=40.0),
    CacheCase(2, 1, 260, [(1, 30), (20, 31), (1, 51)], positions=70, window=11, cap=5.0),
]
BENT_TILES = [
    CacheCase(4, 2, 64, [(130, 40), (1, 170), (70, 3)], positions=256, window=33, cap=4.0),
    CacheCase(4, 2, 33, [(130, 40), (1, 170), (9, 3)], positions=256, window=50),
    CacheCase(8, 1, 128, [(8, 500), (64, 100), (1, 598)], positions=600, window=200, cap=9.0),
    CacheCase(4, 2, 16, [(1, 700), (2, 5), (1, 999)], positions=1000, window=77, cap=1.0),
]


ROWS = [(case, "gpu") for case in CASES] + [
    (CASES[i], adapter) for adapter in ("phone", "plain") for i in (0, 4)
]
LONG = [
    CacheCase(8, 2, 16, [(1, 8191), (20, 8100), (1, 8120)], positions=8192, label="8k"),
    CacheCase(4, 2, 16, [(1, 32767), (3, 32764), (1, 5)], positions=32768, label="32k"),
]


@pytest.fixture(scope="module", autouse=True)
def _driver() -> None:
    need_native()


# Steps that do not divide the number of kinds: each is there.
@pytest.mark.parametrize(
    ("case", "adapter", "kind"),
    extent.share([(*row, kind) for row in ROWS for kind in KINDS], 9),
    ids=str,
)
def test_attention_reads_what_the_reference_reads(case: CacheCase, adapter: str, kind: str) -> None:
    compare(case, adapter, kind)


@pytest.mark.parametrize(
    ("case", "adapter", "kind"),
    extent.share(list(product(BENT, ("gpu", "plain"), (None, *KINDS))), 11),
    ids=str,
)
def test_windows_and_soft_caps(case: CacheCase, adapter: str, kind: str | None) -> None:
    compare(case, adapter, kind)


@pytest.mark.parametrize(
    ("case", "kind"), extent.share(list(product(BENT_TILES, (None, "int8"))), 3), ids=str
)
def test_windows_and_soft_caps_of_many_queries(case: CacheCase, kind: str | None) -> None:
    compare(case, "gpu", kind)


@pytest.mark.parametrize("adapter", extent.some(["gpu"], "phone"))
@pytest.mark.parametrize(
    ("case", "kind"), extent.share(list(product(LONG, (None, *KINDS))), 4), ids=str
)
def test_attention_near_the_end_of_a_long_context(
    case: CacheCase, adapter: str, kind: str | None
) -> None:
    compare(case, adapter, kind)


def compare(case: CacheCase, adapter: str, kind: str | None) -> None:
    async def check() -> None:
        program = case.program()
        async with (
            await webpte.llm.load(program, device="numpy", kv_cache=kind) as reference,
            await webpte.llm.load(program, device=shared_device(adapter), kv_cache=kind) as native,
        ):
            for index in range(len(case.steps)):
                (wanted,) = await reference.forward(*case.inputs(index))
                (found,) = await native.forward(*case.inputs(index))
                np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)

    asyncio.run(check())


LLAMAS = ROOT / "tests" / "data" / "llm"
PROMPT = [5, 9, 33, 7]


@pytest.mark.parametrize("kind", extent.some(KINDS[-1:], None, *KINDS))
@pytest.mark.parametrize("name", extent.some(["llama_tiny_q4"], "llama_tiny_fp32"))
def test_a_conversation_goes_on_elsewhere(name: str, kind: str | None) -> None:
    """Fused attention writes the same words as the reference, so tokens stay the same."""

    async def check() -> None:
        path, device = LLAMAS / f"{name}.pte", shared_device()
        async with (
            await webpte.llm.load(path, device=device, kv_cache=kind) as here,
            await webpte.llm.load(path, device=device, kv_cache=kind) as there,
            await webpte.llm.load(path, device="numpy", kv_cache=kind) as reference,
        ):
            generator = Generator(here)
            first = [token async for token in generator.generate(PROMPT, 9)]
            data = await generator.save()
            wanted = [token async for token in generator.continue_([3], 9)]
            for program in (there, reference):
                other = Generator(program)
                await other.restore(data)
                assert other.context == (*PROMPT, *first)
                assert [token async for token in other.continue_([3], 9)] == wanted
            own = Generator(reference)
            assert [token async for token in own.generate(PROMPT, 9)] == first
            if kind is not None:
                for caches in zip(caches_in(data), caches_in(await own.save()), strict=True):
                    check_words(*caches, PACKINGS[kind])

    asyncio.run(check())


@pytest.mark.parametrize(
    ("name", "kind"), extent.some([("quantized", "int8")], ("custom", "f16"), ("hybrid", "int8"))
)
def test_caches_beside_delegates_of_xnnpack(name: str, kind: str) -> None:
    async def check() -> None:
        found = []
        for device in (shared_device(), "numpy"):
            async with await webpte.llm.load(
                files()[f"{name}.pte"], device=device, kv_cache=kind
            ) as program:
                answer = Generator(program).generate(answers()["prompt"], 6)
                ignore_stops(answer)
                found.append([token async for token in answer])
        assert found[0] == found[1]

    asyncio.run(check())


def caches_in(data: bytes) -> list[np.ndarray]:
    with np.load(io.BytesIO(data)) as archive:
        return [archive[name] for name in archive.files if name != "head"]


def check_words(made: np.ndarray, wanted: np.ndarray, packing: CachePacking) -> None:
    """Check words of a cache; what differs a little may be rounded to the next number."""
    found, floats = (unpack_whole_rows(words, packing) for words in (made, wanted))
    far = np.abs(found - floats)
    assert far.max() <= 1.01 * packing.largest_step(floats)
    assert (far <= 1e-4 * np.abs(floats).max()).mean() > 0.98

"""Language models whose KV caches are kept in f16 or 8 bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import webpte
from support.cases.attention.attention_cases import TALK
from support.cases.attention.attention_programs import CacheCase
from support.cases.attention.update_programs import UpdateCase
from support.graphs.graphs import make_planner, read_graph, wait
from support.graphs.small_llm import small_llm
from support.graphs.split_graphs import linear
from support.harness import extent
from support.page.conversations import tokens_of
from support.write.pte_writer import GraphWriter, write_pte
from webpte import errors
from webpte.engine.call.options import DeveloperOptions
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.engine.ops.attention.cache_packing import PACKINGS, pack_rows, unpack_rows
from webpte.engine.ops.core.records import Scratch
from webpte.llm import Generator
from webpte.llm.cache.pack_cache import kv_cache_bytes
from webpte_host.base.layout import ROOT

FOLDER = ROOT / "tests" / "data" / "llm"
NAMES = ["llama_tiny_fp32", "llama_tiny_q4"]
KINDS = list(PACKINGS)
PROMPT = [5, 9, 33, 7]
CASES = [
    CacheCase(4, 2, 16, TALK, label="talk"),
    CacheCase(1, 1, 1, [(1, 0), (3, 1), (1, 4)], positions=5, label="all ones"),
    CacheCase(6, 3, 33, [(7, 2), (1, 9), (3, 4)], positions=20, label="rolled back"),
    CacheCase(2, 2, 6, [(3, 2), (1, 5)], batch=3, positions=9),
    UpdateCase(4, 2, 7, [(1, 20), (30, 3)]),
]


def rounded(values: np.ndarray, kind: str) -> np.ndarray:
    packing = PACKINGS[kind]
    return unpack_rows(pack_rows(values, packing), values.shape[-1], packing)


@pytest.mark.parametrize("name", NAMES)
def test_the_bytes_of_caches_are_known_before_they_are_packed(name: str) -> None:
    async def check() -> None:
        path = FOLDER / f"{name}.pte"
        async with await webpte.load(path, device="numpy") as program:
            told = kv_cache_bytes(program)
        for kind in (None, *KINDS):
            forecast = await webpte.llm.forecast(path, device="numpy", kv_cache=kind)
            assert told[kind or "file"] == forecast.state
        async with await webpte.llm.load(path, device="numpy", kv_cache="int8") as program:
            assert kv_cache_bytes(program) == {}  # already packed

    wait(check())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_attention_over_rounded_keys_and_values(case: CacheCase, kind: str) -> None:
    """Compares with float64 attention over caches that are rounded before and at every write."""

    async def check() -> None:
        keys, values = (rounded(cache, kind) for cache in case.caches)
        async with await webpte.llm.load(case.program(), device="numpy", kv_cache=kind) as program:
            for index, (tokens, position) in enumerate(case.steps):
                step, there = case.data[index], slice(position, position + tokens)
                keys[:, there] = rounded(step["k"], kind)
                values[:, there] = rounded(step["v"], kind)
                wanted = case._attend(step, keys, values, position)
                (found,) = await program.forward(*case.inputs(index))
                np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)

    wait(check())


@pytest.mark.parametrize(
    ("name", "kind"),
    extent.share([(NAMES[at], kind) for at in (0, 1) for kind in KINDS[:: 1 - 2 * at]], len(KINDS)),
)
def test_devices_agree_and_answers_hardly_change(name: str, kind: str) -> None:
    async def check() -> None:
        path = FOLDER / f"{name}.pte"
        answers = []
        for device, kept in (("numpy", None), ("numpy", kind), (SimulatedDevice(), kind)):
            on: Any = device
            async with await webpte.llm.load(path, device=on, kv_cache=kept) as program:
                generator = Generator(program)
                first = await tokens_of(generator.generate(PROMPT, 20))
                # Back to an earlier position, as after an edit, and on from there.
                again = await tokens_of(generator.generate([*PROMPT, *first[:3], 17], 5))
                fresh = await tokens_of(Generator(program).generate([*PROMPT, *first[:3], 17], 5))
                assert again == fresh
                answers.append((first, again))
        assert answers[1] == answers[2]
        assert answers[0][0][:4] == answers[1][0][:4]

    wait(check())


@pytest.mark.parametrize("name", NAMES)
def test_caches_take_fewer_bytes(name: str) -> None:
    async def check() -> None:
        path, device = FOLDER / f"{name}.pte", SimulatedDevice()
        whole = await webpte.llm.forecast(path, device=device, kv_cache="f32")
        assert whole == await webpte.forecast(path, device=device)
        half = await webpte.llm.forecast(path, device=device, kv_cache="f16")
        bytes_ = await webpte.llm.forecast(path, device=device, kv_cache="int8")
        assert half.state == whole.state // 2
        assert bytes_.state == whole.state * (1 + 16 // 4) // 16, "a step and 16 numbers to a row"
        assert half.weights == bytes_.weights == whole.weights
        async with await webpte.llm.load(path, device=device, kv_cache="int8") as program:
            assert program.memory().by_kind["state"] == bytes_.state
            await program.recover(SimulatedDevice())  # as it was loaded
            assert program.memory().by_kind["state"] == bytes_.state
        short = await webpte.llm.forecast(path, device=device, kv_cache="int8", max_context=32)
        assert short.state == bytes_.state // 4

    wait(check())


def test_a_cache_that_is_too_large_for_a_binding_fits_in_fewer_bits() -> None:
    async def check() -> None:
        case = CacheCase(2, 2, 16, [(1, 3)], positions=128)
        program, device = case.program(), SimulatedDevice()
        options = DeveloperOptions(binding_bytes=12 << 10)
        told = await webpte.forecast(program, device=device, options=options)
        (refusal,) = told.refusals
        assert "16,384 bytes), which op 1 (sdpa_with_kv_cache.default) reads" in refusal
        assert 'max_context=..., or with kv_cache="f16" or "int8"' in refusal
        with pytest.raises(errors.OutOfMemoryError, match="kv_cache"):
            await webpte.load(program, device=device, options=options)
        for asked in ({"kv_cache": "f16"}, {"kv_cache": "int8"}, {"max_context": 64}):
            given: Any = {"device": device, "options": options, **asked}
            assert not (await webpte.llm.forecast(program, **given)).refusals
            async with await webpte.llm.load(program, **given) as loaded:
                await loaded.forward(*case.inputs(0))

    wait(check())


@pytest.mark.parametrize("kind", KINDS)
def test_a_comparison_sees_the_numbers_of_a_cache(kind: str) -> None:
    async def check() -> None:
        path = FOLDER / "llama_tiny_q4.pte"
        tokens, position = np.array([[5, 9, 33]]), np.array([0])
        async with await webpte.llm.load(path, device=SimulatedDevice(), kv_cache=kind) as program:
            await program.forward(tokens, position)
            compared = await program.compare("forward", tokens, position)
            assert compared.first is None

    wait(check())


# Long contexts

LONG = [
    CacheCase(4, 2, 8, [(1, 8191), (5, 8187), (1, 8100)], positions=8192, label="8k"),
    CacheCase(4, 2, 8, [(1, 32767), (3, 32700), (1, 5)], positions=32768, label="32k"),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", LONG, ids=str)
def test_attention_near_the_end_of_a_long_context(case: CacheCase, kind: str) -> None:
    test_attention_over_rounded_keys_and_values(case, kind)


@pytest.mark.parametrize(("key_heads", "splits"), [(8, 64), (16, 32), (32, 16), (2, 64)])
@pytest.mark.parametrize("positions", [8192, 32768])
def test_keys_of_a_long_context_are_split(positions: int, key_heads: int, splits: int) -> None:
    """A decode step fills a large GPU: 512 workgroups, or as many as 64 splits give."""
    case = CacheCase(key_heads, key_heads, 4, [(1, positions - 1)], positions=positions)
    planner, _ = make_planner(read_graph(case.program()))
    planner.lower_all()
    first, last = (r for r in planner.dispatches() if r.kernel.startswith("attention"))
    assert (first.kernel, last.kernel) == ("attention_flash_split", "attention_flash_reduce")
    assert first.grid[0] * first.grid[1] == key_heads * splits
    nbytes = [b.nbytes for b in first.bindings if isinstance(b, Scratch)]
    assert max(nbytes) <= 1 << 20


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(errors.InputError, match="'f32', 'f16', 'int8'"):
        wait(webpte.llm.load(FOLDER / "llama_tiny_q4.pte", device="numpy", kv_cache="int4"))


@pytest.mark.parametrize("kind", ["f32", *KINDS])
def test_a_program_without_a_cache_is_refused(kind: str) -> None:
    with pytest.raises(errors.InputError, match="has no KV cache"):
        wait(webpte.llm.load(write_pte(linear().graph), device="numpy", kv_cache=kind))


@pytest.mark.parametrize("kind", KINDS)
def test_a_cache_that_something_else_uses_is_refused(kind: str) -> None:
    case = CacheCase(4, 2, 16, [(5, 7), (1, 3)], cache_inputs=True)
    with pytest.raises(errors.UnsupportedError, match="is not state of the program alone"):
        wait(webpte.llm.load(case.program(), device="numpy", kv_cache=kind))
    with pytest.raises(errors.UnsupportedError, match=r"also used by op 1 .*neg"):
        wait(webpte.llm.load(read_elsewhere(), device="numpy", kv_cache=kind))


def read_elsewhere() -> bytes:
    """Write a program that updates a cache, and returns its contents negated."""
    g = GraphWriter()
    new, cache = (
        g.tensor((1, 1, 2, 4)),
        g.tensor((1, 8, 2, 4), constant=np.zeros((1, 8, 2, 4), "f")),
    )
    g.op("update_cache.default", new, cache, g.int(3), g.tensor((1,)))
    out = g.op("aten.neg.default", cache, g.tensor((1, 8, 2, 4)))
    g.inputs(new)
    g.outputs(out)
    return write_pte(g)


def test_what_a_cache_starts_with_is_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few rows at a time, and also where a read begins in the middle of a row."""

    async def check() -> None:
        from webpte.engine.files import source
        from webpte.engine.load.program_file import read_contents
        from webpte.llm.cache.pack_cache import pack_caches

        monkeypatch.setattr(source, "_STEP", 40)
        case = CacheCase(2, 2, 5, [(1, 0)], positions=7)
        contents = await read_contents(source.BytesSource(case.program()))
        for kind in KINDS:
            packed = pack_caches(contents, kind)
            (graph,) = packed.methods["forward"].graphs
            assert graph is not None
            held = [t for t in graph.tensors() if t.dtype.packing == kind]
            assert len(held) == 2
            for tensor, cache in zip(held, case.caches, strict=True):
                assert tensor.constant is not None
                region = tensor.constant.region
                wanted = pack_rows(cache, PACKINGS[kind]).tobytes()
                assert await region.read(0, region.size) == wanted
                assert await region.read(13, 30) == wanted[13:43]

    wait(check())


@pytest.mark.parametrize("kind", KINDS)
def test_steps_are_decoded_ahead(kind: str) -> None:
    async def check() -> None:
        program = await webpte.llm.load(
            small_llm(context=32), device=SimulatedDevice(), kv_cache=kind
        )
        async with program:
            answer = Generator(program).generate([3, 1], 9)
            await tokens_of(answer)
            assert answer.stats.step_by_step is None

    wait(check())

"""Conversations that are saved with their KV cache, and restored elsewhere."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import webpte
from support.graphs.graphs import wait
from support.graphs.small_llm import small_llm
from support.harness import extent
from support.page.chats import open_chat
from support.page.conversations import tokens_of
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.errors import ContextError, InputError, UnsupportedError
from webpte.llm import Generator

PROMPT, TURN = [5, 9, 33, 7], [81, 402]
KINDS = [None, "f16", "int8"]


async def opened(path: Path | bytes, device: str = "gpu", **options: Any) -> Generator:
    on: Any = SimulatedDevice() if device == "gpu" else device
    return Generator(await webpte.llm.load(path, device=on, **options))


@pytest.mark.parametrize(
    ("here", "there", "kind"),
    [
        *(("gpu", "gpu", kind) for kind in KINDS),
        *extent.some([("numpy", "gpu", KINDS[-1]), ("gpu", "numpy", KINDS[0])]),
        *extent.some([], *(("numpy", "gpu", kind) for kind in KINDS[:-1])),
        *extent.some([], *(("gpu", "numpy", kind) for kind in KINDS[1:])),
    ],
)
def test_the_next_tokens_are_the_same(q4: Path, here: str, there: str, kind: str | None) -> None:
    async def run() -> None:
        generator = await opened(q4, here, kv_cache=kind)
        first = await tokens_of(generator.generate(PROMPT, 6, temperature=0.9, seed=3))
        data = await generator.save()
        wanted = await tokens_of(generator.continue_(TURN, 8, temperature=0.9, seed=3))
        other = await opened(q4, there, kv_cache=kind)
        await tokens_of(other.generate([1, 2, 3], 2))  # the earlier conversation is lost
        await other.restore(data)
        assert other.context == (*PROMPT, *first)
        assert other.position == len(PROMPT) + len(first) - 1
        answer = other.continue_(TURN, 8, temperature=0.9, seed=3)
        assert await tokens_of(answer) == wanted
        assert answer.stats.prefill_tokens == 1 + len(TURN)
        # Back to where it was: several conversations go on from one.
        await other.restore(data)
        assert await tokens_of(other.continue_(TURN, 8, temperature=0.9, seed=3)) == wanted

    wait(run())


def test_only_the_tokens_that_are_there_are_saved(q4: Path) -> None:
    async def run() -> None:
        generator = await opened(q4)
        empty = await generator.save()
        await generator.prefill(PROMPT)
        with np.load(io.BytesIO(await generator.save())) as archive:
            caches = [archive[name] for name in archive.files if name != "head"]
            assert [cache.shape for cache in caches] == [(len(PROMPT), 2, 16)] * 4
        await generator.restore(empty)
        assert generator.context == ()

    wait(run())


def test_between_two_tokens_of_an_answer(q4: Path) -> None:
    async def run() -> None:
        generator = await opened(q4)
        answer = generator.generate(PROMPT, 12)
        found = [await anext(answer) for _ in range(5)]
        data = await generator.save()
        rest = [token async for token in answer]
        other = await opened(q4)
        await other.restore(data)
        assert other.context == (*PROMPT, *found)
        assert await tokens_of(other.generate([*PROMPT, *found], 7)) == rest
        begun = other.generate(PROMPT, 12)
        assert await anext(begun) == found[0]
        await other.restore(data)
        with pytest.raises(ContextError, match="one answer at a time"):
            await anext(begun)
        assert other.context == (*PROMPT, *found)

    wait(run())


def test_a_cache_of_someone_else_is_not_saved(q4: Path) -> None:
    async def run() -> None:
        generator = await opened(q4)
        await generator.prefill(PROMPT)
        await Generator(generator.program).prefill([1])
        with pytest.raises(ContextError, match="another Generator"):
            await generator.save()
        generator._session.append([1])
        empty = await generator._session.save(or_empty=True)
        assert (empty.tokens, empty.pending) == ((), ())
        # Restoring is noticed by the others, too.
        other = Generator(generator.program)
        await other.prefill(PROMPT)
        data = await other.save()
        third = Generator(generator.program)
        await third.restore(data)
        with pytest.raises(ContextError, match="another Generator"):
            await other.prefill([1])

    wait(run())


def test_other_programs_and_other_caches_are_refused(q4: Path, fp32: Path) -> None:
    async def run() -> None:
        generator = await opened(q4)
        first = await tokens_of(generator.generate(PROMPT, 6))
        data = await generator.save()
        for other, reason in (
            (await opened(fp32), "was not saved with llama_tiny_fp32"),
            (await opened(q4, kv_cache="int8"), "the kv_cache that it was saved with"),
            (await opened(q4, max_context=8), "has 9 tokens, and .* holds 8"),
            (await opened(small_llm()), "has 4 KV caches, and the program 2"),
        ):
            await other.prefill([1, 2])
            with pytest.raises(InputError, match=reason):
                await other.restore(data)
            assert other.context == (1, 2)
            await other.prefill([3])
        longer = await opened(q4, max_context=64)
        await longer.restore(data)
        assert longer.context == (*PROMPT, *first)

    wait(run())


def test_state_that_is_more_than_caches_is_refused() -> None:
    async def run() -> None:
        generator = await opened(small_llm(count=True))
        await generator.prefill([1, 2])
        with pytest.raises(UnsupportedError, match="not known to be KV caches"):
            await generator.save()

    wait(run())


def changed(data: bytes, **fields: Any) -> bytes:
    """Return the archive with other members of its head; None removes one."""
    with np.load(io.BytesIO(data)) as archive:
        arrays = {name: archive[name] for name in archive.files}
    head = json.loads(arrays["head"].tobytes())
    for name, value in fields.items():
        if name in arrays:
            arrays[name] = value
        elif value is None:
            head.pop(name)
        else:
            head[name] = value
    arrays["head"] = np.frombuffer(json.dumps(head).encode(), np.uint8)
    file = io.BytesIO()
    np.savez(file, **{name: array for name, array in arrays.items() if array is not None})
    return file.getvalue()


def test_damaged_and_hostile_data_is_refused(q4: Path) -> None:
    async def run() -> None:
        generator = await opened(q4)
        await generator.prefill(PROMPT)
        data = await generator.save()
        flipped = bytearray(data)
        flipped[len(data) // 2] ^= 1
        cases: list[bytes] = [b"", b"PK", data[:-40], data[:100], bytes(flipped)]
        cases += [
            changed(data, version=2),
            changed(data, format="another"),
            changed(data, program="0" * 64),
            changed(data, tokens=None),
            changed(data, tokens=[5, 9, 33]),
            changed(data, tokens=[5, 9, 33, 512]),
            changed(data, tokens=[5, 9, 33, -1]),
            changed(data, tokens=[5, 9, 33, 7.5]),
            changed(data, tokens="text"),
            changed(data, pending=[True]),
            changed(data, pending=[1 << 40]),
            changed(data, cache_1=np.zeros((4, 2, 16), np.float64)),
            changed(data, cache_1=np.zeros((4, 2, 17), np.float32)),
            changed(data, cache_1=np.zeros((400, 2, 16), np.float32)),
            changed(data, cache_0=None),
        ]
        for case in cases:
            with pytest.raises(InputError):
                await generator.restore(case)
            assert generator.context == tuple(PROMPT)
        await generator.prefill([1])

    wait(run())


def test_any_cut_and_any_flipped_byte(q4: Path) -> None:
    """Changed data is refused, or it is the same conversation."""

    async def run() -> None:
        generator = await opened(q4, "numpy", kv_cache="int8")
        await generator.prefill(PROMPT)
        data = await generator.save()
        random = np.random.default_rng(0)
        for place in random.integers(0, len(data), 60):
            broken = bytearray(data)
            broken[place] ^= 1 << int(random.integers(8))
            with contextlib.suppress(InputError):
                await generator.restore(bytes(broken))
            assert generator.context == tuple(PROMPT)
        for length in random.integers(0, len(data), 20):
            with pytest.raises(InputError):
                await generator.restore(data[:length])

    wait(run())


# Chats


@pytest.mark.parametrize("kind", ["numpy", "gpu"])
def test_a_chat_goes_on_elsewhere(kind: str) -> None:
    async def run() -> None:
        device: Any = "numpy" if kind == "numpy" else SimulatedDevice()
        chat = await open_chat(SimulatedDevice(), "Be brief.")
        for question in ("Hello!", "Why?"):
            await chat.send(question, 9, temperature=1.5, seed=4)
        data = await chat.save()
        wanted = await chat.send("And then?", 9, temperature=1.5, seed=4)
        other = await open_chat(device)
        await other.restore(data)
        assert other.messages == chat.messages[:-2]
        reply = other.send("And then?", 9, temperature=1.5, seed=4)
        assert await reply == wanted
        assert reply.stats.retokenized == 0
        assert reply.stats.reused_tokens == chat._reply.stats.reused_tokens  # type: ignore[union-attr]
        assert other.undo() == "And then?"
        assert other.undo() == "Why?"

    wait(run())


def test_a_chat_whose_cache_is_gone_keeps_its_messages() -> None:
    async def run() -> None:
        chat = await open_chat(SimulatedDevice())
        await chat.send("Hello!", 5)
        await Generator(chat._generator.program).prefill([1])
        data = await chat.save()
        wanted = await chat.send("Why?", 5)
        other = await open_chat(SimulatedDevice())
        await other.restore(data)
        assert await other.send("Why?", 5) == wanted

    wait(run())


def test_messages_that_are_not_valid_are_refused() -> None:
    async def run() -> None:
        chat = await open_chat(SimulatedDevice())
        await chat.send("Hello!", 5)
        data, before = await chat.save(), chat.messages
        bare = await chat._generator.save()
        turn = {"role": "user", "content": "a"}
        span = {"prompt": "a", "start": 0}
        for case in (
            bare,
            changed(data, turns=7),
            changed(data, turns=[7]),
            changed(data, turns=[{"role": "user"}]),
            changed(data, turns=[{"role": 3, "content": "a"}]),
            changed(data, dropped=3),
            changed(data, dropped=None),
            changed(data, turns=[turn | {"span": span | {"count": 4000}}]),
            changed(data, turns=[turn | {"span": span | {"start": 1, "tokens": []}}]),
            changed(data, turns=[turn | {"span": span | {"tokens": ["a"]}}]),
        ):
            with pytest.raises(InputError):
                await chat.restore(case)
            assert chat.messages == before

    wait(run())

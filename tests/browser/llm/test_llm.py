"""Llama exports on WebGPU: greedy decoding equals the NumPy references, token by token.

One conversation in several turns equals its whole context fed to the references at once.
"""

from __future__ import annotations

import itertools

import pytest

from support.harness import extent, limits
from support.page.page import python
from webpte_host.harness.browser import Harness

# More run natively, see tests/native/test_generation.py.
TOKENS = extent.count(12, 40)
BREAKS = [1, 2, 5, 13, 20] if extent.everything() else [1, 5, 20]

CODE = """
import js
from webpte import llm

async def generated(program, prompt):
    return [token async for token in llm.generate(program, prompt, count)]

reply = await js.fetch(url)
data = (await reply.arrayBuffer()).to_bytes()
results = []
reference = await webpte.load(data, device="numpy")
async with await webpte.load(data, strict=True) as program:
    for length in lengths:
        prompt = np.random.default_rng(length).integers(0, 512, length).tolist()
        results.append([await generated(p, prompt) for p in (program, reference)])
return results
"""


@pytest.mark.parametrize("name", extent.some(["llama_tiny_q4"], "llama_tiny_fp32"))
def test_tokens_are_those_of_the_references(harness: Harness, name: str) -> None:
    """Prefill 80 tokens, more than the 63 of one call."""
    lengths = [1, 7, 63, 80]
    url = f"/data/llm/{name}.pte"
    given = {"url": url, "lengths": lengths, "count": TOKENS}
    results = python(harness, CODE, timeout=limits.CALL_SECONDS, **given)
    for length, (found, expected) in zip(lengths, results, strict=True):
        assert len(found) == TOKENS
        assert found == expected, f"prompt of {length}"


GUESSES = """
import js
from webpte import llm
from webpte.llm.speculation_times import SpeculationTimes

SpeculationTimes.loss = None  # rounds go on, however long they take here
reply = await js.fetch("/data/llm/llama_tiny_fp32.pte")
data = (await reply.arrayBuffer()).to_bytes()
reference = await webpte.load(data, device="numpy")
blob = await (await js.fetch("/data/llm/llama_tiny_q4.pte")).blob()
results = []
async with (
    await webpte.load(data, strict=True) as program,
    await webpte.load(blob) as draft,
    await webpte.load(blob) as again,
):
    results.append([draft.stats.prepack_transfers > 0, again.stats.prepack_transfers])
    for asked in ({}, {"temperature": 0.9, "top_k": 20, "seed": 3}):
        wanted = [token async for token in llm.generate(reference, [5, 9, 33, 7], count, **asked)]
        answer = llm.generate(program, [5, 9, 33, 7], count, speculate=draft, **asked)
        found = [token async for token in answer]
        results.append([found == wanted, answer.stats.proposed_tokens > 0])
    plain = [token async for token in llm.generate(again, [7] * 20, count)]
    answer = llm.generate(again, [7] * 20, count, speculate="lookup")  # it repeats one token
    found = [token async for token in answer]
    results.append([found == plain, answer.stats.accepted_tokens > 0])
return results
"""


@pytest.mark.thorough
def test_guesses_change_no_token_and_weights_of_one_blob_are_shared(harness: Harness) -> None:
    results = python(harness, GUESSES, timeout=limits.CALL_SECONDS, count=TOKENS)
    weights, *answers = results
    # A second program of the Blob uploads its KV caches alone.
    assert weights[0] is True
    assert 0 < weights[1] < 10
    assert answers == [[True, True]] * 3


TURNS = """
import js
from webpte import llm

async def whole(context):
    return [token async for token in llm.generate(reference, context, 6)]

reply = await js.fetch(url)
data = (await reply.arrayBuffer()).to_bytes()
reference = await webpte.load(data, device="numpy")
async with await webpte.load(data, strict=True) as program:
    generator, context = llm.Generator(program), []
    for turn, count in turns:
        answer = []
        async for token in generator.continue_(turn, 9):
            answer.append(token)
            if len(answer) == count:
                break
        context += turn + answer
    cancelled = asyncio.ensure_future(generator.prefill([1] * 80))
    await asyncio.sleep(0)
    cancelled.cancel()
    await asyncio.gather(cancelled, return_exceptions=True)
    last = [token async for token in generator.continue_([44], 6)]
    results = [last, await whole([*context, 44])]

    await program.recover()
    message = await raises(webpte.errors.ContextError, anext(generator.continue_([1], 1)))
    generator.reset()
    again = [token async for token in generator.generate(context, 6)]
    return [results, [again, await whole(context)], message]
"""


@pytest.mark.thorough
@pytest.mark.parametrize("name", extent.some(["llama_tiny_q4"], "llama_tiny_fp32"))
def test_a_conversation_is_its_whole_context(harness: Harness, name: str) -> None:
    url = f"/data/llm/{name}.pte"
    turns = [([5, 9, 33, 7], 4), ([81, 402], 1), ([17, 3, 260], 3)]
    *pairs, message = python(harness, TURNS, timeout=limits.CALL_SECONDS, url=url, turns=turns)
    for found, expected in pairs:
        assert found == expected
    assert "rebuilt by recover()" in message


AHEAD = """
import js
from webpte import llm
from webpte.llm import decode_loop as decode

decode.BATCH_SECONDS = 1e6  # batches are as long here as they are on a fast GPU
reply = await js.fetch(url)
data = (await reply.arrayBuffer()).to_bytes()
prompt, turn = [5, 9, 33, 7], [81, 402]

async def conversation(program, steps, taken):
    generator = llm.Generator(program)
    answer = generator.continue_(prompt, 60, steps_ahead=steps, **asked)
    first = [await anext(answer) for _ in range(taken)]
    second = generator.continue_(turn, 8, steps_ahead=steps, **asked)
    return [first, [token async for token in second], second.stats.step_by_step]

async with await webpte.load(data, device="numpy") as reference:
    wanted = {taken: (await conversation(reference, 1, taken))[:2] for taken in breaks}
found, costs = [], []
async with await webpte.load(data, strict=True) as program:
    for steps in (1, 4, 16):
        for taken in breaks:
            *said, reason = await conversation(program, steps, taken)
            found.append([steps, taken, said, wanted[taken], reason])
    generator = llm.Generator(program)
    answer = generator.generate(prompt, 100, **asked)
    for _ in range(1 + 1 + 2 + 4 + 8):
        await anext(answer)
    before = program.stats
    for _ in range(16):
        await anext(answer)
    after = program.stats
    costs = [after.interop_calls - before.interop_calls, after.lowerings - before.lowerings]
# Steps that nobody asked for are still under way: later tests count what is on the device.
await (await shared_device()).native.queue.onSubmittedWorkDone()
await asyncio.sleep(0.2)
return [found, costs]
"""


SAMPLED = {"temperature": 0.9, "top_k": 20, "top_p": 0.9, "repetition_penalty": 1.2, "seed": 3}


@pytest.mark.parametrize("asked", extent.some([SAMPLED], {}))
def test_steps_ahead_say_the_same(harness: Harness, asked: dict[str, float]) -> None:
    url = "/data/llm/llama_tiny_q4.pte"
    found, costs = python(
        harness, AHEAD, timeout=limits.CALL_SECONDS, url=url, asked=asked, breaks=BREAKS
    )
    for steps, taken, said, wanted, reason in found:
        assert said == wanted, f"{steps} steps ahead, broken off after {taken}"
        assert reason == ("steps_ahead is 1" if steps == 1 else None)
    # A batch of sixteen steps: its submission, and its result. The upload block is attached before.
    assert costs == [2, 0]


PACKED = """
prompt = [5, 9, 33, 7]
async def tokens_of(answer):
    return [token async for token in answer]

load = lambda device: webpte.llm.load(url, device=device, kv_cache=kind)
reference = await load("numpy")
async with await load("webgpu") as program, await load("webgpu") as other:
    found = []
    for one in (program, reference):
        generator = webpte.llm.Generator(one)
        first = await tokens_of(generator.generate(prompt, 8))
        data = await generator.save()
        found.append([first, await tokens_of(generator.continue_([3], 8))])
        for another in (other, reference):  # from the GPU to NumPy, and back
            generator = webpte.llm.Generator(another)
            await generator.restore(data)
            known = list(generator.context[4:])
            found.append([known, await tokens_of(generator.continue_([3], 8))])
    return found
"""


@pytest.mark.thorough  # tests/native/test_kv_cache.py has both, and a restored conversation
@pytest.mark.parametrize("kind", ["int8", "f16"])
def test_packed_caches_and_saved_conversations(harness: Harness, kind: str) -> None:
    given = {"url": "/data/llm/llama_tiny_q4.pte", "kind": kind}
    first, *others = python(harness, PACKED, timeout=limits.CALL_SECONDS, **given)
    assert len(first[0]) == len(first[1]) == 8
    assert others == [first] * 5


TOGETHER = """
import asyncio, js
from webpte import llm

reply = await js.fetch("/data/llm/llama_tiny_q4.pte")
data = (await reply.arrayBuffer()).to_bytes()
sampled = {"temperature": 0.9, "top_k": 20, "seed": 3}
jobs = [([5, 9, 33, 7], 6, {}), ([1] * 20, 3, sampled), ([8], 9, {})]

async def taken(answer):
    return [token async for token in answer]

reference = await webpte.load(data, device="numpy")
wanted = [await taken(llm.generate(reference, p, n, **asked)) for p, n, asked in jobs]
async with await webpte.load(data, strict=True) as program:
    async with llm.Scheduler(program, slots=2, chunk=16) as scheduler:
        answers = [scheduler.submit(p, n, **asked) for p, n, asked in jobs]
        found = await asyncio.gather(*map(taken, answers))
return [found, wanted]
"""


@pytest.mark.thorough
def test_several_answers_at_once_have_the_tokens_of_each_alone(harness: Harness) -> None:
    found, wanted = python(harness, TOGETHER, timeout=limits.CALL_SECONDS)
    assert found == wanted


PACED = """
import js
from webpte import llm

reply = await js.fetch("/data/llm/llama_tiny_q4.pte")
async with await webpte.load((await reply.arrayBuffer()).to_bytes(), strict=True) as program:
    answers = []
    for pace in (None, 4.0):
        answer = llm.generate(program, [5, 9, 33, 7], count, pace=pace)
        answers.append([token async for token in answer])
    return answers
"""
FRAMES = """() => {
    const frames = globalThis.drawn = [];
    const note = (now) => { frames.push(now); requestAnimationFrame(note); };
    requestAnimationFrame(note);
}"""


def test_frames_are_drawn_beside_a_paced_answer(harness: Harness) -> None:
    harness.page.evaluate(FRAMES)
    plain, paced = python(harness, PACED, timeout=limits.CALL_SECONDS, count=TOKENS)
    assert paced == plain
    drawn = harness.page.evaluate("globalThis.drawn")
    gaps = [after - before for before, after in itertools.pairwise(drawn)]
    assert len(gaps) > 10
    assert max(gaps) < limits.LONG_TASK_MS
    print(
        f"{len(gaps)} frames, {sorted(gaps)[len(gaps) // 2]:.1f} ms apart, {max(gaps):.0f} at most"
    )

"""A chat on WebGPU generates the same text as the references in CPython."""

from __future__ import annotations

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from support.harness import extent, limits
from support.page.chats import open_chat
from support.page.page import python
from webpte_host.harness.browser import Harness

# The same code there and here; `chat` is given.
SCRIPT = """
async def script(chat, asked):
    said = []
    for question in ("Hello!", "Häßlich 🙂?", "And then?"):
        reply = chat.send(question, 7, **asked)
        pieces = [piece async for piece in reply]
        said.append([pieces, reply.tokens, reply.ended, reply.stats.retokenized])
    reply = chat.regenerate(9, stop=["\\0never"])
    async for piece in reply:
        break
    said.append([piece, reply.text])
    said.append(await chat.send("Bye", 5, **asked))
    return [said, chat.messages]
"""

IN_PAGE = (
    SCRIPT
    + """
program = await webpte.load(url)
tokenizer = await webpte.text.load_tokenizer("/data/text/bytes/tokenizer.json")
chat = webpte.llm.Chat(program, tokenizer, "Be brief.")
try:
    return await script(chat, asked)
finally:
    program.close()
"""
)


async def in_cpython(asked: dict[str, float]) -> Any:
    scope: dict[str, Any] = {}
    exec(SCRIPT, scope)
    return await scope["script"](await open_chat(system="Be brief."), asked)


@pytest.mark.parametrize(
    "asked", extent.some([{"temperature": 0.9, "top_p": 0.9, "seed": 5}], {}), ids=str
)
def test_a_chat_in_the_page(harness: Harness, asked: dict[str, float]) -> None:
    with ThreadPoolExecutor(1) as pool:  # Playwright has an event loop running in this thread
        wanted = pool.submit(lambda: asyncio.run(in_cpython(asked))).result()
    url = "/data/llm/llama_tiny_q4.pte"
    found = python(harness, IN_PAGE, timeout=limits.CALL_SECONDS, url=url, asked=asked)
    assert found == wanted


TURNS = """
async def twenty(load):
    tokenizer = await webpte.text.load_tokenizer("/data/text/bytes/tokenizer.json")
    said, prompts = [], []
    async with await load() as program, await load() as other:
        chat = webpte.llm.Chat(program, tokenizer)
        for letter in "abcdefghijklmnopqrst":
            reply = chat.send(letter, 1)
            await reply
            said.append(reply.tokens[0])
            prompts.append(list(chat._prompt.tokens))
            assert reply.stats.reused_tokens >= len(prompts[-1]) - 6
        whole = []
        for prompt in prompts[4::5]:
            generation = webpte.llm.generate(other, prompt, 1)
            whole += [token async for token in generation]
    return [said, whole, prompts[-1]]

return [await twenty(lambda: webpte.load(url, **given)) for given in ({}, {"device": "numpy"})]
"""


@pytest.mark.thorough
def test_twenty_turns_are_one_prompt(harness: Harness) -> None:
    """Compare the cache after many turns with the cache after a single prompt."""
    url = "/data/llm/llama_tiny_q4.pte"
    on_gpu, on_numpy = python(harness, TURNS, timeout=limits.CALL_SECONDS, url=url)
    said, whole, prompt = on_gpu
    assert on_gpu == on_numpy
    assert said[4::5] == whole
    assert len(said) == 20
    assert len(prompt) > 100


TOLD = """
async def script(program, tokenizer):
    chat = webpte.llm.Chat(program, tokenizer)
    told = []
    for asked in ({}, {"temperature": 0.9, "seed": 5}, {"steps_ahead": 1}):
        reply = chat.send("Hello!", 6, logprobs=True, top=3, **asked)
        await reply
        tops = [[[c.token, c.logprob] for c in one.top] for one in reply.logprobs]
        told.append([[one.token, one.logprob] for one in reply.logprobs] + sum(tops, []))
    choices = ["yes", "no", "no way", "Häßlich 🙂"]
    picked = [
        await chat.send("Is it?", 20, choices=choices, **asked)
        for asked in ({}, {"temperature": 2.0, "seed": 3, "repetition_penalty": 1.3})
    ]
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
    picked.append(await chat.send("Well?", 20, schema=schema))
    chat.messages = []
    picked.append(await chat.send("When?", 20, regex="[0-2][0-9]:[0-5][0-9]( 🙂)?"))
    return [told, picked, chat.messages]

tokenizer = await webpte.text.load_tokenizer("/data/text/bytes/tokenizer.json")
found = []
for given in ({}, {"device": "numpy"}):
    async with await webpte.load(url, **given) as program:
        found.append(await script(program, tokenizer))
return found
"""


@pytest.mark.thorough
def test_what_is_told_and_what_is_allowed(harness: Harness) -> None:
    url = "/data/llm/llama_tiny_q4.pte"
    on_gpu, on_numpy = python(harness, TOLD, timeout=limits.CALL_SECONDS, url=url)
    assert on_gpu[1:] == on_numpy[1:]
    first, second, third, fourth = on_gpu[1]
    assert {first, second} <= {"yes", "no", "no way", "Häßlich 🙂"}
    assert third in ('{"ok": true}', '{"ok": false}')
    assert re.fullmatch("[0-2][0-9]:[0-5][0-9]( 🙂)?", fourth)
    for told, wanted in zip(on_gpu[0], on_numpy[0], strict=True):
        assert [token for token, _ in told] == [token for token, _ in wanted]
        assert [log for _, log in told] == pytest.approx([log for _, log in wanted], abs=1e-4)


OPENAI = """
import webpte_serve.openai
program = await webpte.load("/data/llm/llama_tiny_q4.pte")
tokenizer = await webpte.text.load_tokenizer("/data/text/bytes/tokenizer.json")
client = webpte_serve.openai.Client([webpte_serve.openai.Model("tiny", program, tokenizer)])
messages = [{"role": "user", "content": "Hello!"}]
given = {"model": "tiny", "messages": messages, "temperature": 0, "max_tokens": 7}
try:
    answer = await client.chat.completions.create(**given)
    chunks = await client.chat.completions.create(**given, stream=True)
    deltas = [chunk["choices"][0]["delta"].get("content", "") async for chunk in chunks]
    asked = {"name": "c", "schema": {"enum": ["red", "blue"]}}
    form = {"type": "json_schema", "json_schema": asked}
    colour = await client.chat.completions.create(**given, response_format=form)
    return [
        *(one["choices"][0]["message"]["content"] for one in (answer, colour)), "".join(deltas)
    ]
finally:
    program.close()
"""


def test_openais_api_in_the_page(harness: Harness) -> None:
    async def said() -> str:
        return await (await open_chat()).send("Hello!", 7)

    with ThreadPoolExecutor(1) as pool:
        wanted = pool.submit(lambda: asyncio.run(said())).result()
    text, colour, streamed = python(harness, OPENAI, timeout=limits.CALL_SECONDS)
    assert (text, streamed) == (wanted, wanted)
    assert colour in ('"red"', '"blue"')

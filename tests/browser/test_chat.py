"""A chat on WebGPU says what it says on the references in CPython, with the same tokenizer."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from support import limits
from support.chats import open_chat
from support.page import python
from webpte_host.browser import Harness

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


@pytest.mark.parametrize("asked", [{}, {"temperature": 0.9, "top_p": 0.9, "seed": 5}], ids=str)
def test_a_chat_in_the_page(harness: Harness, asked: dict[str, float]) -> None:
    with ThreadPoolExecutor(1) as pool:  # Playwright has an event loop running in this thread
        wanted = pool.submit(lambda: asyncio.run(in_cpython(asked))).result()
    url = "/data/llm/llama_tiny_q4.pte"
    found = python(harness, IN_PAGE, timeout=limits.CALL_SECONDS, url=url, asked=asked)
    assert found == wanted

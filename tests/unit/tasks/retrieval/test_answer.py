"""Answers from documents: numbered passages that fit into the context, and their citations."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import webpte
from support.harness.embedders import open_retrieval
from support.write.pdf_writer import write_pdf
from webpte.errors import InputError
from webpte.llm import Chat
from webpte.tasks.retrieval import CitedReply, Passage, answer
from webpte.tasks.retrieval.answer import place_of, prompt_of

PAGES = [["The forecast says rain."], ["She laughed about the fox today."]]
PASSAGE = Passage("The fox is quick.", 0.5, "a.pdf", 3, "", 10, 27)


async def open_stories(root: Path, **options: Any) -> Chat:
    folder = root / "web" / "samples"
    program = await webpte.llm.load(folder / "stories.pte", device="numpy", **options)
    config = folder / "stories.tokenizer_config.json"
    tokenizer = await webpte.text.load_tokenizer(folder / "stories.tokenizer.json", config=config)
    return Chat(program, tokenizer)


def test_an_answer_cites_the_page(root: Path) -> None:
    async def run() -> None:
        async with await open_retrieval() as task:
            chat = await open_stories(root)
            with pytest.raises(InputError, match="no documents"):
                await answer(chat, task.index, "Who laughed?")
            await task.index.add(write_pdf(PAGES), "pages.pdf")
            question = "She laughed about the fox today."
            with pytest.raises(InputError, match="has one"):
                await answer(chat, task.index, question, must_cite=True, choices=["a"])
            reply = await answer(
                chat, task.index, question, passages=1, must_cite=True, max_new_tokens=30
            )
            pieces = [piece async for piece in reply]
            assert "".join(pieces) == reply.text == await reply
            assert re.match(r"[^\[\].!?]+\[1\]", reply.text)
            (cited,) = reply.citations
            assert (cited.number, cited.passage.document, cited.passage.page) == (1, "pages.pdf", 2)
            assert cited.passage == reply.passages[0]
            assert chat.messages[0]["content"] == prompt_of(question, reply.passages)

    asyncio.run(run())


def test_passages_are_cut_to_the_context(root: Path) -> None:
    async def run() -> None:
        async with await open_retrieval() as task:
            chat = await open_stories(root)
            text = " ".join(f"The robot number {at} sings about the meadow." for at in range(90))
            await task.add({"name": "songs.txt", "text": text})
            reply = await answer(chat, task.index, "Who sings?", passages=50, max_new_tokens=2)
            assert 1 < len(reply.passages) < 50
            whole = task.index.documents["songs.txt"].text
            assert all(whole[one.start : one.end] == one.text for one in reply.passages)
            await reply
            fewer = await answer(
                await open_stories(root, max_context=128), task.index, "Who?", max_new_tokens=9
            )
            assert 1 <= len(fewer.passages) < len(reply.passages)
            with pytest.raises(InputError, match="no room for the question"):
                await answer(chat, task.index, "Who sings?" * 300)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("Yes [2], and no [1]. Yes [2].", [2, 1]),
        ("Both [1, 2], [1;3].", [1, 2, 3]),
        ("None: [0], [4], [], [x], [12345], 1, (1)", []),
    ],
)
def test_citations(text: str, numbers: list[int]) -> None:
    passages = [replace(PASSAGE, document=str(at)) for at in range(3)]
    reply: Any = SimpleNamespace(text=text)
    found = CitedReply(reply, passages).citations
    assert [(one.number, one.passage.document) for one in found] == [
        (number, str(number - 1)) for number in numbers
    ]


def test_places_for_people() -> None:
    assert place_of(PASSAGE) == "a.pdf, page 3"
    assert place_of(replace(PASSAGE, page=None)) == "a.pdf"
    assert place_of(replace(PASSAGE, page=None, heading="One > Two")) == "a.pdf, One > Two"

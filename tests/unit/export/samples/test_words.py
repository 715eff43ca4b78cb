"""The sample `words`: texts with words in common are near, and its views open."""

from __future__ import annotations

import asyncio
import json
import re

import pytest

import webpte
from page.app import App
from support.page.fake_page import FakeBrowser, drive
from webpte.llm.text import SentenceEncoder, Tokenizer
from webpte.tasks.files import ModelFiles
from webpte.tasks.retrieval.retrieval_task import Retrieval
from webpte_host.base.layout import ROOT
from webpte_host.serving.gallery import gallery

SAMPLES = ROOT / "web" / "samples"
CARDS = json.loads(gallery(ROOT / "web", None))
LINES = (
    "The cat sleeps on the sofa all day.",
    "Our shop is open from nine to five.",
    "Two dogs are playing in the garden.",
    "How to clean the filter: rinse it under warm water.",
)


async def words_tokenizer() -> Tokenizer:
    return await webpte.text.load_tokenizer(SAMPLES / "words.tokenizer.json")


@pytest.mark.parametrize(
    ("query", "best"),
    [
        ("a SLEEPING cat?", 0),
        ("When do the shops open?", 1),
        ("Which dog plays in a garden?", 2),
        ("cleaning filters with water", 3),
    ],
)
def test_lines_with_words_in_common_come_first(query: str, best: int) -> None:
    async def ranked() -> list[tuple[float, int]]:
        async with await webpte.load(SAMPLES / "words.pte", device="numpy") as program:
            encoder = SentenceEncoder(program, await words_tokenizer())
            return [(one.score, one.at) for one in await encoder.rank(query, LINES)]

    (first, at), (second, _), *_ = asyncio.run(ranked())
    assert at == best
    assert first > 0.2 > second


def test_texts_that_are_equal_but_for_common_words_are_equal() -> None:
    async def found() -> list[float]:
        async with await webpte.load(SAMPLES / "words.pte", device="numpy") as program:
            encoder = SentenceEncoder(program, await words_tokenizer())
            texts = ["Café in the garden", "a cafe, and our garden!", "of the", ""]
            return [one.score for one in await encoder.rank(texts[0], texts)]

    scores = asyncio.run(found())
    assert scores[:2] == pytest.approx([1, 1], abs=1e-6)
    assert scores[2:] == [0, 0]


def test_documents_are_found() -> None:
    async def found() -> str:
        async with await webpte.load(SAMPLES / "words.pte", device="numpy") as program:
            task = Retrieval(ModelFiles(program, "words", await words_tokenizer()))
            for at, line in enumerate(LINES):
                await task.add({"name": str(at), "text": line})
            best: str = (await task("warm water for a filter", top_k=1))[0]["document"]
            return best

    assert asyncio.run(found()) == "3"


def test_rank_and_documents_open() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await app.receive({"act": "hello", "cards": CARDS})
        await app.receive({"act": "card", "name": "words"})
        assert browser.other["address"] == "?model=words&view=rank"
        assert {"rank", "documents"} <= {name for name, _ in browser.other["tabs"]}
        await asyncio.sleep(0.01)  # the tokenizer is read
        assert "Which dog plays in a garden?" in browser.html["view-rank"]
        fields = {"query": "Which dog plays in a garden?", "lines": "\n".join(LINES)}
        await app.receive({"act": "rank:rank", "fields": fields})
        best = re.search('class="rank-text">(.*?)</span>', browser.html["view-rank"])
        assert best is not None
        assert re.sub("</?mark>", "", best[1]) == LINES[2]
        assert re.findall("<mark>(.*?)</mark>", best[1]) == ["dogs", "garden"]

    drive(script)

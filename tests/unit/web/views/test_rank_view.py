"""The rank view: an encoder's vectors decide, and the fields keep their typed text."""

from __future__ import annotations

import asyncio
import re
from html import unescape
from typing import Any

import numpy as np
import pytest

import webpte
from page.app import App
from page.shared.persistence.codec import IdTokenizer, id_codec
from support.harness.virtual_time import run_virtually
from support.page.fake_page import SAMPLES, FakeBrowser, File, drive, open_sample
from support.write.pte_writer import GraphWriter, write_pte
from webpte.engine.files.json_reader import read_json
from webpte.errors import ExecutionError, InputError
from webpte.llm.text import SentenceEncoder, encodes_sentences

SENTENCES, LENGTH, WORDS, WIDTH = 3, 5, 7, 8


def encoder_pte(word: float = 1) -> bytes:
    """Build an encoder: the mean of its words' vectors; word 0 is padding, word n points in
    direction n."""
    table = np.zeros((WORDS, WIDTH), np.float32)
    table[np.arange(1, WORDS), np.arange(1, WORDS)] = word
    g = GraphWriter()
    tokens, weights = g.tensor((SENTENCES, LENGTH), "int32"), g.tensor(table.shape, constant=table)
    words = g.op("aten.embedding.default", weights, tokens, g.tensor((SENTENCES, LENGTH, WIDTH)))
    mean = g.op(
        "aten.mean.dim", words, g.int_list([1]), g.bool_(False), g.tensor((SENTENCES, WIDTH))
    )
    g.inputs(tokens)
    g.outputs(mean)
    return write_pte(g)


def test_no_texts_have_no_vectors_and_what_is_not_finite_is_told() -> None:
    async def script() -> None:
        async with await webpte.load(encoder_pte(), device="numpy") as program:
            encoder = SentenceEncoder(program, IdTokenizer(WORDS))
            assert (await encoder.embed([])).shape == (0, WIDTH)
            assert await encoder.rank("1", []) == []
        broken = encoder_pte(word=np.nan)
        async with await webpte.load(broken, device="numpy", name="broken.pte") as program:
            encoder = SentenceEncoder(program, IdTokenizer(WORDS))
            with pytest.raises(ExecutionError, match=r"broken\.pte returned NaN"):
                await encoder.rank("1 2", ["3"])

    run_virtually(script())


def text_of(browser: FakeBrowser) -> str:
    return unescape(re.sub("<[^>]*>", " ", browser.html["view-rank"]))


def ranked(browser: FakeBrowser) -> list[tuple[str, str]]:
    pattern = r'class="rank-text">(.*?)</span><span class="share number">(.*?)</span>'
    return re.findall(pattern, browser.html["view-rank"])


def test_texts_are_ranked_in_batches_of_any_size() -> None:
    """Scores are cosines of common words, for more sentences than a batch, and longer ones."""

    async def script() -> None:
        async with await webpte.load(encoder_pte(), device="numpy") as program:
            done: list[tuple[int, int]] = []
            encoder = SentenceEncoder(program, IdTokenizer(WORDS))
            texts = ["3 4", "1", "1 2", "5 6 3 4 5 1 1"]
            found = await encoder.rank("1 2", texts, lambda *at: done.append(at))
            assert [one.text for one in found] == ["1 2", "1", "3 4", "5 6 3 4 5 1 1"]
            assert [one.at for one in found] == [2, 1, 0, 3]
            wanted = [1, 2**-0.5, 0, 0]
            np.testing.assert_allclose([one.score for one in found], wanted, atol=1e-6)
            assert done == [(3, 5), (5, 5)]
            assert await encoder.rank("1", []) == []

    run_virtually(script())
    digits = run_virtually(webpte.inspect(SAMPLES / "digits.pte"))
    assert not encodes_sentences(digits)


def test_what_is_no_encoder_is_refused() -> None:
    async def script() -> None:
        async with await webpte.load(SAMPLES / "digits.pte", device="numpy") as program:
            with pytest.raises(InputError, match=r"digits\.pte is not a sentence encoder"):
                SentenceEncoder(program, IdTokenizer(WORDS))

    run_virtually(script())


def test_lines_are_ranked_on_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    async def beside(source: Any, browser: Any) -> Any:
        return await id_codec(WORDS)

    monkeypatch.setattr("page.views.rank.panel.find_codec", beside)

    async def script(app: App, browser: FakeBrowser) -> None:
        await app.receive({"act": "open-file", "files": [File("words.pte", encoder_pte())]})
        assert "rank" in [name for name, _ in browser.other["tabs"]]
        await app.receive({"act": "view", "name": "rank"})
        await asyncio.sleep(0.01)  # the tokenizer is found beside
        assert "was not found" not in text_of(browser)
        fields = {"query": "1 2", "lines": "3 4\n\n  1 2 3\n<b>"}
        await app.receive({"act": "rank:rank", "fields": fields})
        assert "'<b>' is not a token" in unescape(browser.html["error"])
        fields["lines"] = "3 4\n\n  1 2 3\n1"
        await app.receive({"act": "rank:rank", "fields": fields})
        assert ranked(browser) == [("1 2 3", "0.82"), ("1", "0.71"), ("3 4", "0.00")]
        assert browser.text["status"].startswith("3 lines ranked in")
        await open_sample(app, "digits.pte")
        assert "rank" not in [name for name, _ in browser.other["tabs"]]

    drive(script)


def test_nothing_is_said_to_be_missing_while_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fields come with the card's query, which then stays."""
    read = asyncio.Event()

    async def beside(source: Any, browser: Any) -> Any:
        await read.wait()
        return await id_codec(WORDS)

    monkeypatch.setattr("page.views.rank.panel.find_codec", beside)

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app, "words.pte")
        await app.receive({"act": "view", "name": "rank"})
        await asyncio.sleep(0.01)
        assert "Reading the tokenizer …" in text_of(browser)
        assert "No tokenizer" not in text_of(browser)
        assert "<form" not in browser.html["view-rank"]  # its query is not known yet
        read.set()
        await asyncio.sleep(0.01)
        assert "tokenizer" not in text_of(browser)
        assert "<form" in browser.html["view-rank"]

    drive(script)


CARD = {**read_json(SAMPLES / "words.json", ValueError), "folder": "samples/"}


def test_a_card_says_what_makes_texts_near() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await app.receive({"act": "hello", "cards": [CARD]})
        await app.receive({"act": "card", "name": "words"})
        await app.receive({"act": "view", "name": "rank"})
        await asyncio.sleep(0.01)
        assert "Rank sentences by words in common" in text_of(browser)
        assert 'value="Which dog plays in a garden?"' in browser.html["view-rank"]
        fields = {"query": "dogs", "lines": "a dog\nthe sun"}
        await app.receive({"act": "rank:rank", "fields": fields})
        assert "means the same" not in text_of(browser)
        await app.receive({"act": "view", "name": "documents"})
        await asyncio.sleep(0.01)
        await app.receive({"act": "open-file", "files": [File("a.md", b"The sun is hot.")]})
        await asyncio.sleep(0.01)
        assert 'placeholder="Search by words in common"' in browser.html["view-documents"]
        await app.receive({"act": "open-file", "files": [File("own.pte", encoder_pte())]})
        await app.receive({"act": "view", "name": "rank"})
        await asyncio.sleep(0.01)
        assert "Rank sentences by meaning" in text_of(browser)

    drive(script)


def test_without_a_tokenizer_it_asks_for_one() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await app.receive({"act": "open-file", "files": [File("words.pte", encoder_pte())]})
        await app.receive({"act": "view", "name": "rank"})
        await asyncio.sleep(0.01)
        assert "No tokenizer.json was found next to the program" in text_of(browser)
        assert re.search("<button[^>]*disabled[^>]*>Rank", browser.html["view-rank"])

    drive(script)

"""The documents view: documents are added, searched, kept, and asked with citations."""

from __future__ import annotations

import asyncio
import re
from html import unescape
from typing import Any

import pytest

from page.app import App
from page.browser import Source
from page.shared.persistence.codec import load_codec
from support.harness.task_cases import models_folder
from support.page.fake_page import SAMPLES, Engine, FakeBrowser, File, drive, drop
from support.page.gallery_models import Encoder
from support.page.task_page import name_task
from support.write.pdf_writer import write_pdf
from webpte.engine.files.json_reader import read_json
from webpte.tasks.retrieval.index import Index

TOKENIZER = models_folder() / "vectors" / "tokenizer.json"
STORIES = {**read_json(SAMPLES / "stories.json", ValueError), "folder": "samples/"}


PTE = Encoder(2000).pte()  # with random weights: equal texts are near


@pytest.fixture(autouse=True)
def _tokenizer(monkeypatch: pytest.MonkeyPatch) -> None:
    async def beside(source: Any, browser: Any) -> Any:
        return await load_codec({"tokenizer": Source("t.json", 0, TOKENIZER)}, browser)

    monkeypatch.setattr("page.views.documents.panel.find_codec", beside)


def text_of(browser: FakeBrowser, part: str = "view-documents") -> str:
    return unescape(re.sub("<[^>]*>", " ", browser.html[part]))


async def open_view(app: App) -> None:
    await drop(app, File("words.pte", PTE))
    await app.receive({"act": "view", "name": "documents"})
    await asyncio.sleep(0.01)


async def search(app: App, query: str) -> None:
    await app.receive({"act": "documents:query", "value": query})
    await asyncio.sleep(0.01)


def test_programs_of_another_task_have_no_documents() -> None:
    """A program that fills gaps in texts has the form of an encoder."""
    folder = models_folder() / "gaps"
    names = ("model.pte", name_task("gaps", "fill-mask"), "tokenizer.json", "config.json")

    async def script(app: App, browser: FakeBrowser) -> None:
        await drop(app, *(File(name, (folder / name).read_bytes()) for name in names))
        tabs = [name for name, _ in browser.other["tabs"]]
        assert "task" in tabs
        assert "documents" not in tabs

    drive(script)


def test_documents_are_searched_shown_and_kept() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_view(app)
        assert "documents" in [name for name, _ in browser.other["tabs"]]
        pdf = write_pdf([["The dog is lazy."], ["It will", "rain."]])
        await drop(app, File("numbers.pdf", pdf), File("more.txt", b"She laughed."))
        assert browser.text["status"] == "Added 2 documents with 3 passages"
        assert "2 pages · 2 passages" in text_of(browser)
        await search(app, "It will\nrain.")
        found = text_of(browser, "documents-found")
        assert found.split("numbers.pdf, page 2")[1].split()[:4] == ["1.00", "It", "will", "rain"]
        assert "3 passages searched in" in found
        await app.receive({"act": "documents:show", "found": "0"})
        assert "<mark>It will\nrain.</mark>" in browser.html["documents-shown"]
        assert browser.other["reveal"] == "documents-shown"
        (address,) = [one for one in browser.library.files if "documents" in one]
        await drop(app, File("sum.pte", (SAMPLES / "add.pte").read_bytes()))
        assert "documents" not in [name for name, _ in browser.other["tabs"]]
        await open_view(app)
        await search(app, "She laughed.")
        assert "more.txt" in text_of(browser, "documents-found")
        await app.receive({"act": "documents:remove", "name": "numbers.pdf"})
        await asyncio.sleep(0.01)
        assert "numbers.pdf" not in text_of(browser)
        await app.receive({"act": "undo"})
        await asyncio.sleep(0.01)
        assert "numbers.pdf" in text_of(browser)
        for name in ("numbers.pdf", "more.txt"):
            await app.receive({"act": "documents:remove", "name": name})
        assert address not in browser.library.files

    drive(script)


def test_what_is_found_can_be_chosen_while_the_next_search_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain, gate = Index.search, asyncio.Event()

    async def late(self: Index, *given: Any) -> Any:
        await gate.wait()
        return await plain(self, *given)

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_view(app)
        await drop(app, File("more.txt", b"She laughed."))
        await search(app, "She laughed.")
        monkeypatch.setattr(Index, "search", late)
        await search(app, "She laughed. And")
        await app.receive({"act": "documents:show", "found": "0"})
        assert "<mark>She laughed.</mark>" in browser.html["documents-shown"]
        gate.set()
        await asyncio.sleep(0.01)

    drive(script)


def test_what_cannot_be_read_is_told_and_the_rest_is_added() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_view(app)
        await drop(
            app, File("bad.pdf", b"%PDF-1.4 no more"), File("good.md", b"# Head\nIt will rain.")
        )
        assert "bad.pdf is a broken PDF" in unescape(browser.html["error"])
        assert "good.md" in text_of(browser)
        browser.library.full = True
        await drop(app, File("other.txt", b"The fox."))
        assert "A reload loses these documents" in text_of(browser)

    drive(script)


def test_adding_can_be_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    # Every step is drawn, however quick they are.
    monkeypatch.setattr("page.core.throttle.Throttle.ready", lambda *_, **__: True)

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_view(app)
        text = " ".join(f"The dog said {at}." for at in range(400))
        adding = asyncio.ensure_future(drop(app, File("long.txt", text.encode())))
        while "passage" not in browser.html.get("view-documents", ""):
            await asyncio.sleep(0)
        await app.receive({"act": "documents:cancel"})
        await adding
        assert browser.text["status"].startswith("Cancelled")
        assert "long.txt" not in text_of(browser)

    drive(script)


def test_a_model_that_cannot_answer_is_told_beside_the_choice() -> None:
    able = {**STORIES, "name": "able", "title": "Able", "limits": ""}

    def chosen(browser: FakeBrowser) -> str:
        return re.findall(r'<option value="(\w+)" selected>', browser.html["view-documents"])[0]

    async def script(app: App, browser: FakeBrowser) -> None:
        await app.receive({"act": "hello", "cards": [STORIES, able]})
        await open_view(app)
        assert browser.html["view-documents"].count("<button") == 0  # files can be added
        assert "<form" not in browser.html["view-documents"]
        await drop(app, File("a.md", b"The sun is hot."))
        assert chosen(browser) == "able"  # though the other comes first
        assert "cannot answer" not in text_of(browser)
        await app.receive({"act": "documents:model", "value": "stories"})
        assert chosen(browser) == "stories"
        assert "Little stories cannot answer questions about documents" in text_of(browser)
        assert "install" not in text_of(browser)
        await app.receive({"act": "documents:model", "value": "able"})
        assert "cannot answer" not in text_of(browser)

    async def alone(app: App, browser: FakeBrowser) -> None:
        await app.receive({"act": "hello", "cards": [STORIES]})
        await open_view(app)
        await drop(app, File("a.md", b"The sun is hot."))
        assert "Ask anyway" in text_of(browser)
        assert "cannot answer questions about documents" in text_of(browser)
        assert "Install one that can: python3 serve.py models add" in text_of(browser)

    drive(script)
    drive(alone)


def test_a_question_is_answered_with_citations() -> None:
    engine = Engine()

    async def script(app: App, browser: FakeBrowser) -> None:
        await app.receive({"act": "hello", "cards": [STORIES]})
        await open_view(app)
        fields = {"question": "It will rain.", "model": "stories"}
        await app.receive({"act": "documents:ask", "fields": fields})
        assert browser.text["status"] == "Add a document"
        await drop(app, File("numbers.pdf", write_pdf([["The dog is lazy."], ["It will rain."]])))
        await app.receive({"act": "documents:ask", "fields": {**fields, "question": " "}})
        assert browser.text["status"] == "Write a question"
        await app.receive({"act": "documents:must_cite"})
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("page.views.documents.answering._MOST_TOKENS", 40)
            await app.receive({"act": "documents:ask", "fields": fields})
        assert re.match(r"Answered with \d citation", browser.text["status"])
        numbers = re.findall(r'data-cited="(\d)"', browser.html["view-documents"])
        await app.receive({"act": "documents:show", "cited": numbers[0]})
        page = 2 if numbers[0] == "1" else 1
        assert f"numbers.pdf, page {page}" in text_of(browser, "documents-shown")
        assert len(engine.programs) == 2
        await drop(app, File("sum.pte", (SAMPLES / "add.pte").read_bytes()))
        assert len(engine.closed) == 2  # the encoder and the language model

    drive(script, engine=engine)

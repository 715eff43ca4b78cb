"""The documents view: search in one's own documents, and answers from them with citations."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from time import perf_counter
from typing import Any

from page.browser import Message
from page.core.session import Session
from page.core.state import AppState, Change
from page.core.throttle import Throttle
from page.shared.cards.cards import Card
from page.shared.html.markup import Html, h, render
from page.shared.html.tokenizer_note import reading_note, tokenizer_note
from page.shared.html.units import ms_text, plural
from page.shared.persistence.codec import Codec, files_by_kind, find_codec, load_codec
from page.views.documents import markup
from page.views.documents.answering import (
    Answered,
    LanguageModel,
    chosen_model,
    model_cards,
    open_model,
)
from page.views.documents.collection import Collection
from page.views.documents.markup import Adding
from page.views.view import TEXT_ENCODER, Panel, View
from webpte.errors import SourceError, WebpteError
from webpte.tasks.retrieval import Document, Passage

_RESULTS = 8
_ADDING, _OPENING, _ANSWERING = "adding documents", "opening the language model", "answering"
_STORED = "documents:model"


class DocumentsPanel(Panel):
    def __init__(self, view: View, state: AppState) -> None:
        super().__init__(view, state)
        self._collection: Collection | None = None
        self._opening = False
        self._problem = ""  # why there is no tokenizer
        self._adding: Adding | None = None
        self._query = ""
        self._found: list[Passage] = []
        self._summary = ""
        self._search: asyncio.Task[None] | None = None
        self._model: LanguageModel | None = None
        self._asked: Answered | None = None
        self._progress = ""  # of opening the language model
        self._must_cite = False
        self._shown: Passage | None = None
        self._throttle = Throttle()

    # ---- the session

    def forget(self) -> None:
        """Close what belongs to the old encoder; its documents are in the library."""
        if self._collection is not None:
            self._collection.close()
        if self._model is not None:
            self._model.program.close()
        self._collection = self._model = self._adding = self._asked = self._shown = None
        self._opening, self._problem, self._search = False, "", None
        self._found, self._summary, self._query = [], "", ""

    async def _open(self, session: Session) -> None:
        """Find the tokenizer of the encoder, then the documents of the last visit."""
        try:
            codec = await find_codec(session.source, self.state.browser)
        except WebpteError as error:
            codec, self._problem = None, str(error)
        if codec is not None:
            await self._use(session, codec)
        if session is self.state.session:
            self._problem = self._problem or "No tokenizer.json was found next to the program."
            self.draw()

    async def _use(self, session: Session, codec: Codec) -> None:
        made = await Collection.open(session, codec, self.state.browser)
        if session is not self.state.session or self._collection is not None:
            made.close()
            return
        self._collection = made

    async def on_tokenizer(self, message: Message) -> None:
        session = self.state.idle_session()
        if session is not None:
            sources = [self.state.browser.source(file) for file in message["files"]]
            codec = await load_codec(files_by_kind(sources), self.state.browser)
            await self._use(session, codec)
            self.draw()

    # ---- documents

    def accepts(self, name: str) -> bool:
        """Take PDF and Markdown; of an open encoder also text, which else has labels."""
        name = name.lower()
        is_text = name.endswith(".txt") and TEXT_ENCODER.met(self.state)
        return is_text or name.endswith(tuple(set(markup.ENDINGS) - {".txt"}))

    async def accept_files(self, files: Sequence[Any]) -> None:
        session = self.state.session
        if session is not None and self._collection is None:
            self._opening = True
            await self._open(session)
        await self.on_add({"files": files})

    async def on_add(self, message: Message) -> None:
        session, collection = self.state.idle_session(), self._collection
        files = list(message["files"])
        if session is None or collection is None or not files:
            return
        sources = [self.state.browser.source(file) for file in files]
        given = [(source.data, source.name) for source in sources]
        self.state.show(error="")
        self.state.tell("Adding documents", "busy")
        await self.state.do(session, self._add(collection, given), _ADDING, at_once=True)
        self.draw()

    async def _add(self, collection: Collection, given: Sequence[tuple[Any, str | None]]) -> None:
        """Add documents, one after the other; an unreadable document does not stop the others."""
        added, passages, failed = 0, 0, list[Exception]()
        try:
            for source, name in given:
                self._show_adding(Adding(name or "the document"))
                try:
                    before = len(collection.index)
                    await collection.add(source, name, self._progress_of(name or ""))
                    added, passages = added + 1, passages + len(collection.index) - before
                except WebpteError as error:
                    failed.append(error)
            self._adding = None
            if added:
                await self._keep(collection)
        except asyncio.CancelledError:
            if added:
                self.start(self._keep(collection), "keeping the documents")
            self.state.tell("Cancelled. Earlier files were added.")
            raise
        finally:
            self._adding = None
            self._search_again()
        told = f"Added {plural(added, 'document')} with {plural(passages, 'passage')}"
        self.state.tell(told if added else "No document was added", "good" if added else "bad")
        if failed:
            self.state.show_error(failed[0], _ADDING)

    def _progress_of(self, name: str) -> Any:
        def progress(done: int, total: int) -> None:
            self._show_adding(Adding(name, done, total))

        return progress

    def _show_adding(self, adding: Adding) -> None:
        self._adding = adding
        if self._throttle.ready(force=not adding.total):
            self.draw()

    async def _keep(self, collection: Collection) -> None:
        """Keep the documents in the library; without room there, they are there until a reload."""
        try:
            await collection.keep()
        except SourceError as error:
            collection.problem = f"A reload loses these documents: {error}"

    def on_cancel(self, message: Message) -> None:
        session = self.state.session
        if session is not None and session.runner.doing in (_ADDING, _OPENING, _ANSWERING):
            session.runner.cancel()

    async def on_remove(self, message: Message) -> None:
        session, collection, name = self.state.idle_session(), self._collection, message["name"]
        if session is None or collection is None or name not in collection.index.documents:
            return
        document = collection.index.documents[name]
        await collection.index.remove(name)
        await self._keep(collection)
        if self._shown is not None and self._shown.document == name:
            self._shown = None
        self._found = [one for one in self._found if one.document != name]
        self._search_again()
        self.draw()
        self.state.undo.offer(f"Removed {name}.", lambda: self._add_again(document))

    async def _add_again(self, document: Document) -> None:
        session, collection = self.state.idle_session(), self._collection
        if session is not None and collection is not None:
            work = self._add(collection, [(document, document.name)])
            await self.state.do(session, work, _ADDING, at_once=True)
            self.draw()

    # ---- search

    def on_query(self, message: Message) -> None:
        self._query = str(message["value"])
        self._search_again()

    def _search_again(self) -> None:
        """Search for the typed text, unless a search is under way, which goes on with it."""
        if self._search is None or self._search.done():
            self._search = self.start(self._find(), "searching")

    async def _find(self) -> None:
        collection, query = self._collection, None
        while collection is not None and collection is self._collection and query != self._query:
            query, started = self._query, perf_counter()
            found, summary = list[Passage](), ""
            if query.strip() and len(collection.index):
                if collection.index.vectors.lost:
                    await collection.restore()
                found = await collection.index.search(query, _RESULTS)
                taken = ms_text(1000 * (perf_counter() - started))
                summary = f"{plural(len(collection.index), 'passage')} searched in {taken}"
            self._found, self._summary = found, summary  # until then, those shown can be chosen
            self.state.browser.show(html={markup.FOUND: self._found_view()})
            await asyncio.sleep(0)

    # ---- answers

    def on_model(self, message: Message) -> None:
        """Choose the language model that answers."""
        self.state.store.write(_STORED, str(message["value"]))
        self.draw()

    async def on_ask(self, message: Message) -> None:
        fields = message["fields"]
        question, name = str(fields["question"]).strip(), str(fields["model"])
        session, collection = self.state.idle_session(), self._collection
        card = model_cards(self.state).get(name)
        if session is None or collection is None or card is None:
            return
        missing = [] if len(collection.index) else ["add a document"]
        missing += [] if question else ["write a question"]
        if missing:
            self.state.tell(" and ".join(missing).capitalize(), "bad")
            return
        self.state.store.write(_STORED, name)
        self.state.show(error="")
        self._asked = Answered(question)

        def work() -> Any:
            return self._answer(session, collection, question)

        await self.state.do(session, self._open_model(session, card), _OPENING, at_once=True)
        if self._model is not None and self._model.card is card and self._is_here(session):
            await self.state.do(session, work(), _ANSWERING, redo=work)
        if not self._is_here(session):
            return
        if session.runner.stopping:
            self.state.tell("Stopped")
        self._progress = ""
        if self._asked is not None:
            self._asked.ended = True
        self.draw()

    def _is_here(self, session: Session) -> bool:
        return session is self.state.session

    async def _answer(self, session: Session, collection: Collection, question: str) -> None:
        asked = self._asked = Answered(question)
        model, runner = self._model, session.runner
        assert model is not None  # as on_ask has seen
        self.state.tell("Answering", "busy")
        self.draw()
        if collection.index.vectors.lost:
            await collection.restore()
        index = collection.index
        await model.answer(index, asked, self._must_cite, self._hear, lambda: runner.stopping)
        asked.ended = True
        if not runner.stopping:
            self.state.tell(f"Answered with {plural(len(asked.citations), 'citation')}")

    async def _open_model(self, session: Session, card: Card) -> None:
        """Open the language model unless it is open; another model is closed."""
        model = self._model
        if model is not None and model.card is card and not self._is_lost(model):
            return
        self.state.tell(f"Opening {card.title}", "busy")
        self.draw()
        if model is not None:
            self._model = None
            model.program.close()

        def progress(stage: str, done: int, total: int) -> None:
            share = f", {done / total:.0%}" if total else ""
            self._progress = f"Opening {card.title}: {stage}{share}"
            self._hear()

        made = await open_model(self.state, card, session.device, progress)
        if not self._is_here(session):
            made.program.close()
            return
        self._model, self._progress = made, ""

    @staticmethod
    def _is_lost(model: LanguageModel) -> bool:
        return model.program.device_info.kind != "numpy" and model.program.device.lost

    def _hear(self) -> None:
        if self._throttle.ready():
            self.state.browser.show(html={markup.ANSWER: self._answer_view(True)})

    def on_must_cite(self, message: Message) -> None:
        self._must_cite = not self._must_cite

    def on_show(self, message: Message) -> None:
        """Show a passage that was found, or is cited, in its page."""
        if "cited" in message and self._asked is not None:
            chosen, at = self._asked.passages, int(message["cited"]) - 1
        else:
            chosen, at = tuple(self._found), int(message["found"])
        if 0 <= at < len(chosen):
            self._shown = chosen[at]
            self.state.browser.show(html={markup.SHOWN: self._shown_view()}, reveal=markup.SHOWN)

    def on_close(self, message: Message) -> None:
        self._shown = None
        self.state.browser.show(html={markup.SHOWN: ""})

    # ---- drawing

    def draw(self) -> None:
        session, collection = self.state.session, self._collection
        if session is None:
            return
        if collection is None:
            if not self._opening:
                self._opening = True
                self.start(self._open(session), "opening the documents")
            self.show(self._missing_view())
            return
        busy = session.runner.busy
        cards = model_cards(self.state)
        chosen = chosen_model(cards, str(self.state.store.read(_STORED) or ""))
        said = self._answer_view(busy and session.runner.doing in (_OPENING, _ANSWERING))
        searched = (
            self._list_view(busy),
            markup.search_view(self._query, session.near, self._found_view(), self.act),
        )
        asked = (
            markup.ask_view(cards, chosen, self._must_cite, said, self.act, busy),
            h("div", self._shown_view(), id=markup.SHOWN, tabindex="-1"),
        )
        shown = (searched, asked) if len(collection.index) else (searched[:1],)
        self.show(render(h("div", one, class_="documents-part") for one in shown))

    def _missing_view(self) -> Html:
        if not self._problem:
            return reading_note()
        note = tokenizer_note(self._problem, self.act("tokenizer"))
        return h("section", h("h2", "Documents"), note, class_="card")

    def _list_view(self, busy: bool) -> Html:
        collection = self._collection
        assert collection is not None  # as draw has seen
        return markup.list_view(collection.index, self._adding, collection.problem, self.act, busy)

    def _found_view(self) -> Html:
        return markup.found_view(self._found, self._summary, self.act, self._query)

    def _answer_view(self, busy: bool) -> Html:
        return markup.answer_view(self._asked, self._progress, self.act, busy)

    def _shown_view(self) -> Html:
        collection, passage = self._collection, self._shown
        document = (
            collection.index.documents.get(passage.document)
            if collection is not None and passage is not None
            else None
        )
        if document is None or passage is None:
            return render([])
        return markup.shown_view(document, passage, self.act)


VIEW = View(
    "documents",
    "Documents",
    order=15,
    also="retrieval rag pdf",
    make=DocumentsPanel,
    needs=(TEXT_ENCODER,),
    follows=(Change.SESSION, Change.BUSY),
    style=True,
    names_device=True,
    tasks=("retrieval",),
)

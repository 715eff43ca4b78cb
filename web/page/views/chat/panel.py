"""The chat: conversations with a language model, with the probabilities of every token."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from html import escape
from typing import Any

from page.browser import Message, Source
from page.html.markup import h, render
from page.persistence import codec as codecs
from page.persistence.codec import Codec
from page.persistence.library_files import keep_file
from page.session.palette import Command
from page.session.session import Session
from page.session.state import AppState, Change
from page.session.typed_address import typed_address
from page.views.chat import controls, markup, saved_chats
from page.views.chat.archive import Archive, offer_file
from page.views.chat.settings import ChatSettings
from page.views.chat.talk import Talk
from page.views.view import LANGUAGE_MODEL, Panel, View
from webpte.errors import WebpteError
from webpte.llm import Generator

FRAME_SECONDS = 1 / 30  # between two updates of the text
_ANSWERING = "answering"


class ChatPanel(Panel):
    def __init__(self, view: View, state: AppState) -> None:
        super().__init__(view, state)
        self._settings = ChatSettings()
        self._file = ""  # the address or name of the program
        self._codec: Codec | None = None
        self._search: asyncio.Task[None] | None = None  # for a tokenizer
        self._talk: Talk | None = None
        self._outdated = False  # the conversation is with a closed program
        self._said = False  # whether something was said on this visit
        self._editing: int | None = None
        self._heard = ""  # text that is not on the page yet
        self._flush: asyncio.TimerHandle | None = None

    # ---- the session

    def forget(self) -> None:
        """Keep the conversation if the same program is opened again, else start a new one."""
        session = self.state.session
        self._search = None
        self._editing = None
        if session is None:
            self._outdated = True  # the program may be opened again
            return
        file = session.source.address or session.source.name
        if file == self._file:
            self._outdated = True
            return
        self._file = file
        self._said = False
        self._codec = self._talk = None
        self._outdated = False
        self._settings.system = ""

    def _conversation(self, session: Session) -> Talk | None:
        """Return the conversation with the open program; None while its tokenizer is unknown."""
        if self._codec is not None and (self._talk is None or self._outdated):
            self._talk = Talk(session.program, self._codec, self._talk)
            self._outdated = False
            self._restore_saved(self._talk)
        return self._talk

    def _restore_saved(self, talk: Talk) -> None:
        """Restore the saved conversation after a reload, unless this visit has one."""
        saved = self.state.store.read(saved_chats.key_of(self._file))
        if saved and not self._said:
            self._settings.system = saved_chats.restore(talk, saved) or self._settings.system

    def _save(self, talk: Talk) -> None:
        self._said = self._said or bool(talk.lines)
        if self._said:
            self.state.store.write(saved_chats.key_of(self._file), saved_chats.to_json(talk))

    # ---- the tokenizer

    async def _find(self, session: Session) -> None:
        note = ""
        try:
            codec = await codecs.find_codec(session.source, self.state.browser)
            if codec is not None:
                Talk(session.program, codec)  # raises if they do not fit
        except WebpteError as error:
            codec, note = None, str(error)
        codec = codec or await codecs.id_codec(Generator(session.program).vocabulary, note)
        if self._codec is None:  # else one was chosen meanwhile
            self._use(codec)

    def _use(self, codec: Codec) -> None:
        """Use another tokenizer; the conversation starts anew."""
        self._codec, self._talk = codec, None
        self.draw()

    async def _load(self, files: dict[str, Source]) -> None:
        session = self.state.idle_session()
        if session is None:
            return
        known = (
            dict(self._codec.files) if self._codec is not None and "tokenizer" not in files else {}
        )
        codec = await codecs.load_codec({**known, **files}, self.state.browser)
        Talk(session.program, codec)
        if session is self.state.session:
            self._use(codec)
            self.state.tell(f"Using the tokenizer {codec.name}")

    def accepts(self, name: str) -> bool:
        return codecs.kind_of_file(name) is not None

    async def accept_files(self, files: Sequence[Any]) -> None:
        await self.on_tokenizer({"files": files})

    async def on_tokenizer(self, message: Message) -> None:
        sources = [self.state.browser.source(file) for file in message["files"]]
        await self._load(codecs.files_by_kind(sources))

    async def on_tokenizer_url(self, message: Message) -> None:
        url = typed_address(str(message["fields"]["url"]))
        found = await self.state.browser.fetch(url, lambda stage, done, total: None)
        await keep_file(found)
        await self._load({codecs.TOKENIZER: found})

    # ---- what is said

    async def on_send(self, message: Message) -> None:
        text = str(message["fields"]["text"])
        if text.strip():
            await self._answer(lambda talk: talk.ask(text, self._settings), sent=True)

    async def on_propose(self, message: Message) -> None:
        """Ask a question of the program's card."""
        self.tell_script(focus=controls.FIELD)
        text = str(message["text"])
        await self._answer(lambda talk: talk.ask(text, self._settings))

    async def on_again(self, message: Message) -> None:
        await self._answer(lambda talk: talk.ask_again(self._settings))

    async def on_more(self, message: Message) -> None:
        await self._answer(lambda talk: talk.ask_more(self._settings))

    def on_stop(self, message: Message) -> None:
        session = self.state.session
        if session is not None and session.runner.busy and session.runner.doing == _ANSWERING:
            session.runner.cancel()
            self.state.tell("Stopping", "busy")

    def on_edit(self, message: Message) -> None:
        if self.state.idle_session() is not None:
            self._editing = int(message["line"])
            self.draw()
            self.tell_script(focus="chat-edited")

    def on_leave(self, message: Message) -> None:
        self._editing = None
        self.draw()
        self.tell_script(focus=controls.FIELD)

    async def on_save(self, message: Message) -> None:
        line, text = int(message["line"]), str(message["fields"]["text"])
        if self._talk is None or self.state.idle_session() is None or not text.strip():
            return
        self._editing = None
        self.tell_script(focus=controls.FIELD)
        asked = self._talk.lines[line]["role"] == "user"
        self._talk.edit(line, text)
        if asked:
            await self._answer(lambda talk: talk.ask_again(self._settings))
        else:
            self.draw()

    def on_clear(self, message: Message) -> None:
        """Start a new conversation; the old one goes to the list."""
        if self.state.idle_session() is None:
            return
        before, codec = self._talk, self._codec
        archived = self._put_away()
        self._talk, self._editing = None, None
        self.draw()
        self.tell_script(focus=controls.FIELD)
        if before is not None and before.lines:
            self.state.undo.offer(
                "Started a new conversation.", lambda: self._restore(before, codec, archived)
            )

    def _put_away(self) -> bool:
        """Put the conversation into the list; return whether there was something to put there."""
        saved = saved_chats.to_json(self._talk) if self._talk is not None else {}
        if saved:
            self._archive.add(saved)
        return bool(saved)

    @property
    def _archive(self) -> Archive:
        return Archive(self.state.store, self._file)

    def on_open(self, message: Message) -> None:
        """Open a conversation of the list; the current one takes its place there."""
        session = self.state.idle_session()
        taken = self._archive.take(int(message["at"])) if session is not None else None
        if session is None or taken is None or self._codec is None:
            return
        talk = Talk(session.program, self._codec)
        self._settings.system = saved_chats.restore(talk, taken["saved"])
        if not talk.lines:
            self._archive.add(taken["saved"], taken["title"])
            self.state.tell("This conversation was with another tokenizer", "bad")
            return
        self._put_away()
        self._talk, self._outdated, self._editing, self._said = talk, False, None, True
        self.state.undo.forget()
        self.draw()
        self.tell_script(focus=controls.FIELD)

    def on_rename(self, message: Message) -> None:
        self._archive.rename(int(message["at"]), str(message["value"]))

    def on_delete(self, message: Message) -> None:
        at, archive = int(message["at"]), self._archive
        taken = archive.take(at)
        if taken is not None:
            self.draw()

            def back() -> None:
                archive.add(taken["saved"], taken["title"], at)
                self.draw()

            self.state.undo.offer(f"Deleted “{taken['title']}”.", back)

    def on_export(self, message: Message) -> None:
        """Download the conversation as Markdown or JSON."""
        session, talk = self.state.session, self._talk
        if session is not None and talk is not None and talk.lines:
            offer_file(self.state.browser, talk, session.source.name, str(message["kind"]))

    def on_copy(self, message: Message) -> None:
        """Copy a message, or with `block` one of its code blocks."""
        lines, at = self._talk.lines if self._talk is not None else [], int(message["line"])
        if not 0 <= at < len(lines):
            return
        block = int(message["block"]) if "block" in message else None
        text = markup.copied_text(lines[at]["content"], block)
        self.state.browser.show(copy={"text": text, "done": "Copied"})

    def _restore(self, talk: Talk, codec: Codec | None, archived: bool) -> None:
        """Go back to the conversation before, if the tokenizer is still the same."""
        if self._codec is codec and self.state.idle_session() is not None:
            if archived:
                self._archive.take(0)
            self._talk, self._outdated = talk, True  # the cache has been used since
            self.draw()

    async def _answer(self, begin: Callable[[Talk], None], sent: bool = False) -> None:
        session = self.state.idle_session()
        talk = self._conversation(session) if session is not None else None
        if session is None or talk is None:
            return
        if self._settings.problem():
            self.state.tell(self._settings.problem(), "bad")
            return
        self._editing = None
        self.state.undo.forget()
        self.state.show(error="")
        self.state.tell("Answering", "busy")
        await self.state.do(
            session,
            self._say(session, talk, begin, sent),
            _ANSWERING,
            # After a lost GPU: the tokens that came are kept, and the cache is filled with them.
            redo=lambda: self._say(session, talk, lambda one: one.go_on(self._settings), False),
        )

    async def _say(
        self, session: Session, talk: Talk, begin: Callable[[Talk], None], sent: bool
    ) -> None:
        begin(talk)
        if sent:
            self.state.browser.show(value={controls.FIELD: ""})
        session.lose_state("the chat has changed it")
        self.draw()
        try:
            await talk.listen(self._hear, lambda: session.runner.stopping)
        finally:
            self._show_heard()
        answer = talk.last
        self.state.tell("Answered" if answer is None else f"Answered: {markup.answer_text(answer)}")

    # ---- what is shown

    def _hear(self, piece: str) -> None:
        """Collect text for the next frame: tokens can come much faster."""
        self._heard += piece
        if self._flush is None:
            self._flush = asyncio.get_running_loop().call_later(FRAME_SECONDS, self._show_heard)

    def _show_heard(self) -> None:
        heard, self._heard = self._heard, ""
        if self._flush is not None:
            self._flush.cancel()
            self._flush = None
        talk = self._talk
        answer = talk.last if talk is not None else None
        if talk is None or answer is None or not heard:
            return
        if self._settings.with_tokens:
            start = len(answer.texts)
            answer.catch_up()
            more: str = render(markup.tokens_view(answer, start))
        else:
            more = escape(heard)
        line = markup.said_id(max(talk.answers))
        figures = markup.figures_view(answer, talk.max_context)
        self.state.browser.show(append={line: more}, html={markup.FIGURES: figures})

    def draw(self) -> None:
        session = self.state.session
        if session is None:
            return
        talk, codec = self._conversation(session), self._codec
        if talk is None or codec is None:
            self.show(h("p", "Looking for the model's tokenizer …", class_="card soft"))
            if self._search is None:
                self._search = self.start(self._find(session), "looking for a tokenizer")
            return
        self._heard = ""  # the drawing contains it
        self._save(talk)
        busy = session.runner.busy
        streaming = busy and session.runner.doing == _ANSWERING
        card = session.source.card
        log = markup.log_view(
            talk,
            self._settings,
            self.act,
            card.questions if card is not None else (),
            busy=busy,
            streaming=streaming,
            editing=self._editing,
            as_markdown=codec.kind == codecs.CHAT,
        )
        self.show(
            markup.chat_view(
                controls.head_view(self.state, self._settings, bool(talk.lines), self.act, busy),
                controls.list_view(self._archive.entries(), self.act, busy),
                log,
                controls.form_view(codec, self.act, busy=busy, streaming=streaming),
                markup.figures_view(talk.last, talk.max_context),
                (
                    controls.settings_view(self._settings, codec, self.act, self.state),
                    controls.tokenizer_view(codec, self.act),
                ),
            )
        )
        self.tell_script()

    def on_look(self, message: Message) -> None:
        """Show the card of the token that someone points at."""
        talk, line, at = self._talk, int(message["line"]), int(message["at"])
        answer = talk.answers.get(line) if talk is not None else None
        if talk is not None and answer is not None and at < len(answer.tokens):
            card = markup.token_card(answer, at, talk.tokenizer)
            self.state.browser.show(html={markup.TOKEN: card})

    # ---- settings

    def on_tokens(self, message: Message) -> None:
        self._settings.with_tokens = not self._settings.with_tokens
        self.draw()

    def on_set(self, message: Message) -> None:
        self._settings.texts[str(message["name"])] = str(message["value"])
        problem = controls.problem_view(self._settings)
        self.state.browser.show(html={controls.PROBLEM: problem or ""})

    def on_system(self, message: Message) -> None:
        self._settings.system = str(message["value"])


VIEW = View(
    "chat",
    "Chat",
    order=10,
    make=ChatPanel,
    needs=(LANGUAGE_MODEL,),
    follows=(Change.SESSION, Change.BUSY, Change.OPENING),
    style=True,
    commands=(
        Command("New conversation", "clear"),
        Command("Show answers token by token, or as text", "tokens"),
    ),
)

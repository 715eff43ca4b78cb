"""The chat: conversations with a language model, with the probabilities of every token."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from html import escape
from typing import Any

from page.browser import Message
from page.core.palette import Command
from page.core.session import Session
from page.core.state import AppState, Change
from page.core.typed_address import typed_address
from page.shared.html.markup import render
from page.shared.html.tokenizer_note import reading_note
from page.shared.inputs.match_inputs import is_picture_file
from page.shared.persistence import codec as codecs
from page.shared.persistence.library_files import keep_file
from page.views.chat import controls, markup, picture_markup
from page.views.chat.archive import offer_file
from page.views.chat.conversations import Conversations
from page.views.chat.pictures import Attachments, Edit
from page.views.chat.settings import ChatSettings
from page.views.chat.talk import Talk
from page.views.view import LANGUAGE_MODEL, Panel, View

FRAME_SECONDS = 1 / 30  # between two updates of the text
_ANSWERING = "answering"


class ChatPanel(Panel):
    def __init__(self, view: View, state: AppState) -> None:
        super().__init__(view, state)
        self._settings = ChatSettings()
        self._chats = Conversations(state, self._settings)
        self._search: asyncio.Task[None] | None = None  # for the model's files
        self._attached = Attachments()
        self._editing: Edit | None = None
        self._heard = ""  # text that is not on the page yet
        self._flush: asyncio.TimerHandle | None = None

    def forget(self) -> None:
        """Keep the conversation if the same program is opened again, else start a new one."""
        self._search = None
        self._editing = None
        if self._chats.turn_to(self.state.session):
            self._attached = Attachments()

    @property
    def _talk(self) -> Talk | None:
        return self._chats.talk

    # ---- the model's files

    async def _find(self, session: Session) -> None:
        await self._chats.prepare(session)
        self.draw()

    def accepts(self, name: str) -> bool:
        is_for_model = codecs.kind_of_file(name) is not None
        return is_for_model or (self._takes_pictures and is_picture_file(name))

    @property
    def _takes_pictures(self) -> bool:
        """Whether a picture that is dropped anywhere or pasted is for the next message."""
        session = self.state.session
        in_front = session is not None and self.state.front == self.view.name
        return in_front and session is not None and self._sight(session)[0]

    def _sight(self, session: Session) -> tuple[bool, str]:
        """Return whether messages may have pictures; and why not, if the program sees."""
        reader, problem = self._chats.model.sight_of(session.program)
        return reader is not None, problem

    async def accept_files(self, files: Sequence[Any]) -> None:
        """Take files that were dropped: pictures for the next message, or the model's."""
        pictures, others = list[Any](), list[Any]()
        for file in files:
            name = self.state.browser.source(file).name
            (pictures if codecs.kind_of_file(name) is None else others).append(file)
        if others:
            await self.on_tokenizer({"files": others})
        if pictures:
            await self.on_pictures({"files": pictures})

    async def on_tokenizer(self, message: Message) -> None:
        session = self.state.idle_session()
        told = await self._chats.load(session, message["files"]) if session is not None else ""
        if told:
            self.draw()
            self.state.tell(told)

    async def on_tokenizer_url(self, message: Message) -> None:
        url = typed_address(str(message["fields"]["url"]))
        found = await self.state.browser.fetch(url, lambda stage, done, total: None)
        await keep_file(found)
        session = self.state.idle_session()
        if session is not None:
            await self._chats.use_tokenizer(session, found)
            self.draw()
            self.state.tell(f"Using the tokenizer {found.name}")

    # ---- pictures

    async def on_pictures(self, message: Message) -> None:
        """Add pictures to the next message; files of the model may be among the dropped files."""
        attached, files = self._attached, message["files"]
        names = [self.state.browser.source(file).name for file in files]
        if any(codecs.kind_of_file(name) is not None for name in names):
            await self.accept_files(files)
            return
        self.state.tell(f"Loading {', '.join(names)}", "busy")
        try:
            await attached.add(self.state.browser, files)
            self.state.show(error="")
            self.state.tell(f"Added {', '.join(names)}")
        finally:
            if attached is self._attached:
                self._draw_with_focus()

    def on_remove(self, message: Message) -> None:
        """Remove a picture from the message that is edited, or from the next one."""
        at, edited = int(message["at"]), "line" in message
        if edited and self._editing is not None:
            del self._editing.pictures[at : at + 1]
        elif not edited:
            self._attached.remove(self._attached.pictures[at:][:1])
        self._draw_with_focus(markup.EDITED if edited else controls.FIELD)

    def on_enlarge(self, message: Message) -> None:
        """Show a picture in full size."""
        lines, line = self._talk.lines if self._talk is not None else [], int(message["line"])
        pictures = lines[line].get("pictures", ()) if 0 <= line < len(lines) else ()
        for one in pictures[int(message["at"]) :][:1]:
            url = one.small if one.pixels is None else self.state.browser.picture_url(one.pixels)
            self.state.show(**{picture_markup.ENLARGED: picture_markup.enlarged(one, url)})
            self.tell_script(enlarge=picture_markup.ENLARGED)

    # ---- messages

    async def on_send(self, message: Message) -> None:
        text = str(message["fields"]["text"])
        if text.strip() or self._attached.pictures:
            await self._answer(lambda talk: self._ask(talk, text), sent=True)

    async def on_propose(self, message: Message) -> None:
        """Ask a question of the program's card."""
        await self._answer(lambda talk: self._ask(talk, str(message["text"])))

    def _ask(self, talk: Talk, text: str) -> None:
        """Ask with the pictures that were added."""
        pictures = tuple(self._attached.pictures)
        talk.ask(text, self._settings, pictures)
        self._attached.remove(pictures)

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
        if self.state.idle_session() is not None and self._talk is not None:
            line = int(message["line"])
            self._editing = Edit(line, list(self._talk.lines[line].get("pictures", ())))
            self._draw_with_focus(markup.EDITED)

    def on_leave(self, message: Message) -> None:
        self._editing = None
        self._draw_with_focus()

    async def on_save(self, message: Message) -> None:
        edit, text = self._editing, str(message["fields"]["text"])
        if self._talk is None or edit is None or self.state.idle_session() is None:
            return
        if not text.strip() and not edit.pictures:
            return
        self._editing = None
        asked = self._talk.lines[edit.line]["role"] == "user"
        self._talk.edit(edit.line, text, edit.pictures)
        if asked:
            await self._answer(lambda talk: talk.ask_again(self._settings))
        else:
            self._draw_with_focus()

    def on_clear(self, message: Message) -> None:
        """Start a new conversation; the old one goes to the list."""
        if self.state.idle_session() is None:
            return
        back = self._chats.start_anew()
        self._editing = None
        self._draw_with_focus()
        self.state.succeeded(_ANSWERING)  # an error of the last answer is gone with it
        self.state.tell("New conversation")
        if back is not None:
            self.state.undo.offer("Started a new conversation.", lambda: self._restore(back))

    def _restore(self, back: Callable[[], bool]) -> None:
        """Go back to the conversation before, if the tokenizer is still the same."""
        if self.state.idle_session() is not None and back():
            self.draw()

    async def on_open(self, message: Message) -> None:
        before = self._talk
        if not await self._chats.open(int(message["at"])):
            self.state.tell("This conversation was with another tokenizer", "bad")
        elif self._talk is not before:
            self._editing = None
            self.state.undo.forget()
            self._draw_with_focus()

    def _draw_with_focus(self, field: str = controls.FIELD) -> None:
        self.draw()
        self.tell_script(focus=field)

    def on_rename(self, message: Message) -> None:
        self._chats.archive.rename(int(message["at"]), str(message["value"]))

    def on_delete(self, message: Message) -> None:
        title, back = self._chats.delete(int(message["at"]), self.draw)
        if title:
            self.draw()
            self.state.undo.offer(f"Deleted “{title}”.", back)

    def on_turn(self, message: Message) -> None:
        if self.state.idle_session() is not None and self._talk is not None:
            self._editing = None
            self._talk.turn(int(message["line"]), int(message["step"]))
            self.draw()

    def on_export(self, message: Message) -> None:
        """Download the conversation as Markdown or JSON."""
        session, talk = self.state.session, self._talk
        if session is not None and talk is not None and talk.lines:
            offer_file(self.state.browser, talk, session.source.name, str(message["kind"]))

    def on_copy(self, message: Message) -> None:
        """Copy a message, or with `block` one of its code blocks."""
        lines = self._talk.lines if self._talk is not None else []
        for line in lines[int(message["line"]) :][:1]:
            text = markup.copied_text(line["content"], message.get("block"))
            self.state.browser.show(copy={"text": text, "done": "Copied"})

    async def _answer(self, begin: Callable[[Talk], None], sent: bool = False) -> None:
        session = self.state.idle_session()
        talk = self._chats.current(session) if session is not None else None
        if session is None or talk is None:
            return
        if self._settings.problems():
            self._settings.refused = True
            self.state.browser.show(html=controls.problem_views(self._settings, self.act))
            return
        if self._attached.loading:
            self.state.tell("Still loading a picture: send the message after that", "busy")
            return
        self._editing = None
        self.state.undo.forget()
        self.state.show(error="")
        self.state.tell("Answering", "busy")
        self.tell_script(focus=controls.FIELD)  # the button that was pressed is removed
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

    # ---- drawing

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
        talk, codec = self._chats.current(session), self._chats.model.codec
        if talk is None or codec is None:
            self.show(reading_note())
            if self._search is None:
                self._search = self.start(self._find(session), "looking for a tokenizer")
            return
        self._heard = ""  # the drawing contains it
        self._chats.save(talk)
        busy = session.runner.busy
        streaming = busy and session.runner.doing == _ANSWERING
        card, (takes_pictures, problem) = session.source.card, self._sight(session)
        attached = picture_markup.attached_view(self._attached, self.act, takes_pictures, problem)
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
                controls.list_view(self._chats.archive.entries(), self.act, self.state),
                log,
                controls.form_view(
                    codec, self._settings, self.act, attached, busy=busy, streaming=streaming
                ),
                markup.figures_view(talk.last, talk.max_context),
                (
                    controls.settings_view(self._settings, codec, self.act, self.state),
                    controls.tokenizer_view(codec, self.act),
                    controls.more_models_view(self.state),
                ),
                drop=self.act("pictures") if takes_pictures else None,
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
        self._settings.take(str(message["name"]), str(message["value"]))
        self.state.browser.show(html=controls.problem_views(self._settings, self.act))

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
    names_device=True,
    tasks=("text-generation",),
    commands=(
        Command("New conversation", "clear", also="clear reset"),
        Command("Toggle tokens", "tokens", also="probabilities logprobs"),
    ),
)

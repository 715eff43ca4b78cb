"""The view Train: a language model learns lines as a LoRA, and answers with and without it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import PurePath
from time import perf_counter
from typing import Any

from page.browser import Message
from page.core.session import Session
from page.core.state import AppState, Change
from page.core.throttle import Throttle
from page.shared.html.markup import render
from page.shared.html.tokenizer_note import reading_note
from page.shared.persistence import codec as codecs
from page.shared.persistence.codec import Codec
from page.views.kept_by_file import KeptByFile
from page.views.train import course as courses
from page.views.train import markup
from page.views.train.course import Course
from page.views.train.trained_program import TrainedProgram
from page.views.view import Panel, View, ability
from webpte.errors import WebpteError
from webpte.llm import Chat
from webpte.training import lora_rank

_TRAINING, _ANSWERING = "training", "answering"
_MOST_TOKENS = 160  # of an answer


def _is_trainable(session: Session) -> bool:
    return lora_rank(session.methods) > 0


TRAINABLE = ability("Open a language model that was exported with --train lora.", _is_trainable)


class TrainPanel(Panel):
    def __init__(self, view: View, state: AppState) -> None:
        super().__init__(view, state)
        self._kept = KeptByFile(state, courses.key_of, Course, courses.from_json, courses.to_json)
        self._codec: Codec | None = None
        self._note = ""  # why there is no tokenizer
        self._search: asyncio.Task[None] | None = None
        self._own: TrainedProgram | None = None  # of the session that is open
        self._doing = ""

    @property
    def _course(self) -> Course:
        return self._kept.value

    def forget(self) -> None:
        """Drop what belongs to a program; lines and LoRA stay with its file."""
        self._codec = self._search = None
        self._note = ""
        if self._own is not None:
            self._own.close()
            self._own = None

    # ---- the tokenizer

    async def _find(self, session: Session) -> None:
        try:
            self._codec = await codecs.find_codec(session.source, self.state.browser)
        except WebpteError as error:
            self._note = str(error)
        if self._codec is None and not self._note:
            self._note = "No tokenizer.json was found next to the program."
        if session is self.state.session:
            self.draw()

    async def on_tokenizer(self, message: Message) -> None:
        sources = [self.state.browser.source(file) for file in message["files"]]
        self._codec = await codecs.load_codec(codecs.files_by_kind(sources), self.state.browser)
        self.draw()

    # ---- lines

    def on_typed(self, message: Message) -> None:
        """Keep typed text: the field is drawn anew when something else changes."""
        self._course.text = str(message["value"])[: courses.MOST_TEXT]

    def on_example(self, message: Message) -> None:
        if self.state.idle_session() is not None:
            self._course.text = courses.EXAMPLE
            self._kept.save()
            self.draw()

    async def on_file(self, message: Message) -> None:
        await self.accept_files(message["files"])

    def accepts(self, name: str) -> bool:
        return name.lower().endswith(".txt") and TRAINABLE.met(self.state)

    async def accept_files(self, files: Sequence[Any]) -> None:
        """Add the lines of text files to the present lines."""
        if self.state.idle_session() is None:
            return
        texts = [self._course.text.rstrip()] if self._course.text.strip() else []
        for file in files:
            source = self.state.browser.source(file)
            if source.size > 4 * courses.MOST_TEXT:
                self.state.tell(f"{source.name} is too large for lines to learn", "bad")
                return
            data = await self.state.browser.read(file)
            texts.append(data.decode("utf-8", "replace").strip())
        self._course.text = "\n".join(texts)[: courses.MOST_TEXT]
        self._kept.save()
        self.draw()

    # ---- training

    async def on_train(self, message: Message) -> None:
        session, course = self.state.idle_session(), self._course
        if session is None or self._codec is None:
            return
        wrong = course.take(message["fields"])
        if wrong:
            self.state.tell(wrong, "bad")
            return
        self._kept.save()
        self.state.show(error="")
        self.state.tell("Training", "busy")
        await self._work(session, self._train(session, self._codec, course), _TRAINING)

    async def _work(self, session: Session, work: Any, doing: str) -> None:
        self._doing = doing
        try:
            await self.state.do(session, work, doing)
        finally:
            self._doing = ""
            self.draw()

    async def _opened(self, session: Session, codec: Codec, course: Course) -> TrainedProgram:
        """Return the program once more, with `learn` and room for a LoRA; weights are shared."""
        if self._own is None:
            self.state.tell("Preparing the training", "busy")
            self._own = await TrainedProgram.load(self.state.engine, session, codec)
            if course.lora is not None:
                try:
                    await self._own.trainer.load(course.lora.weights, config=course.lora.config)
                except WebpteError:  # a file of this name had another form on an earlier visit
                    course.forget()
        await self._own.recover()
        return self._own

    async def _train(self, session: Session, codec: Codec, course: Course) -> None:
        self.draw()
        own, throttle = await self._opened(session, codec, course), Throttle()
        trainer = own.trainer
        trainer.rate = course.rate / 1000
        learning = trainer.learn(course.lines, course.steps)
        started, done = perf_counter(), 0
        try:
            async for loss in learning:
                course.losses.append(loss)
                done += 1
                if throttle.ready():
                    shown = render([markup.learns_view(course, done)])
                    self.state.browser.show(html={markup.LEARNS: shown})
                    throttle.restart()
                await asyncio.sleep(0)  # handles messages: on NumPy a step never awaits
                if session.runner.stopping:
                    break
        finally:
            await learning.aclose()
        course.lora, course.answers = await trainer.save(), ("", "")
        own.outdated = True
        self._kept.save()
        self.state.tell(markup.told_after(course, done / (perf_counter() - started)))

    def on_stop(self, message: Message) -> None:
        session = self.state.session
        if session is not None and session.runner.busy and self._doing:
            session.runner.cancel()
            self.state.tell("Stopping", "busy")

    def on_reset(self, message: Message) -> None:
        if self.state.idle_session() is not None:
            self._course.forget()
            if self._own is not None:
                self._own.trainer.reset()
            self._kept.save()
            self.draw()
            self.state.tell("Reset: the lines are kept")

    def on_save(self, message: Message) -> None:
        """Download the LoRA as PEFT's two files, in an archive."""
        session, course = self.state.session, self._course
        if session is None or course.lora is None:
            return
        url = self.state.browser.download_url(course.lora.zip())
        name = f"{PurePath(session.source.name).stem}.lora.zip"
        self.state.browser.show(download={"url": url, "name": name})

    # ---- answers before and after training

    async def on_ask(self, message: Message) -> None:
        session, course = self.state.idle_session(), self._course
        question = str(message["fields"]["question"]).strip()
        if session is None or self._codec is None or course.lora is None or not question:
            return
        course.question, course.answers = question, ("", "")
        self.state.show(error="")
        self.state.tell("Answering", "busy")
        await self._work(session, self._ask(session, self._codec, course), _ANSWERING)

    async def _ask(self, session: Session, codec: Codec, course: Course) -> None:
        self.draw()
        own, found = await self._opened(session, codec, course), ["", ""]
        for number, trained in enumerate((False, True)):
            program = await own.prepared(trained)
            chat = Chat(program, codec.tokenizer, template=codec.template)
            throttle = Throttle()
            async for piece in chat.send(course.question, _MOST_TOKENS):
                found[number] += piece
                course.answers = found[0], found[1]
                if throttle.ready():
                    self._show_answers(course)
                    throttle.restart()
                await asyncio.sleep(0)
                if session.runner.stopping:
                    break
        self._show_answers(course)
        self.state.tell("Answered")

    def _show_answers(self, course: Course) -> None:
        shown = render([markup.answers_view(course.answers)])
        self.state.browser.show(html={markup.ANSWERS: shown})

    # ---- drawing

    def draw(self) -> None:
        session = self.state.session
        if session is None or not TRAINABLE.met(self.state):
            return
        if self._codec is None:
            if self._search is None:
                self._search = self.start(self._find(session), "looking for the tokenizer")
            note = self._note
            self.show(markup.needs_tokenizer(note, self.act) if note else reading_note())
            return
        busy, course = session.runner.busy, self._course
        training, answering = (busy and self._doing == one for one in (_TRAINING, _ANSWERING))
        cards = (
            markup.lines_card(course, training, busy, self.act),
            markup.ask_card(course, busy, answering, self.act),
        )
        self.show(render(cards))


VIEW = View(
    "train",
    "Train",
    order=13,
    also="fine-tune lora",
    make=TrainPanel,
    needs=(TRAINABLE,),
    follows=(Change.SESSION,),
    style=True,
    names_device=True,
)

"""The teach view: a classifier learns drawings in this tab and predicts their class."""

from __future__ import annotations

import asyncio
import io
from pathlib import PurePath
from time import perf_counter
from typing import Any

import numpy as np

from page.browser import Message
from page.core.session import Session
from page.core.state import AppState, Change
from page.core.throttle import Throttle
from page.shared.html.markup import render
from page.shared.npy import Array
from page.views.kept_by_file import KeptByFile
from page.views.teach import markup, saved_lessons
from page.views.teach.drawings import centred, is_empty, varied
from page.views.teach.lesson import Lesson
from page.views.view import Panel, View, ability
from webpte.errors import InputError
from webpte.training import Learner, can_be_taught

_LEARNING, _LOOKING = "learning", "looking at the drawing"
_MOST_STEPS = 2000


def _is_teachable(session: Session) -> bool:
    return can_be_taught(session.methods)


TEACHABLE = ability("Open a program with the methods learn and predict.", _is_teachable)


class TeachPanel(Panel):
    def __init__(self, view: View, state: AppState) -> None:
        super().__init__(view, state)
        self._kept = KeptByFile(
            state, saved_lessons.key_of, Lesson, saved_lessons.from_json, saved_lessons.to_json
        )
        self._learner: Learner | None = None  # of the session that is open
        self._drawing: Array | None = None  # the drawing on the pad, or None
        self._seen: Array | None = None  # the drawing that `_likely` is of
        self._likely: list[float] = []

    @property
    def _lesson(self) -> Lesson:
        return self._kept.value

    def forget(self) -> None:
        """Clear the pad; the learned classifier stays with the file."""
        self._learner = None
        if self._drawing is not None:
            self._clear()

    def _learner_of(self, session: Session) -> Learner:
        if self._learner is None:
            self._learner = Learner(session.program)
            if self._lesson.weights is not None:
                try:
                    self._learner.load(self._lesson.weights)
                except InputError:  # a file of this name had other weights on an earlier visit
                    self._lesson.forget()
        return self._learner

    # ---- drawing

    async def on_draw(self, message: Message) -> None:
        if self.state.session is None:
            return
        was_empty = self._drawing is None
        grey = np.frombuffer(bytes(message["pixels"]), np.uint8).astype(np.float32) / 255
        drawing = grey.reshape(int(message["rows"]), int(message["columns"]))
        self._drawing = None if is_empty(drawing) else drawing
        if was_empty:
            self._show_adds()
        await self._look()

    async def _look(self) -> None:
        """Predict the class of the drawing, unless the program is busy; learning predicts on its
        own."""
        session = self.state.session
        if session is None or session.runner.busy or not self._lesson.losses:
            return
        await self.state.do(session, self._look_until_seen(session), _LOOKING)

    async def _look_until_seen(self, session: Session) -> None:
        """Predict until the latest drawing is covered: someone may draw on meanwhile."""
        while self._seen is not self._drawing and not session.runner.stopping:
            drawing = self._drawing
            if drawing is not None:
                logits = await self._learner_of(session).predict(centred(drawing)[None])
                self._likely = self._lesson.likely(logits)
            else:
                self._likely = []
            self._seen = drawing
            self._show_thinks()

    def _show_adds(self) -> None:
        adds = render(markup.adds_view(self._lesson, self._drawing is None, self.act))
        self.state.browser.show(html={markup.ADDS: adds})

    def _show_thinks(self) -> None:
        thinks = markup.thinks_view(self._lesson, self._likely)
        self.state.browser.show(html={markup.THINKS: thinks})

    def on_clear(self, message: Message) -> None:
        self._clear()
        self.draw()

    def _clear(self) -> None:
        self._drawing, self._seen, self._likely = None, None, []
        self.tell_script(clear=True)

    # ---- examples

    def on_add(self, message: Message) -> None:
        if self._drawing is None:
            return
        kind = int(message["kind"])
        self._lesson.add(kind, self._drawing)
        self._kept.save()
        self._clear()
        self.draw()
        self.state.tell(f"Example of {self._lesson.kinds[kind].name} added")

    def on_remove(self, message: Message) -> None:
        if self.state.idle_session() is not None:
            examples = self._lesson.kinds[int(message["kind"])].examples
            del examples[int(message["at"]) : int(message["at"]) + 1]
            self._kept.save()
            self.draw()

    def on_more(self, message: Message) -> None:
        self._lesson.add_kind()
        self._kept.save()
        self._seen, self._likely = None, []
        self.draw()

    def on_less(self, message: Message) -> None:
        """Remove a class; later classes get other numbers, so the learned classifier is dropped."""
        if self.state.idle_session() is not None:
            del self._lesson.kinds[int(message["kind"])]
            self._forget_learned()

    def on_name(self, message: Message) -> None:
        name = str(message["value"]).strip()
        if name:
            self._lesson.kinds[int(message["kind"])].name = name
            self._kept.save()
            self._show_adds()
            self._show_thinks()

    # ---- learning

    async def on_learn(self, message: Message) -> None:
        session = self.state.idle_session()
        if session is None:
            return
        lesson = self._lesson
        if lesson.ready:
            self.state.tell(lesson.ready, "bad")
            return
        try:
            lesson.steps = min(max(int(message["fields"]["steps"]), 1), _MOST_STEPS)
        except ValueError:
            self.state.tell(f"Steps must be a number from 1 to {_MOST_STEPS:,}", "bad")
            return
        self.state.show(error="")
        self.state.tell("Learning", "busy")
        await self.state.do(session, self._learn(session, lesson), _LEARNING)
        self.draw()

    async def _learn(self, session: Session, lesson: Lesson) -> None:
        self.draw()
        learner, throttle = self._learner_of(session), Throttle()
        pictures, labels = lesson.all()
        learning = learner.learn(pictures, labels, lesson.steps, varied)
        started, before = perf_counter(), learner.steps
        try:
            async for loss in learning:
                lesson.losses.append(loss)
                if throttle.ready():
                    self.state.browser.show(html={markup.LEARNS: markup.curve_view(lesson)})
                    self._seen = None  # the prediction has changed
                    await self._look_until_seen(session)
                    throttle.restart()
                await asyncio.sleep(0)  # handles messages: on NumPy a step never awaits
                if session.runner.stopping:
                    break
        finally:
            await learning.aclose()
        lesson.weights = await learner.weights()
        self._kept.save()
        self._seen = None
        await self._look_until_seen(session)
        if not np.isfinite(lesson.losses[-1]):
            self.state.tell("The loss is not a number: press Reset and learn again", "bad")
            return
        rate = (learner.steps - before) / (perf_counter() - started)
        told = f"Learned: loss {np.mean(lesson.losses[-5:]):.3f}, {rate:.0f} steps a second"
        self.state.tell(told)

    def on_stop(self, message: Message) -> None:
        session = self.state.session
        if session is not None and session.runner.busy and session.runner.doing == _LEARNING:
            session.runner.cancel()

    def on_reset(self, message: Message) -> None:
        if self.state.idle_session() is not None:
            self._forget_learned()
            self.state.tell("Reset: the examples are kept")

    def _forget_learned(self) -> None:
        self._lesson.forget()
        self._kept.save()
        self._learner, self._seen, self._likely = None, None, []
        self.draw()

    def on_save(self, message: Message) -> None:
        session, lesson = self.state.session, self._lesson
        if session is None or lesson.weights is None:
            return
        stream = io.BytesIO()
        names = np.array([kind.name for kind in lesson.kinds])
        arrays: dict[str, Any] = {"names": names, **lesson.weights}
        np.savez(stream, **arrays)
        url = self.state.browser.download_url(stream.getvalue())
        name = f"{PurePath(session.source.name).stem}.weights.npz"
        self.state.browser.show(download={"url": url, "name": name})

    # ---- drawing

    def draw(self) -> None:
        session = self.state.session
        if session is None:
            return
        busy, lesson = session.runner.busy, self._lesson
        learning = busy and session.runner.doing == _LEARNING
        side = self._learner_of(session).form.shape[-1]
        cards = (
            markup.pad_card(lesson, side, self._drawing is None, self._likely, self.act),
            markup.learn_card(lesson, learning, busy and learning, self.act),
            markup.kinds_card(lesson, learning, self.act),
        )
        self.show(render(cards))


VIEW = View(
    "teach",
    "Teach",
    order=12,
    also="train learn",
    make=TeachPanel,
    needs=(TEACHABLE,),
    follows=(Change.SESSION,),
    style=True,
    names_device=True,
)

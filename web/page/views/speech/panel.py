"""The speech view: speak and read the text, or type and hear it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np

from page.browser import Message
from page.core.session import Session
from page.core.state import AppState, Change
from page.shared.inputs.match_inputs import is_sound_file
from page.shared.inputs.sounds import LONGEST_SECONDS
from page.views.speech.markup import TimedLine, recognizer, transcript, voice
from page.views.speech.model import hears, open_task, speaks
from page.views.view import Panel, View, ability
from webpte.tasks.sound.speech.wave_file import wave_file
from webpte.tasks.sound.speech_recognition import SpeechRecognition
from webpte.tasks.sound.text_to_speech import TextToSpeech
from webpte.tasks.task import Task

MICROPHONE = "speech"  # the name of the view's microphone, where inputs have a number
_WANTED = 1600  # samples that are sent at once


def _has_speech(session: Session) -> bool:
    return hears(session.methods) or speaks(session.methods)


SPEECH = ability("Open a model of speech.", _has_speech)


@dataclass(eq=False)
class Speech:
    """A file's texts, heard and to be said."""

    lines: list[TimedLine] = field(default_factory=list)
    task: Task | None = None
    searched: bool = False  # for the files next to the program
    problem: str = ""
    language: str = ""  # "": the model tells
    text: str = "Good morning."
    audio: str = ""  # the address of the spoken sound
    summary: str = ""


class SpeechPanel(Panel):
    def __init__(self, view: View, state: AppState) -> None:
        super().__init__(view, state)
        self._speech: dict[str, Speech] = {}  # by file
        self._parts: asyncio.Queue[np.ndarray | None] | None = None  # None ends the sound

    @property
    def _now(self) -> Speech:
        session = self.state.session
        assert session is not None  # as SPEECH says
        return self._speech.setdefault(session.source.key, Speech())

    def forget(self) -> None:
        for one in self._speech.values():
            one.task, one.searched = None, False

    async def _search(self, session: Session, now: Speech) -> None:
        """Open the task, with the files next to the program."""
        try:
            now.task, now.problem = await open_task(session, self.state.browser), ""
        except Exception as error:
            now.problem = str(error)
        if session is self.state.session:
            self.draw()

    async def _task(self, session: Session) -> Task | None:
        """Return the task; it is made anew if the program was rebuilt."""
        now = self._now
        if now.task is not None and now.task.program is not session.program:
            await self._search(session, now)
        return now.task

    # ---- a sound becomes text

    async def on_open(self, _message: Message) -> None:
        """Take the microphone, until it is closed."""
        session = self.state.idle_session()
        task = await self._task(session) if session is not None else None
        if session is None or not isinstance(task, SpeechRecognition):
            self._stop()
            return
        parts: asyncio.Queue[np.ndarray | None] = asyncio.Queue()
        self._parts = parts
        self.state.show(error="")
        self.state.tell("Listening", "busy")
        try:
            work = self._listen(task, self._now, parts)
            await self.state.do(session, work, "listening", at_once=True)
        finally:
            self._parts = None
            self._stop()

    def on_part(self, message: Message) -> None:
        """Take the samples that came."""
        if self._parts is not None:
            self._parts.put_nowait(np.frombuffer(bytes(message["samples"]), np.float32))

    def on_close(self, _message: Message) -> None:
        if self._parts is not None:
            self._parts.put_nowait(None)

    def _ask(self) -> None:
        self.state.browser.show(listen={"input": MICROPHONE, "name": "", "wanted": _WANTED})

    def _stop(self) -> None:
        self.state.browser.show(listen={"input": MICROPHONE, "ends": True})

    async def _listen(
        self, task: SpeechRecognition, now: Speech, parts: asyncio.Queue[np.ndarray | None]
    ) -> None:
        async def blocks() -> AsyncIterator[np.ndarray]:
            self._ask()
            while (part := await parts.get()) is not None:
                self._ask()  # not before: if the model is slow, the page drops old sound
                yield part

        known = len(now.lines)
        try:
            async with aclosing(task.listen(blocks(), language=now.language or None)) as heard:
                async for one in heard:
                    del now.lines[known:]
                    start, end = one["timestamp"]
                    now.lines.append(TimedLine(one["text"], start, end, one["final"]))
                    known += one["final"]
                    self._show_lines(now)
        except asyncio.CancelledError:
            del now.lines[known:]  # a phrase that was not finished
            self._show_lines(now)
        self.state.tell(f"Listened: {known} phrases in all")

    async def on_file(self, message: Message) -> None:
        await self.accept_files(message["files"])

    def accepts(self, name: str) -> bool:
        session = self.state.session
        return session is not None and hears(session.methods) and is_sound_file(name)

    async def accept_files(self, files: Sequence[Any]) -> None:
        """Transcribe sounds."""
        session = self.state.idle_session()
        task = await self._task(session) if session is not None else None
        if session is None or not isinstance(task, SpeechRecognition):
            return
        for file in files:
            name = self.state.browser.source(file).name
            self.state.tell(f"Reading {name}", "busy")
            samples = await self.state.browser.hear(file, task.rate, LONGEST_SECONDS)
            self.state.tell(f"Transcribing {name}", "busy")
            work = self._transcribe(task, self._now, samples, name)
            await self.state.do(session, work, f"transcribing {name}", at_once=True)

    async def _transcribe(
        self, task: SpeechRecognition, now: Speech, samples: np.ndarray, name: str
    ) -> None:
        began, length = perf_counter(), len(samples) / task.rate
        try:
            async with aclosing(task.stream(samples, language=now.language or None)) as chunks:
                async for chunk in chunks:
                    start, end = chunk["timestamp"]
                    now.lines.append(TimedLine(chunk["text"], start, end, True))
                    self._show_lines(now)
                    done = min(end, length)
                    self.state.tell(f"Transcribing {name}: {done:.0f} of {length:.0f} s", "busy")
        except asyncio.CancelledError:
            self.state.tell(f"Transcribing {name} was cancelled")
            return
        taken = perf_counter() - began
        self.state.tell(f"Transcribed {length:.1f} s of {name} in {taken:.1f} s")

    def on_language(self, message: Message) -> None:
        self._now.language = str(message["value"])

    def on_clear(self, _message: Message) -> None:
        now = self._now
        kept, now.lines = now.lines, []

        def back() -> None:
            now.lines = kept + now.lines
            self.draw()

        self.state.undo.offer("Cleared the text.", back)
        self.draw()

    def on_copy(self, _message: Message) -> None:
        text = "\n".join(line.text.strip() for line in self._now.lines)
        self.state.browser.show(copy={"text": text, "done": "Copied the text"})

    def _show_lines(self, now: Speech) -> None:
        self.state.browser.show(html={"speech-text": transcript(now.lines)})

    # ---- a text becomes sound

    async def on_speak(self, message: Message) -> None:
        session = self.state.idle_session()
        task = await self._task(session) if session is not None else None
        if session is None or not isinstance(task, TextToSpeech):
            return
        now = self._now
        now.text = str(message["fields"]["text"])
        if not now.text.strip():
            self.state.tell("Enter some text", "bad")
            return
        self.state.show(error="")
        self.state.tell("Speaking", "busy")
        await self.state.do(session, self._speak(task, now), "speaking", at_once=True)
        self.draw()

    async def _speak(self, task: TextToSpeech, now: Speech) -> None:
        began, parts = perf_counter(), []
        try:
            async with aclosing(task.stream(now.text)) as spoken:
                async for one in spoken:
                    parts.append(one["audio"])
                    self.state.tell(f"Speaking: {one['text'][:60]}", "busy")
        except asyncio.CancelledError:
            self.state.tell("Speaking was cancelled")
            return
        if not parts:
            self.state.tell("This voice knows none of these letters", "bad")
            return
        samples = np.concatenate(parts)
        now.audio = self.state.browser.download_url(wave_file(samples, task.rate))
        taken = perf_counter() - began
        now.summary = f"{len(samples) / task.rate:.1f} s of speech, made in {taken:.1f} s"
        self.state.tell(f"Spoke: {now.summary}")

    # ---- drawing

    def draw(self) -> None:
        session = self.state.session
        if session is None:
            return
        now = self._now
        if not now.searched:
            now.searched = True
            self.start(self._search(session, now), "looking for the model's files")
        if speaks(session.methods):
            shown = voice(self.act, now.text, now.audio, now.summary, now.task, now.problem)
        else:
            shown = recognizer(self.act, now.lines, now.language, now.task, now.problem)
        self.show(shown)


VIEW = View(
    "speech",
    "Speech",
    order=18,
    make=SpeechPanel,
    needs=(SPEECH,),
    follows=(Change.SESSION,),
    style=True,
    names_device=True,
    tasks=("automatic-speech-recognition", "text-to-speech"),
)

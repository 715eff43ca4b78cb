"""The panel of the task view: takes inputs, answers them as they come, and saves results."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from time import perf_counter
from typing import Any

from page.browser import Message
from page.core.session import Session
from page.core.state import AppState, Change
from page.core.task_files import bind_task
from page.shared.html.markup import render
from page.shared.html.units import ms_text
from page.shared.inputs.match_inputs import is_picture_file, is_sound_file
from page.shared.inputs.photos import Photo, whole_of
from page.shared.inputs.sounds import LONGEST_SECONDS
from page.views.task.asked import AskedTask
from page.views.task.markup import DEVICE, RESULT, result_view, task_view, title_of
from page.views.task.results import view_of_result
from page.views.task.results.answer import GivenPicture, GivenSound, TaskAnswer
from page.views.task.results.base import as_json
from page.views.view import Panel, View, ability
from webpte import tasks
from webpte.errors import SourceError, WebpteError
from webpte.tasks.form import PICTURE, SOUND, TaskForm

LONG_SECONDS = 1.0  # an answer that has taken longer is cancelled for newer inputs
LARGEST = 2048  # pixels a side of a picture
_RATE = 16_000  # of sounds, where a task says no other
_DOING = "answering"


def _form_of(session: Session) -> TaskForm | None:
    """Return the form of the program's task, if it has a task that this view shows."""
    name = session.source.task
    return tasks.find(name).form if name in tasks.names() else None


def _has_task(session: Session) -> bool:
    return _form_of(session) is not None


TASK = ability("Open a model with a task, by its manifest or its card.", _has_task)


class TaskPanel(Panel):
    def __init__(self, view: View, state: AppState) -> None:
        super().__init__(view, state)
        self._asked: AskedTask | None = None
        self._wanted = False  # whether inputs have changed since the last answer began
        self._following: asyncio.Task[None] | None = None

    def forget(self) -> None:
        self._wanted, self._following = False, None
        session = self.state.session
        if self._asked is not None:
            self._asked.close()
            kept, self._asked = self._asked, None
            if session is not None and session.source.task == kept.name:
                self._take_over(kept)

    def _take_over(self, kept: AskedTask) -> None:
        """Keep the inputs when a model of the same task is opened, such as the same one on
        another device."""
        now = self._now
        now.picture, now.sound, now.texts = kept.picture, kept.sound, kept.texts
        now.points, now.options = kept.points, kept.options
        self._wanted = True

    @property
    def _now(self) -> AskedTask:
        session = self.state.session
        assert session is not None  # as TASK says
        if self._asked is None:
            form = _form_of(session)
            assert form is not None  # as TASK says
            self._asked = AskedTask(session.source.task, form)
            self.start(self._bind(session, self._asked), "reading the model's files")
        return self._asked

    # ---- the task

    async def _bind(self, session: Session, asked: AskedTask) -> None:
        """Read the files beside the program, and make the task of them."""
        try:
            asked.task = await bind_task(asked.name, session, self.state.browser)
        except (WebpteError, ValueError) as error:
            asked.problem = f"This model cannot be used for {asked.name}: {error}"
            self.draw()
            return
        mask = getattr(asked.task, "mask", None)
        if isinstance(mask, str):  # of models that fill gaps
            asked.texts = {name: text.replace("[MASK]", mask) for name, text in asked.texts.items()}
        await self._take_example(session, asked)
        self.draw()
        self._follow()

    async def _take_example(self, session: Session, asked: AskedTask) -> None:
        """Start with the picture of the model's card, unless a picture is set already."""
        card = session.source.card
        if card is None or not card.picture or asked.form.kind != PICTURE or asked.picture:
            return
        try:
            data = await self.state.browser.fetch_bytes(card.picture)
            photo = await self.state.browser.decode(data, LARGEST)
        except (SourceError, ValueError):
            return  # there is no example, then
        if asked.picture is None:
            self._take_photo(asked, photo, card.picture.rpartition("/")[2])

    def on_again(self, message: Message) -> None:
        self._asked = None
        self.draw()

    # ---- inputs

    def accepts(self, name: str) -> bool:
        if self.state.front != self.view.name or not TASK.met(self.state):
            return False
        kind = self._now.form.kind
        return (kind == PICTURE and is_picture_file(name)) or (
            kind == SOUND and is_sound_file(name)
        )

    async def accept_files(self, files: Sequence[Any]) -> None:
        await self._take(files[0])

    async def on_files(self, message: Message) -> None:
        """Take a file that was chosen or dropped here."""
        await self._take(message["files"][0])

    async def on_npy(self, message: Message) -> None:
        """Take a recording, as sound.js sends it."""
        await self._take(message["files"][0])

    async def _take(self, file: Any) -> None:
        asked, browser = self._now, self.state.browser
        name = browser.source(file).name
        self.state.tell(f"Loading {name}", "busy")
        try:
            if asked.form.kind == SOUND:
                rate = int(getattr(asked.task, "rate", _RATE))
                samples = await browser.hear(file, rate, LONGEST_SECONDS)
                asked.sound = GivenSound(name, samples, rate)
            elif asked.form.kind == PICTURE:
                self._take_photo(asked, await browser.decode(file, LARGEST), name)
        except ValueError as error:
            self.state.show_error(error, f"reading {name}")
            return
        self.state.tell(f"{name} loaded")
        if asked is self._asked:
            self.draw()
            self._follow()

    def _take_photo(self, asked: AskedTask, photo: Photo, name: str) -> None:
        scale = min(1.0, LARGEST / max(photo.height, photo.width))
        height, width = (max(1, round(side * scale)) for side in (photo.height, photo.width))
        pixels = photo.part(whole_of(photo), height, width)
        photo.close()
        asked.picture = GivenPicture(name, pixels, self.state.browser.picture_url(pixels))
        asked.points = []

    def on_camera_open(self, message: Message) -> None:
        self._now.camera = True
        self.state.browser.show(frame=DEVICE)

    def on_camera_frame(self, message: Message) -> None:
        self._take_frame(message)

    def on_camera_picture(self, message: Message) -> None:
        """Take the last picture of the camera, which is closed now."""
        self._now.camera = False
        self._take_frame(message)

    def _take_frame(self, message: Message) -> None:
        asked = self._now
        self._take_photo(asked, self.state.browser.frame(message["bitmap"]), "the camera")
        self.draw()
        self._follow()

    def on_text(self, message: Message) -> None:
        self._now.texts[str(message["name"])] = str(message["value"])
        self._follow()

    def on_option(self, message: Message) -> None:
        asked, name = self._now, str(message["name"])
        for one in asked.form.sliders:
            if one.name == name:
                asked.options[name] = min(max(float(message["value"]), one.low), one.high)
        self.draw()
        self._follow()

    def on_point(self, message: Message) -> None:
        """Add a point of the picture; x and y are parts of its width and height."""
        asked = self._now
        if asked.form.points and asked.picture is not None:
            asked.points.append((float(message["x"]), float(message["y"])))
            self.draw()
            self._follow()

    def on_clear(self, message: Message) -> None:
        self._now.points.clear()
        self._now.answer = None
        self.draw()

    # ---- answers

    def _follow(self) -> None:
        """Answer the current inputs soon; a slow answer to older inputs is cancelled."""
        session, asked = self.state.session, self._asked
        if session is None or asked is None or asked.task is None:
            return
        if asked.missing():
            asked.answer = None
            self._show_result()
            return
        self._wanted = True
        if self._answering and session.runner.seconds > LONG_SECONDS:
            session.runner.cancel()
        if self._following is None:
            self._following = self.start(self._keep_up(session, asked), _DOING)

    @property
    def _answering(self) -> bool:
        session = self.state.session
        return session is not None and session.runner.busy and session.runner.doing == _DOING

    async def _keep_up(self, session: Session, asked: AskedTask) -> None:
        try:
            while self._wanted and asked is self._asked:
                if session.runner.busy:
                    await session.runner.wait()
                    await asyncio.sleep(0)
                    continue
                self._wanted = False
                self.state.tell("Answering", "busy")
                await self.state.do(
                    session,
                    self._answer(session, asked),
                    _DOING,
                    at_once=True,
                    redo=lambda: self._answer(session, asked),
                )
                self._show_result()
        finally:
            if asked is self._asked:
                self._following = None
        if asked.camera:
            self.state.browser.show(frame=DEVICE)

    async def _answer(self, session: Session, asked: AskedTask) -> None:
        if asked is not self._asked:
            return

        def tell(done: int, total: int) -> None:
            asked.done = done, total
            if session.runner.seconds > LONG_SECONDS:
                self._show_result()

        slow = asyncio.get_running_loop().call_later(LONG_SECONDS, self._show_result)
        started = perf_counter()
        try:
            session.lose_state("a task has used it")
            given = TaskAnswer(
                asked.name, None, 0, asked.picture, asked.sound, dict(asked.texts), asked.points[:]
            )
            result = await asked.run(tell)
        finally:
            slow.cancel()
            asked.done = None
        spent = 1000 * (perf_counter() - started)
        known = (given.picture, given.sound, given.texts, given.points)
        asked.answer = TaskAnswer(asked.name, result, spent, *known)
        self.state.show(error="")
        self.state.tell(f"Done in {ms_text(spent)}")

    def on_cancel(self, message: Message) -> None:
        session = self.state.session
        if session is not None and self._answering:
            self._wanted = False
            session.runner.cancel()
            self.state.tell("Cancelled")

    def on_setting(self, message: Message) -> None:
        """Change how the answer is shown; a button has its value in its data."""
        self._now.settings[str(message["name"])] = str(message["value"])
        self._show_result()

    # ---- files to save

    def on_copy(self, message: Message) -> None:
        answer = self._now.answer
        way = view_of_result(answer.result) if answer is not None else None
        if answer is not None and way is not None and way.text is not None:
            self.state.browser.show(copy={"text": way.text(answer), "done": "Copied the text"})

    def on_save(self, message: Message) -> None:
        answer = self._now.answer
        if answer is not None:
            text = json.dumps(as_json(answer.result), indent=1, ensure_ascii=False)
            self._download(text.encode(), "json")

    def on_file(self, message: Message) -> None:
        """Save the result in its special format."""
        answer = self._now.answer
        file = view_of_result(answer.result).file if answer is not None else None
        if answer is not None and file is not None:
            self._download(file.data(answer), file.ending)

    def on_png(self, message: Message) -> None:
        answer = self._now.answer
        if answer is None:
            return
        way = view_of_result(answer.result)
        if way.png is not None:
            self._download(way.png(answer), "png")
        else:
            self.tell_script(save=f"{self._stem(answer)}.png")

    def _stem(self, answer: TaskAnswer) -> str:
        given = answer.picture or answer.sound
        stem = given.name.rpartition(".")[0] if given is not None else ""
        return f"{stem}.{answer.task}" if stem else answer.task

    def _download(self, data: bytes, ending: str) -> None:
        answer = self._now.answer
        assert answer is not None
        name = f"{self._stem(answer)}.{ending}"
        url = self.state.browser.download_url(data)
        self.state.browser.show(download={"url": url, "name": name})
        self.state.tell(f"{name} saved")

    # ---- drawing

    def draw(self) -> None:
        session = self.state.session
        if session is None or not TASK.met(self.state):
            return
        asked = self._now
        self.show(task_view(asked, self.act, self._answering))
        self.tell_script(ready=title_of(asked.name))
        if self._wanted:
            self._follow()

    def _show_result(self) -> None:
        if self._asked is not None:
            shown = render(result_view(self._asked, self.act, self._answering))
            self.state.browser.show(html={RESULT: shown})


VIEW = View(
    "task",
    "Task",
    order=5,
    make=TaskPanel,
    needs=(TASK,),
    follows=(Change.SESSION,),
    style=True,
    names_device=True,
    leads=True,
)

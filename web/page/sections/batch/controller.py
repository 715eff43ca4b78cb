"""Several pictures at once: each is answered in turn, and a table shows the answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from copy import copy
from time import perf_counter
from typing import Any

from page.browser import Message
from page.core.session import Session
from page.core.state import AppState, Change
from page.core.throttle import Throttle
from page.sections.batch.picture_batch import (
    BatchRow,
    PictureBatch,
    answer_of,
    batch_csv,
    batch_json,
)
from page.sections.batch.view import HEAD, ROWS, batch_card, batch_head, batch_row
from page.shared.html.units import count_text, plural
from page.shared.inputs.inputs import TensorInput
from page.shared.inputs.photos import LARGEST, Photo, whole_of
from page.shared.inputs.preview import png_url
from webpte.errors import DeviceLostError, OutOfMemoryError, WebpteError

MOST = 1000  # pictures at once
_THUMBNAIL = 64  # pixels of its longer side


class BatchController:
    def __init__(self, state: AppState, load: Callable[[Message], Awaitable[None]]) -> None:
        """Build the controller; `load` loads the file of a message into its input."""
        self._state = state
        self._load = load
        self._batch: PictureBatch | None = None
        state.follow(self._follow, Change.SESSION, Change.METHOD)

    async def start(self, files: Sequence[Any], target: TensorInput) -> None:
        """Answer pictures for an input, one after the other."""
        if len(files) > MOST:
            raise ValueError(f"{count_text(len(files))} pictures: choose at most {MOST} at once")
        session = self._state.session
        if session is not None and session.stateful:
            raise ValueError(
                "this program keeps state from call to call, so the order of pictures matters: "
                "load them one at a time"
            )
        await self._state.stop_runs()
        session = self._state.idle_session()
        if session is None or target not in session.inputs:
            return
        problem = session.problem
        if problem is not None and problem is not target:
            self._state.tell(f"{problem.name} is not ready: {problem.error}", "bad")
            return
        batch = self._batch = PictureBatch(session.method, target, list(files))
        self._state.show(error="")
        self._state.show(batch=batch_card(batch, running=True))
        self._state.browser.show(reveal="batch")

        def work() -> Any:
            return self._answer_all(session, batch)

        await self._state.do(
            session, work(), f"answering {plural(len(files), 'picture')}", at_once=True, redo=work
        )
        self._draw_head(batch)  # an error has ended it, if it is not done

    async def _answer_all(self, session: Session, batch: PictureBatch) -> None:
        """Answer the pictures that have no answer yet."""
        throttle, total = Throttle(), len(batch.files)
        began, before = perf_counter(), batch.seconds
        self._state.tell(f"Answering {plural(total, 'picture')}", "busy")
        try:
            for file in batch.files[len(batch.rows) :]:
                row = await self._answer(session, batch, file)
                batch.rows.append(row)
                batch.seconds = before + perf_counter() - began
                if batch is self._batch:
                    at = len(batch.rows) - 1
                    self._state.browser.show(append={ROWS: batch_row(row, at)})
                    if throttle.ready():
                        self._draw_head(batch)
                await asyncio.sleep(0)  # handles messages: on NumPy a run never awaits
        except asyncio.CancelledError:
            done = f"{count_text(len(batch.rows))} of {plural(total, 'picture')}"
            self._state.tell(f"Cancelled: {done} answered")
            return
        failed = sum(bool(row.error) for row in batch.rows)
        told = f"{plural(total, 'picture')} answered"
        if failed:
            told = f"{count_text(total - failed)} of {told}"
        self._state.tell(told, "bad" if failed == total else "good")

    async def _answer(self, session: Session, batch: PictureBatch, file: Any) -> BatchRow:
        name = self._state.browser.source(file).name
        try:
            photo = await self._state.browser.decode(file, LARGEST)
        except ValueError as error:
            return BatchRow(name, error=str(error))
        try:
            arrays = [_array_of(state, batch.target, photo, name) for state in session.inputs]
            row = BatchRow(name, (photo.height, photo.width), _thumbnail(photo))
        finally:
            photo.close()
        started = perf_counter()
        try:
            values = await session.program.run(batch.method, *arrays)
        except (DeviceLostError, OutOfMemoryError):
            raise
        except WebpteError as error:
            return BatchRow(name, row.size, row.thumbnail, error=str(error))
        spent = 1000 * (perf_counter() - started)
        session.count_run(batch.method, arrays)
        card = session.source.card
        names = [info.name for info in session.methods[batch.method].outputs]
        cards = card.outputs if card is not None else ()
        scores, summaries = answer_of(values, names, session.labels, cards)
        return BatchRow(name, row.size, row.thumbnail, spent, scores, summaries)

    # ---- acts

    def on_batch_save(self, message: Message) -> None:
        """Download the table as CSV or JSON."""
        if self._batch is None:
            return
        kind = "json" if message["kind"] == "json" else "csv"
        data = batch_json(self._batch) if kind == "json" else batch_csv(self._batch)
        url = self._state.browser.download_url(data)
        self._state.browser.show(download={"url": url, "name": f"pictures.{kind}"})

    async def on_batch_open(self, message: Message) -> None:
        """Load the picture of a row into the input."""
        batch, at = self._batch, int(message["row"])
        if batch is not None and at < len(batch.rows):
            await self._load({"input": batch.target.index, "files": [batch.files[at]]})
            self._state.browser.show(reveal=f"input-{batch.target.index}")

    def on_batch_close(self, message: Message) -> None:
        self._batch = None
        self._state.show(batch="")

    # ---- drawing

    def _draw_head(self, batch: PictureBatch) -> None:
        session = self._state.session
        if batch is self._batch and session is not None:
            head = batch_head(batch, session.runner.busy and not batch.is_done)
            self._state.browser.show(html={HEAD: head})

    def _follow(self, change: Change) -> None:
        """Remove the table when its program or method is gone."""
        session, batch = self._state.session, self._batch
        if batch is None:
            return
        if session is None or batch.target not in session.inputs:
            self._batch = None
            self._state.show(batch="")


def _array_of(state: Any, target: TensorInput, photo: Photo, name: str) -> Any:
    """Return the array of an input, with the picture in the target; the page's input stays."""
    if state is not target:
        return state.array()
    taken = copy(target)
    taken.take_picture(photo, name)
    return taken.array()


def _thumbnail(photo: Photo) -> str:
    scale = min(1.0, _THUMBNAIL / max(photo.height, photo.width))
    height, width = (max(1, round(side * scale)) for side in (photo.height, photo.width))
    return png_url(photo.part(whole_of(photo), height, width))

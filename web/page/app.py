"""What happens when: the page's controller.

A message from the page names an act; the method `on_<act>` of this class or of a desk does it, or
for `<view>:<act>` that of the view's panel.
Nothing here imports the browser, so the whole page can be driven in CPython.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from page.browser import Browser, Message
from page.file_desk import FileDesk
from page.gallery_desk import GalleryDesk
from page.gpu_view import adapter_banner, no_gpu_banner, waiting_banner
from page.input_desk import InputDesk
from page.open_desk import OpenDesk
from page.output_desk import OutputDesk
from page.placing import is_array_file, is_picture_file
from page.remembered import Memory
from page.run_desk import RunDesk
from page.stage import Change, Stage
from page.view import Panel, View
from page.view_desk import ViewDesk
from page.views import find_views
from webpte import DeviceInfo

_ADAPTER_SECONDS = 15


class App:
    def __init__(self, browser: Browser, engine: Any, views: Sequence[View] | None = None) -> None:
        """`views` instead of those that are found."""
        self._stage = Stage(browser, engine)
        self._files = FileDesk(self._stage)
        self._outputs = OutputDesk(self._stage)
        self._inputs = InputDesk(self._stage, changed=self._inputs_changed)
        self._running = RunDesk(self._stage, self._files, self._inputs, self._outputs)
        self._memory = Memory(browser)
        self._opening = OpenDesk(self._stage, self._draw_session, self._memory.recall)
        self._views = ViewDesk(self._stage, find_views() if views is None else views)
        self._gallery = GalleryDesk(
            self._stage, self._opening, self._views, self._inputs, self._outputs
        )
        self._tasks: set[asyncio.Task[None]] = set()

    # ---- messages

    def receive(self, message: Message) -> asyncio.Task[None]:
        task = asyncio.ensure_future(self._act(message))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _act(self, message: Message) -> None:
        act = str(message.get("act"))
        session = self._stage.session
        try:
            result = self._handler(act)(message)
            if result is not None:
                await result
        except Exception as error:
            # What was closed meanwhile has nothing to tell any more.
            if session is None or session is self._stage.session:
                self._stage.show_error(error, f"while doing “{act}”")

    def _handler(self, act: str) -> Any:
        view, _, own = act.rpartition(":")
        name = f"on_{own.replace('-', '_')}"
        desks: tuple[object, ...] = (self._views.panel(view),)
        if not view:
            desks = (
                *(self, self._opening, self._gallery, self._inputs),
                *(self._running, self._outputs, self._views),
            )
        for desk in desks:
            if hasattr(desk, name):
                return getattr(desk, name)
        raise ValueError(f"the page sent {act!r}, which nothing handles")

    async def on_hello(self, message: Message) -> None:
        stage = self._stage
        stage.narrow = bool(message.get("narrow"))
        self._gallery.take(message.get("cards", ()))
        self._memory.take(message.get("remembered", {}))
        self._views.start()
        asking = asyncio.ensure_future(stage.browser.adapter())
        await asyncio.wait({asking}, timeout=_ADAPTER_SECONDS)
        if not asking.done():
            # Files can be inspected meanwhile; the answer is shown whenever it comes.
            stage.browser.show(html={"gpu": waiting_banner()}, state="ready")
            stage.tell("Ready")
        try:
            found = await asking
            if isinstance(found, DeviceInfo):
                stage.adapter = found
                banner = adapter_banner(found)
            else:
                stage.device = "numpy"
                banner = no_gpu_banner(found, runs_on_numpy=True)
        finally:
            stage.adapter_known.set()  # whatever the answer: openings wait for it
        stage.browser.show(html={"gpu": banner}, state="ready")
        stage.tell("Ready")
        stage.announce(Change.ADAPTER)

    def on_dismiss(self, message: Message) -> None:
        self._opening.forget_failure()
        self._stage.show(error="")

    # ---- what concerns several desks

    async def on_open_file(self, message: Message) -> None:
        """Files that were chosen or dropped: a program with its `.ptd` files, inputs for it, and
        what views take."""
        files, taken = list(message["files"]), dict[Panel, list[Any]]()
        for file in list(files):
            panel = self._views.taker(self._stage.browser.source(file).name)
            if panel is not None:
                taken.setdefault(panel, []).append(file)
                files.remove(file)
        sources = [self._stage.browser.source(file) for file in files]
        extra = tuple(one.data for one in sources if one.name.lower().endswith(".ptd"))
        pairs = list(zip(files, [one.name.lower() for one in sources], strict=True))
        arrays = [file for file, name in pairs if _is_input(name)]
        programs = [
            one
            for one in sources
            if not one.name.lower().endswith((".ptd", ".txt")) and not _is_input(one.name)
        ]
        labels = [file for file, name in pairs if name.endswith(".txt")]
        if len(programs) > 1:
            names = ", ".join(one.name for one in programs)
            raise ValueError(f"one program at a time, but these came together: {names}")
        ready = True
        if programs:
            ready = await self._opening.open(programs[0], extra)
        elif extra:
            ready = await self._opening.open_constants(extra)
        if ready:
            try:
                for file in labels:
                    await self._outputs.take_labels(file)
                if arrays:
                    await self._inputs.take_files(arrays)
            except ValueError as error:  # NpyError is one
                self._stage.show_error(error, "placing the values")
        for panel, its in taken.items():
            if ready:
                await self._views.take(panel, its)

    async def on_device(self, message: Message) -> None:
        """The same program elsewhere, with the inputs that it has here."""
        session, wanted = self._stage.session, str(message["value"])
        if session is None or wanted == session.device:
            return
        if not await self._opening.open(session.source, device=wanted):
            self._running.draw()  # the choice is what it was

    async def on_method(self, message: Message) -> None:
        session = self._stage.session
        await self._stage.stop_runs()
        if session is None or session is not self._stage.session:
            return
        session.choose(str(message["name"]))
        self._draw()
        self._stage.announce(Change.METHOD)

    async def on_close(self, message: Message) -> None:
        session = self._stage.session
        await self._stage.stop_runs()
        if session is None or session is not self._stage.session:
            return
        session.program.close()
        self._stage.session = None
        self._stage.show(error="")
        self._draw_session()
        self._stage.tell("Closed")

    def _inputs_changed(self) -> None:
        self._outputs.draw_age()
        if self._stage.session is not None:
            self._memory.keep(self._stage.session)
        self._stage.announce(Change.INPUTS)

    def _draw_session(self) -> None:
        """The session is another one: everything that belongs to it."""
        self._draw()
        self._stage.announce(Change.SESSION)

    def _draw(self) -> None:
        """What belongs to the session and its method, but for the views."""
        self._stage.browser.show(hidden={"welcome": self._stage.session is not None})
        self._files.draw()
        self._inputs.draw()
        self._running.clear_kernels()
        self._running.draw()
        self._outputs.draw()


def _is_input(name: str) -> bool:
    return is_array_file(name) or is_picture_file(name)

"""What happens when: the page's controller.

A message from the page names an act; the method `on_<act>` of this class or of a desk does it, or
for `<view>:<act>` that of the view's panel.
Nothing here imports the browser, so the whole page can be driven in CPython.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

from page.browser import Browser, Message
from page.controllers.file_controller import FileController
from page.controllers.gallery_controller import FILE, GalleryController
from page.controllers.input_controller import InputController
from page.controllers.library_controller import LibraryController
from page.controllers.open_controller import OpenController
from page.controllers.output_controller import OutputController
from page.controllers.palette_controller import PaletteController
from page.controllers.run_controller import RunController
from page.controllers.view_controller import ViewController
from page.inputs.match_inputs import is_input_file
from page.parts.gpu_view import adapter_banner, no_gpu_banner, waiting_banner
from page.persistence.last_program import LastSession
from page.persistence.settings import InputMemory
from page.session.palette import Command
from page.session.session import Session
from page.session.state import AppState, Change
from page.views import FoundViews, find_views
from page.views.view import Panel, View
from webpte import DeviceInfo

_ADAPTER_SECONDS = 15


class App:
    def __init__(self, browser: Browser, engine: Any, views: Sequence[View] | None = None) -> None:
        """`views` instead of those that are found."""
        self._stage = AppState(browser, engine)
        self._files = FileController(self._stage)
        self._outputs = OutputController(self._stage, chosen=self._keep_settings)
        self._inputs = InputController(self._stage, changed=self._inputs_changed)
        self._running = RunController(self._stage, self._files, self._inputs, self._outputs)
        self._memory = InputMemory(browser)
        self._last = LastSession(self._stage)
        self._opening = OpenController(self._stage, self._draw_session, self._recall)
        found = find_views() if views is None else FoundViews(list(views))
        self._views = ViewController(self._stage, found.views, found.problems)
        self._gallery = GalleryController(
            self._stage, self._opening, self._views, self._inputs, self._outputs
        )
        self._library = LibraryController(self._stage, self._gallery.open_address)
        self._closed: Session | None = None  # last, until another one is open
        self._tasks: set[asyncio.Task[None]] = set()
        self._stage.commands.append(self._commands)
        self._palette = PaletteController(self._stage)

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
                *(self._running, self._outputs, self._views, self._library, self._stage.undo),
            )
        for desk in desks:
            if hasattr(desk, name):
                return getattr(desk, name)
        raise ValueError(f"the page sent {act!r}, which nothing handles")

    async def on_hello(self, message: Message) -> None:
        stage = self._stage
        stage.narrow = bool(message.get("narrow"))
        self._gallery.take(message.get("cards", ()))
        stage.remembered = dict(message.get("remembered", {}))
        self._memory.take(stage.remembered)
        self._last.take(message.get("last"), linked=bool(message.get("linked")))
        self._views.start()
        looking = asyncio.ensure_future(self._library.refresh())
        self._palette.draw()
        asking = asyncio.ensure_future(stage.browser.adapter())
        await asyncio.wait({asking}, timeout=_ADAPTER_SECONDS)
        if not asking.done():
            # Files can be inspected meanwhile; the answer is shown whenever it comes.
            stage.browser.show(html={"gpu": waiting_banner()}, state="ready")
            self._tell_ready()
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
        self._tell_ready()
        stage.announce(Change.ADAPTER)
        await looking

    def _tell_ready(self) -> None:
        """Unless the page's address has something to tell already: that it opens, or cannot."""
        if not self._stage.told:
            self._stage.tell("Ready")

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
        arrays = [file for file, name in pairs if is_input_file(name)]
        programs = [
            one
            for one in sources
            if not one.name.lower().endswith((".ptd", ".txt")) and not is_input_file(one.name)
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
        await self._stage.stop_runs(finish=True)
        if session is None or session is not self._stage.session:
            return
        session.choose(str(message["name"]))
        with self._stage.browser.together():
            self._draw()
            self._stage.announce(Change.METHOD)

    async def on_close(self, message: Message) -> None:
        session = self._stage.session
        await self._stage.stop_runs()
        if session is None or session is not self._stage.session:
            return
        front = self._stage.front
        session.program.close()
        self._stage.session, self._closed = None, session
        self._stage.show(error="")
        self._draw_session()
        self._stage.tell("Closed")
        self._stage.undo.offer(
            f"Closed {session.source.name}.", lambda: self._reopen(session, front)
        )

    async def on_go(self, message: Message) -> None:
        """Back or forward: to a program by its address, to one without, or to none."""
        closed, file = self._closed, str(message.get("file") or "")
        if self._opening.forget_failure() or message.get("left"):
            # What could not be opened, or its card not be read, was there, and is here no longer.
            self._stage.show(error="")
            self._stage.tell("Ready")
        with self._gallery.going():
            if message.get("model") or message.get("url"):
                await self._gallery.go(message)
                return
            self._opening.cancel()
            if file and self._gallery.entry == (FILE, file):
                return
            if closed is not None and file == closed.source.name and self._stage.session is None:
                await self._reopen(closed, str(message.get("view") or ""))
                return
            await self.on_close(message)
            if file:
                self._stage.tell(f"{file} has no address to open it from: drop it again", "bad")

    async def _reopen(self, closed: Session, front: str) -> None:
        """What was closed, with its inputs, its results and the view that was in front."""
        if await self._opening.open(closed.source, device=closed.device, before=closed):
            self._views.bring_to_front(front)

    def _commands(self) -> Iterator[Command]:
        session = self._stage.session
        if session is None:
            return
        for info in session.methods.values():
            if not info.is_constant and info.name != session.method:
                yield Command(info.name, "method", {"name": info.name}, kind="Choose the method")
        yield Command(f"Close {session.source.name}", "close", late=True)

    def _recall(self, session: Session) -> None:
        """A program is as it was left on the last visit."""
        self._memory.recall(session)
        self._last.recall(session)

    def _inputs_changed(self) -> None:
        self._outputs.draw_age()
        self._keep_settings()
        self._stage.announce(Change.INPUTS)

    def _keep_settings(self) -> None:
        if self._stage.session is not None:
            self._memory.keep(self._stage.session)

    def _draw_session(self) -> None:
        """The session is another one: everything that belongs to it."""
        if self._stage.session is not None:
            self._closed = None
        with self._stage.browser.together():
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

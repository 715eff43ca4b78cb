"""The application: it passes each message of the page to the controller or view that handles it.

A message from the page names an act; the method `on_<act>` of this class or of a controller
handles it, or for `<view>:<act>` the view's panel. Nothing here imports the browser, so
the whole page can be driven in CPython.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from page.act_names import DOING, doing_text
from page.browser import Browser, FilesError, Message
from page.core.last_program import LastProgram
from page.core.palette import Command
from page.core.saved_inputs import SavedInputs
from page.core.session import Session
from page.core.state import AppState, Change
from page.sections.adapter.view import (
    adapter_pill,
    no_gpu_banner,
    problem_banner,
    waiting_banner,
)
from page.sections.batch.controller import BatchController
from page.sections.check.controller import CheckController
from page.sections.compiled.controller import CompiledController
from page.sections.gallery.controller import FILE, GalleryController
from page.sections.inputs.controller import ASSIGNING, InputController
from page.sections.library.controller import LibraryController
from page.sections.listen.controller import ListenController
from page.sections.open.controller import OpenController
from page.sections.open.dropped_folder import read_folder
from page.sections.open.file_section import draw_file
from page.sections.open.model_options import ModelOptions
from page.sections.outputs.controller import OutputController
from page.sections.run.controller import RunController
from page.sections.share.controller import ShareController
from page.sections.tune.controller import TuneController
from page.shared.html.markup import Html
from page.shared.inputs.match_inputs import is_input_file, is_media_file
from page.shared.persistence.manifests import read_dropped
from page.views import FoundViews, find_views
from page.views.tabs import ViewController
from page.views.view import Panel, View
from webpte import DeviceInfo
from webpte.engine.files.detached import detach

_ADAPTER_SECONDS = 15


class App:
    def __init__(self, browser: Browser, engine: Any, views: Sequence[View] | None = None) -> None:
        """Build the application; `views` replaces those found in `page/views`."""
        self._state = AppState(browser, engine)
        self._outputs = OutputController(self._state, chosen=self._save_inputs)
        self._inputs = InputController(self._state, changed=self._inputs_changed)
        self._running = RunController(self._state, self._draw_file, self._inputs, self._outputs)
        self._batch = BatchController(self._state, self._inputs.on_npy)
        self._inputs.many_pictures = self._batch.start
        self._listening = ListenController(self._state)
        self._saved = SavedInputs(self._state.store, browser.photo)
        self._last = LastProgram(self._state)
        self._opening = OpenController(self._state, self._draw_session, self._restore)
        found = find_views() if views is None else FoundViews(list(views))
        self._views = ViewController(self._state, found.views, found.problems)
        self._gallery = GalleryController(
            self._state, self._opening, self._views, self._inputs, self._outputs
        )
        self._library = LibraryController(self._state, self._gallery.open_address)
        self._compiled = CompiledController(self._state, self._views.bring_to_front)
        self._options = ModelOptions(self._state, self._opening)
        self._checking = CheckController(self._state, self._opening)
        self._tuning = TuneController(self._state)
        self._share = ShareController(self._state, self._saved, lambda: self._gallery.entry)
        self._closed: Session | None = None  # the last one, until another is open
        self._tasks: set[asyncio.Task[None]] = set()
        self._state.commands.append(self._commands)
        self._awake = False  # whether the page was last told to keep the screen on
        self._state.follow(self._open_gpu_early, Change.OPENING, Change.ADAPTER)
        self._state.follow(self._keep_awake, Change.OPENING, Change.BUSY, Change.SESSION)
        self._state.follow(self._note_address, Change.ADDRESS)

    # ---- messages

    def receive(self, message: Message) -> asyncio.Task[None]:
        task = asyncio.ensure_future(self._act(message))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _act(self, message: Message) -> None:
        act = str(message.get("act"))
        session, before = self._state.session, self._state.failure
        try:
            result = self._handler(act)(message)
            if result is not None:
                await result
        except Exception as error:
            # Errors of a program that was closed meanwhile are dropped.
            if session is None or session is self._state.session:
                self._state.show_error(error, self._doing(act))
        else:
            still = before if before is self._state.failure and act in DOING else None
            if still is not None and still[0] == self._doing(act):  # other acts are called the same
                self._state.show(error="")

    def _doing(self, act: str) -> str:
        """Describe an act for an error."""
        panel = self._views.panel(act.partition(":")[0])
        return doing_text(act, panel.view.title if panel is not None and ":" in act else "")

    def _handler(self, act: str) -> Any:
        view, _, own = act.rpartition(":")
        name = f"on_{own.replace('-', '_')}"
        controllers: tuple[object, ...] = (self._views.panel(view),)
        if not view:
            controllers = (
                *(self, self._opening, self._options, self._gallery, self._inputs),
                *(self._running, self._checking, self._outputs, self._views, self._library),
                *(self._batch, self._listening, self._share, self._tuning, self._state.undo),
                self._compiled,
            )
        for controller in controllers:
            if hasattr(controller, name):
                return getattr(controller, name)
        raise ValueError(f"the page sent {act!r}, which nothing handles")

    async def on_hello(self, message: Message) -> None:
        state = self._state
        state.narrow = bool(message.get("narrow"))
        state.agent, state.base = str(message.get("agent", "")), str(message.get("base", ""))
        state.hash = str(message.get("hash", ""))
        self._gallery.load(message.get("cards", ()))
        state.store.load(message.get("stored", {}))
        state.tab_store.load(message.get("tab", {}))
        self._saved.take_fragment(state.hash)
        self._last.load(linked=bool(message.get("linked")))
        self._views.start()
        looking = asyncio.ensure_future(self._library.refresh())
        self.on_palette(message)
        asking = asyncio.ensure_future(state.browser.adapter())
        await asyncio.wait({asking}, timeout=_ADAPTER_SECONDS)
        if not asking.done():
            # Files can be inspected meanwhile; the answer is shown when it comes.
            state.browser.show(html={"gpu": waiting_banner()}, state="ready")
            self._tell_ready()
        pill = Html("")  # nothing without an adapter
        try:
            found = await asking
            if isinstance(found, DeviceInfo):
                state.adapter = found
                pill, banner = adapter_pill(found), problem_banner(found)
            else:
                state.device = "numpy"
                banner = no_gpu_banner(found, runs_on_numpy=True)
        finally:
            state.adapter_known.set()  # in any case: openings wait for it
        state.browser.show(html={"adapter": pill, "gpu": banner}, state="ready")
        self._tell_ready()
        state.announce(Change.ADAPTER)
        await looking

    def _tell_ready(self) -> None:
        """Set the status to "Ready", unless the page's address has set another one."""
        if not self._state.status:
            self._state.tell("Ready")

    def on_dismiss(self, message: Message) -> None:
        self._opening.forget_failure()
        self._state.show(error="")

    # ---- acts that concern several controllers

    async def on_open_file(self, message: Message) -> None:
        """Open files that were chosen or dropped: a program, its `.ptd` files, inputs, labels,
        files of views."""
        if self._compiled.takes(message["files"], message.get("paths") or ()):
            await self._compiled.open(message["files"], message.get("paths") or ())
            return
        if message.get("paths"):
            await self._opening.open(await read_folder(self._state, message))
            return
        files, accepted = list(message["files"]), dict[Panel, list[Any]]()
        task, beside = await read_dropped(self._state.browser, files, is_media_file)
        files = [file for file in files if file not in beside.values()]
        for file in list(files):
            panel = self._views.accepting_panel(self._state.browser.source(file).name)
            if panel is not None:
                accepted.setdefault(panel, []).append(file)
                files.remove(file)
        sources = [self._state.browser.source(file) for file in files]
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
            raise FilesError(f"open one program at a time; these came together: {names}")
        ready = True
        if programs:
            program = replace(programs[0], task=task, beside=beside)
            ready = await self._opening.open(program, extra)
        elif extra:
            ready = await self._opening.open_constants(extra)
        if ready:
            try:
                for file in labels:
                    await self._outputs.accept_labels(file)
                if arrays:
                    await self._inputs.accept_files(arrays)
            except ValueError as error:  # also NpyError
                self._state.show_error(error, ASSIGNING)
        for panel, its in accepted.items():
            if ready:
                await self._views.accept_files(panel, its)

    async def on_device(self, message: Message) -> None:
        """Open the current program on another device, with the same inputs."""
        session, wanted = self._state.session, str(message["value"])
        if session is None or wanted == session.device:
            return
        if not await self._opening.open(session.source, device=wanted):
            self._running.draw()  # shows the device that is still in use

    async def on_method(self, message: Message) -> None:
        session = self._state.session
        await self._state.stop_runs(finish=True)
        if session is None or session is not self._state.session:
            return
        session.choose(str(message.get("value") or message["name"]))
        with self._state.browser.together():
            self._draw()
            self._state.announce(Change.METHOD)

    async def on_close(self, message: Message) -> None:
        session = self._state.session
        await self._state.stop_runs()
        if session is None or session is not self._state.session:
            return
        front = self._state.front
        session.program.close()
        self._state.session, self._closed = None, session
        self._state.show(error="")
        self._draw_session()
        self._state.tell("Closed")
        self._state.undo.offer(
            f"Closed {session.source.name}.", lambda: self._reopen(session, front)
        )
        await self._state.browser.hold(None)

    async def on_go(self, message: Message) -> None:
        """Go back or forward in the history: to a program with or without a URL, or to none."""
        closed, file = self._closed, str(message.get("file") or "")
        if self._opening.forget_failure() or message.get("left"):
            # The message belongs to the entry that was left.
            self._state.show(error="")
            self._state.tell("Ready")
        with self._gallery.going():
            if message.get("model") or message.get("url"):
                await self._gallery.go(message)
                return
            self._gallery.forget_link()
            self._opening.cancel()
            if file and self._gallery.entry == (FILE, file):
                return
            if closed is not None and file == closed.source.name and self._state.session is None:
                await self._reopen(closed, str(message.get("view") or ""))
                return
            await self.on_close(message)
            if file:
                self._state.tell(f"{file} has no URL to open it from: drop it again", "bad")

    async def _reopen(self, closed: Session, front: str) -> None:
        """Open a closed program again, with its inputs, results and front view."""
        await self._opening.open(
            closed.source,
            device=closed.device,
            before=closed,
            options=closed.program.options,
            drawn=lambda: self._views.bring_to_front(front),
        )

    def _commands(self) -> Iterator[Command]:
        session = self._state.session
        if session is None:
            return
        for info in session.methods.values():
            if not info.is_constant and info.name != session.method:
                yield Command(info.name, "method", {"name": info.name}, kind="Methods")
        yield Command(f"Close {session.source.name}", "close", kind="Program", late=True)

    def _open_gpu_early(self, change: Change) -> None:
        """Open and test the GPU while a program is fetched; loading it reports what fails."""
        state = self._state
        if state.opening and state.adapter is not None and state.device == "webgpu":
            detach(state.engine.shared_device())

    def _note_address(self, change: Change) -> None:
        """Show and keep the name of a copy, which may be another."""
        self._draw_file()
        self._save_inputs()

    def _keep_awake(self, change: Change) -> None:
        """Keep the screen on while a program is opened, works or is tuned."""
        session = self._state.session
        busy = session is not None and session.runner.busy
        works = bool(self._state.opening) or busy or self._state.tuning
        if works != self._awake:
            self._awake = works
            self._state.browser.show(awake=works)

    def on_palette(self, message: Message) -> None:
        """List the commands of the palette, which has been opened."""
        found = [command for source in self._state.commands for command in source()]
        found.sort(key=lambda command: command.late)
        self._state.browser.show(commands=[command.message() for command in found])

    def _restore(self, session: Session) -> None:
        """Restore the inputs, outputs and method of the last visit."""
        self._saved.restore(session)
        self._last.restore(session)

    def _inputs_changed(self) -> None:
        if not self._running.answers_changes:  # a note that a new answer removes would flicker
            self._outputs.draw_age()
        self._save_inputs()
        self._state.announce(Change.INPUTS)
        self._running.inputs_changed()

    def _save_inputs(self) -> None:
        if self._state.session is not None:
            self._saved.save(self._state.session)

    def _draw_session(self) -> None:
        """Draw everything that depends on the session, which has changed."""
        if self._state.session is not None:
            self._closed = None
            self._take_adapter(self._state.session.program.device_info)
        with self._state.browser.together():
            self._draw()
            self._state.announce(Change.SESSION)

    def _take_adapter(self, info: DeviceInfo) -> None:
        """Show the result of the self-test, once a program has opened the GPU."""
        known = self._state.adapter
        if known is not None and info.self_test is not None and info.self_test != known.self_test:
            self._state.adapter = info
            self._state.show(adapter=adapter_pill(info), gpu=problem_banner(info))
            self._state.announce(Change.ADAPTER)

    def _draw_file(self) -> None:
        draw_file(self._state)

    def _draw(self) -> None:
        """Draw all that depends on the session and its method, except the views."""
        self._state.browser.show(hidden={"welcome": self._state.session is not None})
        self._draw_file()
        self._inputs.draw()
        self._running.clear_kernels()
        self._running.draw()
        self._outputs.draw()

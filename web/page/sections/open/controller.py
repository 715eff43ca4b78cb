"""Opening of programs: a new session is built, and replaces the old one once it is complete.

Until then the old one keeps working, and if opening fails it stays. Of several openings the newest
wins; programs of older ones are closed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from time import perf_counter
from typing import Any

from page.browser import FilesError, Message, OpenProgram, Progress, Source
from page.core.loaded_text import loaded_text
from page.core.open_tabs import elsewhere_text
from page.core.palette import Command
from page.core.runner import Timing
from page.core.saved_inputs import read_fingerprint
from page.core.session import Session
from page.core.state import AppState, Change
from page.core.typed_address import site_of, typed_address
from page.sections.open.constant_methods import read_constant_methods
from page.sections.open.context_question import ContextQuestion, TooLargeError, longest_context
from page.sections.open.failure import FailedOpening, actions_for, lacks_constants, note_for
from page.sections.open.fetch_program import fetch_program
from page.sections.open.file_view import contents_view, unloaded_view
from page.sections.open.progress import OpeningProgress
from page.sections.open.variant_question import VariantQuestion
from page.sections.open.view import opening_card
from page.shared.cards.cards import Card
from page.shared.html.errors import unfetched_text
from webpte import Download, MethodInfo, Options
from webpte.engine.open.library import LOCAL
from webpte.engine.open.open_source import let_go
from webpte.errors import SourceError
from webpte.inspection.report import MemoryForecast

LARGE_BYTES = 100 << 20  # from which a second copy of a program matters


class _SupersededError(Exception):
    """The opening was cancelled, or something newer was opened."""


_URL_FIELD = "[data-act=open-url] [name=url]"


class OpenController:
    def __init__(
        self, state: AppState, draw: Callable[[], None], recall: Callable[[Session], None]
    ) -> None:
        """Build the controller; `draw` draws a session, `recall` restores its inputs."""
        self._recall = recall
        self._state = state
        self._draw = draw
        self._turn = 0  # of the newest opening
        self._loading: asyncio.Future[Session] | None = None  # by the newest opening
        self._coming: Source | None = None  # as far as known before it is fetched
        self._failed: FailedOpening | None = None
        self._inspected: Mapping[str, MethodInfo] | None = None  # by the newest opening
        self._progress: OpeningProgress | None = None  # of the newest opening
        self._context = ContextQuestion(state)
        self._variant = VariantQuestion(state)
        self._elsewhere: list[OpenProgram] = []  # open in other tabs when it began to load
        state.commands.append(self._commands)

    @property
    def turn(self) -> int:
        """The number of the newest opening; it changes when that is cancelled or replaced."""
        return self._turn

    @property
    def coming(self) -> Source | None:
        """The program that is being opened: its address, card and name."""
        return self._coming if self._state.opening else None

    def _commands(self) -> Iterator[Command]:
        if self._state.opening:
            yield Command("Cancel opening", "cancel-opening", kind="Open")
            if self._progress is not None and self._progress.download is not None:
                paused = self._progress.download.paused
                title = f"{'Resume' if paused else 'Pause'} download"
                yield Command(title, "pause-opening", kind="Open")
        yield Command("Choose files …", press="[data-act=open-file]", kind="Open", also="load pte")
        yield Command("Open URL …", press=_URL_FIELD, kind="Open", also="load hub hugging face")

    async def on_open_url(self, message: Message) -> None:
        address = typed_address(str(message["fields"]["url"]))
        with contextlib.suppress(SourceError, ValueError):  # no address: opening it says so
            # Who types an address wants the file; a link may have named its site before.
            self._state.browser.unkept.discard(site_of(self._state.browser, address))
        await self.open(address)

    async def on_retry(self, message: Message) -> None:
        if self._failed is not None:
            failed = self._failed
            await self.open(failed.wanted, failed.extra, card=failed.card)

    async def on_retry_on_numpy(self, message: Message) -> None:
        """Open the program that failed on the GPU, and all later programs, on NumPy."""
        self._state.device = "numpy"
        await self.on_retry(message)

    def on_open_context(self, message: Message) -> None:
        """Open a language model with the context that was chosen."""
        self._context.answer(message)

    def on_open_variant(self, message: Message) -> None:
        """Open the chosen program of a repository."""
        self._variant.answer(message)

    async def on_shorter_context(self, message: Message) -> None:
        """Ask for a context, and open the program that had not enough memory with it."""
        self._context.force()
        await self.on_retry(message)

    def on_cancel_opening(self, message: Message) -> None:
        self.cancel()

    def on_pause_opening(self, message: Message) -> None:
        """Pause the download of the current opening, or continue it."""
        if self._state.opening and self._progress is not None:
            self._progress.toggle_pause()

    def cancel(self) -> None:
        """Cancel the current opening, if any."""
        if not self._state.opening:
            return
        self._begin_turn()
        self._state.show(progress="")
        self._state.tell("Opening was cancelled")
        self._announce("")

    def _begin_turn(self) -> int:
        """End the current opening at once, with its requests; return the number of the next."""
        self._turn += 1
        if self._loading is not None:
            self._loading.cancel()
            self._loading = None
        return self._turn

    def _announce(self, opening: str) -> None:
        self._state.opening = opening
        self._state.announce(Change.OPENING)

    async def open_constants(self, extra: tuple[Any, ...]) -> bool:
        """Open the program that lacks constants, or has others from `.ptd` files, with the files
        that were dropped alone."""
        session = self._state.session
        if self._failed is not None and self._failed.takes_constants:
            return await self.open(self._failed.wanted, extra, card=self._failed.card)
        if session is not None:
            source, failure = session.source, self._state.failure
            if not source.extra and (failure is None or not lacks_constants(failure[1])):
                # It could be loaded without, so it has no use for any.
                self._state.tell(
                    f"The .ptd file was not used: {source.name} has all its constants", "bad"
                )
                return True
            if source.address.startswith(LOCAL):  # the copy there has other constants
                source = replace(source, address="")
            return await self.open(source, extra)
        raise FilesError(
            "a .ptd file holds only the constants of a program: choose its .pte together with it"
        )

    def forget_failure(self) -> bool:
        """Forget the last failure; return whether there was a failure."""
        failed, self._failed = self._failed, None
        return failed is not None

    async def open(
        self,
        wanted: Source | str,
        extra: tuple[Any, ...] | None = None,
        device: str | None = None,
        card: Card | None = None,
        before: Session | None = None,
        options: Options | None = None,
        prepare: Callable[[Session], None] | None = None,
        drawn: Callable[[], None] | None = None,
    ) -> bool:
        """Open a program and show errors; return whether it is on the page now.

        `before` is a closed session of the same program, to continue from. `options` are those of
        `webpte.load`. `prepare` is called with the new session before it is drawn, `drawn` when
        that is done, with all that the page shows at once: a view that is chosen later stays.
        """
        turn, state = self._begin_turn(), self._state
        name = _name_of(wanted, card)
        if extra is None:
            extra = wanted.extra if isinstance(wanted, Source) else ()
        self._inspected = None
        self._coming = (
            wanted
            if isinstance(wanted, Source)
            else Source(name, 0, None, address=wanted, card=card)
        )
        state.show(progress=opening_card(name))
        state.tell(f"Opening {name}", "busy")
        self._announce(name)
        try:
            how = {"device": device, "options": options}
            self._loading = asyncio.ensure_future(self._load(wanted, extra, how, card, turn))
            session = await self._loading
            await self._replace(session, turn, before, prepare, drawn)
            await self._note_tabs(session)
        except _SupersededError:
            return False
        except asyncio.CancelledError:
            if turn == self._turn:  # this call was cancelled, not the opening
                raise
            return False
        except Exception as error:
            if turn == self._turn:
                self._failed = FailedOpening(wanted, extra, card, error)
                self._tell_failure(error, name)
                self._announce("")
            return False
        return True

    async def _load(
        self,
        wanted: Source | str,
        extra: tuple[Any, ...],
        how: Mapping[str, Any],
        card: Card | None,
        turn: int,
    ) -> Session:
        download = Download() if isinstance(wanted, str) else None
        progress = OpeningProgress(self._state, download, lambda: turn == self._turn)
        self._progress = progress
        if isinstance(wanted, str):
            browser = self._state.browser
            progress("fetch", 0, 0)
            fetched = await fetch_program(browser, wanted, progress, download, self._variant.choose)
            name = _name_of(fetched, card)
            task = card.task if card is not None else fetched.task
            extra = extra or fetched.extra
            wanted = replace(fetched, name=name, card=card, task=task)
        source = replace(wanted, extra=extra)
        try:
            self._check(turn)  # fetching may take long
            return await self._load_source(source, how, turn, progress)
        except BaseException as error:
            if source.file is not None:
                let_go(source.file, error)
            raise

    async def _load_source(
        self, source: Source, how: Mapping[str, Any], turn: int, progress: Progress
    ) -> Session:
        state, extra, device = self._state, source.extra, how["device"]
        progress("read", 0, 0)
        methods = await state.engine.inspect(source.data, data=extra, name=source.name)
        self._check(turn)
        self._inspected = methods
        state.show(arriving=contents_view(methods, state.limits))
        if device is None:
            await state.adapter_known.wait()  # a quick click comes before the adapter is known
            device = state.device

        self._elsewhere = await state.browser.open_elsewhere()
        others = elsewhere_text(self._elsewhere)
        agreed = False  # to a context, even if it does not fit

        def show_forecast(forecast: MemoryForecast) -> None:
            self._check(turn)
            told = self._context.told(forecast)
            if not agreed:
                self._context.check(told, methods)
            state.show(arriving=contents_view(methods, state.limits, told, others))

        while True:
            started = perf_counter()
            try:
                program = await state.engine.load(
                    source.data,
                    data=extra,
                    device=device,
                    progress=progress,
                    name=source.name,
                    on_forecast=show_forecast,
                    options=how["options"] or source.options,
                    max_context=source.max_context,
                    kv_cache=source.kv_cache,
                )
                break
            except TooLargeError as error:
                agreed = True
                if await self._context.can_shorten(source, methods):
                    self._check(turn)
                    chosen = await self._context.ask(source.name, error.forecast, methods)
                    if chosen < longest_context(methods):
                        source = replace(source, max_context=chosen)
                self._check(turn)
        if source.max_context is not None:
            methods = program.methods
        spent = 1000 * (perf_counter() - started)
        try:
            self._check(turn)
            values = await read_constant_methods(methods, program)
            stateful = any(info.keeps_state for info in methods.values())
            known = await read_fingerprint(program)
            session = Session(source, methods, program, device, stateful, values, known)
            session.runner.timing = Timing(load=spent, stages=program.stats.load_ms)
        except BaseException:
            program.close()
            raise
        return session

    async def _replace(
        self,
        session: Session,
        turn: int,
        before: Session | None,
        prepare: Callable[[Session], None] | None,
        drawn: Callable[[], None] | None,
    ) -> None:
        """Replace the old session by the new one; nothing can fail from here on."""
        state, ended = self._state, _run_that_ends(self._state.session)
        await state.stop_runs()
        if turn != self._turn:
            session.program.close()
            raise _SupersededError
        old = state.session
        self._recall(session)
        before = old or before
        if before is not None:
            session.continue_from(before)
        if prepare is not None:
            prepare(session)
        if old is not None:
            old.program.close()
        state.session, state.device, state.opening = session, session.device, ""
        self._failed = None
        state.undo.forget()
        with state.browser.together():
            state.show(progress="", error="")
            self._draw()
            if drawn is not None:
                drawn()
            state.tell(loaded_text(session) + ended)

    async def _note_tabs(self, session: Session) -> None:
        """Say if another tab has the same large program open."""
        source, state, stats = session.source, self._state, session.program.stats
        key = source.key
        await state.browser.hold(OpenProgram(source.name, key, stats.buffer_bytes))
        shared = any(program.key == key for program in self._elsewhere)
        if shared and source.size >= LARGE_BYTES and session is state.session:
            state.tell(
                f"{source.name} is also open in another tab; each tab holds its own copy in GPU "
                "memory"
            )

    def _check(self, turn: int) -> None:
        if turn != self._turn:
            raise _SupersededError

    def _tell_failure(self, error: Exception, name: str) -> None:
        state = self._state
        actions = actions_for(error, self._inspected)
        still = state.session.source.name if state.session is not None else ""
        note = note_for(error, still, elsewhere_text(self._elsewhere))
        state.show(progress="")
        state.show_error(
            error,
            f"opening {name}",
            actions,
            note,
            unloaded_view(name, self._inspected, state.limits) if self._inspected else None,
        )
        if unfetched := unfetched_text(error, name):
            state.tell(unfetched, "bad")


def _run_that_ends(session: Session | None) -> str:
    """Say which run ends because another program opens."""
    if session is None or not session.runner.busy:
        return ""
    return f"; that ended {session.runner.doing} of {session.source.name}"


def _name_of(wanted: Source | str, card: Card | None) -> str:
    if card is not None:
        return f"{card.name}.pte"  # files of installed models are all called model.pte
    return wanted.name if isinstance(wanted, Source) else wanted.rsplit("/", 1)[-1] or wanted

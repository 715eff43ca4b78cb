"""Opening: a new session is made beside the one on the page, and replaces it once it is complete.

Until then the old one works as ever, and if anything goes wrong it simply stays. Of several
openings the newest wins; what an older one still brings is closed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from time import perf_counter
from typing import Any

from page.browser import Message, Progress, Source
from page.cards import Card
from page.file_view import contents_view, unloaded_view
from page.output_view import Output
from page.run_view import Timing
from page.session import Session
from page.stage import Stage
from page.status_view import causes, opening_card, progress_view
from page.units import ms_text, number_text, shape_text
from webpte import MethodInfo, Program, TensorInfo
from webpte.errors import DeviceLostError, OutOfMemoryError, SourceError, WebpteError

REDRAW_SECONDS = 0.08  # how often a running figure is drawn again


class _SupersededError(Exception):
    """Something newer was opened, or this was cancelled: nobody waits for it any more."""


class OpenDesk:
    def __init__(
        self, stage: Stage, draw: Callable[[], None], recall: Callable[[Session], None]
    ) -> None:
        """`draw` draws everything that belongs to a session; `recall` sets inputs as they were."""
        self._recall = recall
        self._stage = stage
        self._draw = draw
        self._turn = 0  # of the newest opening
        # What could not be opened, with its .ptd files and its card.
        self._failed: tuple[Source | str, tuple[Any, ...], Card | None] | None = None
        self._inspected: Mapping[str, MethodInfo] | None = None  # by the newest opening

    async def on_open_url(self, message: Message) -> None:
        await self.open(str(message["fields"]["url"]).strip())

    async def on_retry(self, message: Message) -> None:
        if self._failed is not None:
            wanted, extra, card = self._failed
            await self.open(wanted, extra, card=card)

    def on_cancel_opening(self, message: Message) -> None:
        self._turn += 1
        self._stage.show(progress="")
        self._stage.tell("Opening was cancelled")

    async def open_constants(self, extra: tuple[Any, ...]) -> bool:
        """`.ptd` files alone: for the program that could not be opened just now, or the open one"""
        session = self._stage.session
        if self._failed is not None:
            return await self.open(self._failed[0], extra)
        if session is not None:
            return await self.open(session.source, extra)
        raise ValueError(
            "a .ptd file holds only the constants of a program: choose its .pte with it"
        )

    def forget_failure(self) -> None:
        """Its message was dismissed."""
        self._failed = None

    async def open(
        self,
        wanted: Source | str,
        extra: tuple[Any, ...] | None = None,
        device: str | None = None,
        card: Card | None = None,
    ) -> bool:
        """Whether it is on the page now. What goes wrong is told here."""
        self._turn += 1
        turn, stage = self._turn, self._stage
        name = _name_of(wanted, card)
        if extra is None:
            extra = wanted.extra if isinstance(wanted, Source) else ()
        self._inspected = None
        stage.show(progress=opening_card(name))
        stage.tell(f"Opening {name}", "busy")
        try:
            session = await self._load(wanted, extra, device, card, turn)
            await self._replace(session, turn)
        except _SupersededError:
            return False
        except Exception as error:
            if turn == self._turn:
                self._failed = wanted, extra, card
                self._tell_failure(error, name)
            return False
        return True

    async def _load(
        self,
        wanted: Source | str,
        extra: tuple[Any, ...],
        device: str | None,
        card: Card | None,
        turn: int,
    ) -> Session:
        stage, progress = self._stage, self._progress(turn)
        if isinstance(wanted, str):
            progress("fetch", 0, 0)
            fetched = await stage.browser.fetch(wanted, progress)
            name = _name_of(fetched, card)
            wanted = replace(fetched, name=name, address=wanted, card=card)
        source = replace(wanted, extra=extra)
        progress("read", 0, 0)
        methods = await stage.engine.inspect(source.data, data=extra)
        self._check(turn)
        self._inspected = methods
        stage.show(arriving=contents_view(methods, self._limits))
        if device is None:
            await stage.adapter_known.wait()  # what is clicked at once is faster than the browser
            device = stage.device
        started = perf_counter()
        program = await stage.engine.load(
            source.data, data=extra, device=device, progress=progress, name=source.name
        )
        spent = 1000 * (perf_counter() - started)
        try:
            self._check(turn)
            values = await _read_constant_methods(methods, program)
            stateful = any(info.keeps_state for info in methods.values())
            session = Session(source, methods, program, device, stateful, values)
            session.runner.timing = Timing(load=spent, stages=program.stats.load_ms)
        except BaseException:
            program.close()
            raise
        return session

    async def _replace(self, session: Session, turn: int) -> None:
        """From here on nothing can fail: the old session ends, the new one is the page's."""
        stage = self._stage
        await stage.stop_runs()
        if turn != self._turn:
            session.program.close()
            raise _SupersededError
        old = stage.session
        self._recall(session)
        if old is not None:
            session.continue_from(old)
            old.program.close()
        stage.session, stage.device = session, session.device
        self._failed = None
        stage.show(progress="", error="")
        self._draw()
        spent = session.runner.timing.load or 0
        stage.tell(f"{session.source.name} is loaded, {ms_text(spent)}")

    def _check(self, turn: int) -> None:
        if turn != self._turn:
            raise _SupersededError

    @property
    def _limits(self) -> Mapping[str, int]:
        return self._stage.adapter.limits if self._stage.adapter is not None else {}

    def _tell_failure(self, error: Exception, name: str) -> None:
        stage, kinds = self._stage, list(causes(error))
        again = any(isinstance(cause, DeviceLostError | SourceError) for cause in kinds)
        note = ""
        if not isinstance(error, WebpteError | MemoryError):
            note = "This looks like a fault of webpte: the details below say where. "
        if stage.session is not None:
            note += f"{stage.session.source.name} is still loaded, with its inputs and results."
            if any(isinstance(cause, OutOfMemoryError | MemoryError) for cause in kinds):
                note += " Close it first: that frees its memory."
        stage.show(progress="")
        stage.show_error(
            error,
            f"opening {name}",
            {"retry": "Try again"} if again else None,
            note,
            unloaded_view(name, self._inspected, self._limits) if self._inspected else None,
        )

    def _progress(self, turn: int) -> Progress:
        """Draws the stages, but not more often than anybody can see."""
        amounts: dict[str, tuple[int, int]] = {}
        drawn = 0.0

        def progress(stage: str, done: int, total: int) -> None:
            nonlocal drawn
            new = stage not in amounts
            amounts[stage] = (int(done), int(total))
            now = perf_counter()
            if turn == self._turn and (new or now - drawn > REDRAW_SECONDS):
                drawn = now
                self._stage.show(stages=progress_view(amounts))

        return progress


def _name_of(wanted: Source | str, card: Card | None) -> str:
    if card is not None:
        return f"{card.name}.pte"  # the file of an installed model is called model.pte
    return wanted.name if isinstance(wanted, Source) else wanted.rsplit("/", 1)[-1] or wanted


async def _read_constant_methods(
    methods: Mapping[str, MethodInfo], program: Program
) -> dict[str, str]:
    """Constants that are tensors: unlike plain values, the description does not hold them."""
    found = {}
    for info in methods.values():
        if info.is_constant and any(isinstance(out, TensorInfo) for out in info.outputs):
            try:
                values = await program.run(info.name)
            except Exception as error:
                found[info.name] = f"could not be read: {error}"
            else:
                found[info.name] = ", ".join(map(_value_text, values))
    return found


def _value_text(value: Any) -> str:
    """The value of a constant method, short."""
    array = Output(0, "", value).array
    if array.size == 1:
        return number_text(array.reshape(-1)[0].item())
    return f"{array.dtype.name} · {shape_text(array.shape)}"

"""The progress of a run that takes long: kernels that are compiled, and the time.

A run that was cancelled may still keep the GPU busy for a while. The next one waits for that first,
and its own time begins afterwards.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType

from page.core.runner import work_done
from page.core.session import Session
from page.core.state import AppState
from page.core.throttle import Ticker
from page.shared.html.markup import Html, h
from page.shared.html.units import count_text, ms_text

_SECTION = "run_waiting"
_CANCELLED = "Waiting for the cancelled run"


class Waiting:
    """A context in which the page shows the elapsed time and the count of compiled kernels.

    It is entered once the GPU is free of a run of the session that was cancelled.
    """

    def __init__(
        self, state: AppState, session: Session, shown: Callable[[], None] = lambda: None
    ) -> None:
        """Build the context; `shown` is called once, when the wait has become long."""
        self._state = state
        self._runner, self._program = session.runner, session.program
        self._is_free = True
        self._shown: Callable[[], None] | None = shown
        self._started = asyncio.get_running_loop().time()  # the ticker's clock
        self._compiled: tuple[int, int] | None = None  # kernels, of all that are new
        self._ticker = Ticker(self._draw)

    def progress(self, stage: str, done: int, total: int) -> None:
        self._compiled = (int(done), int(total))

    async def __aenter__(self) -> Waiting:
        self._ticker.start()
        if self._runner.cancelled:
            try:
                await self._wait_for_cancelled()
            except BaseException:
                self._end()
                raise
        return self

    async def _wait_for_cancelled(self) -> None:
        before, self._is_free = self._state.status, False
        await work_done(self._program)
        self._runner.cancelled, self._is_free = False, True
        self._started = asyncio.get_running_loop().time()
        if self._state.status == _CANCELLED:
            self._state.tell(before, "busy")

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end()

    def _end(self) -> None:
        if self._ticker.stop():
            self._state.show(**{_SECTION: ""})

    def _draw(self) -> None:
        if self._shown is not None:
            shown, self._shown = self._shown, None
            shown()
        if not self._is_free:
            self._state.tell(_CANCELLED, "busy")
        spent = 1000 * (asyncio.get_running_loop().time() - self._started)
        self._state.show(**{_SECTION: waiting_view(self._compiled, spent, self._is_free)})


def waiting_view(
    compiled: tuple[int, int] | None, milliseconds: float, is_free: bool = True
) -> Html:
    """Return the progress of a run; `compiled`: kernels done, of all that it needs; `is_free`:
    whether the GPU is, of a run that was cancelled."""
    doing, known = "Computing" if is_free else _CANCELLED, {}
    if compiled is not None and compiled[0] < compiled[1]:
        done, total = compiled
        doing = f"Compiling kernels for new shapes: {count_text(done)} of {count_text(total)}"
        known = {"value": done, "max": total}
    return h(
        "div",
        h("progress", aria_label=doing, **known),
        h("span", doing, " · ", h("span", ms_text(milliseconds), class_="number"), class_="soft"),
        class_="waiting",
    )


def software_advice() -> Html:
    """Return the advice to use NumPy instead of a software adapter."""
    return h(
        "p",
        "Software GPU: NumPy may be faster. ",
        h(
            "button",
            "Use NumPy",
            type="button",
            class_="quiet",
            data_act="device",
            data_value="numpy",
        ),
        class_="note advice",
    )

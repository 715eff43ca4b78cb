"""The progress of a run that takes long: kernels that are compiled, and the time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType

from page.html.markup import Html, h
from page.html.units import count_text, ms_text
from page.session.state import AppState
from page.session.throttle import Ticker

_SECTION = "run_waiting"


class Waiting:
    """A context in which the page shows the elapsed time and the count of compiled kernels."""

    def __init__(self, state: AppState, shown: Callable[[], None] = lambda: None) -> None:
        """Build the context; `shown` is called once, when the wait has become long."""
        self._state = state
        self._shown: Callable[[], None] | None = shown
        self._started = asyncio.get_running_loop().time()  # the ticker's clock
        self._compiled: tuple[int, int] | None = None  # kernels, of all that are new
        self._ticker = Ticker(self._draw)

    def progress(self, stage: str, done: int, total: int) -> None:
        self._compiled = (int(done), int(total))

    def __enter__(self) -> Waiting:
        self._ticker.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._ticker.stop():
            self._state.show(**{_SECTION: ""})

    def _draw(self) -> None:
        if self._shown is not None:
            shown, self._shown = self._shown, None
            shown()
        spent = 1000 * (asyncio.get_running_loop().time() - self._started)
        self._state.show(**{_SECTION: waiting_view(self._compiled, spent)})


def waiting_view(compiled: tuple[int, int] | None, milliseconds: float) -> Html:
    """Return the progress of a run; `compiled`: kernels done, of all that it needs."""
    doing, known = "Computing", {}
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

"""What a view is: a tab with a panel below it, declared in a module of its own in `views/`.

    VIEW = View("python", "Python", order=90, make=PythonPanel, needs=(PROGRAM,))

The declaration says where its tab is and when it is there; the panel draws, and handles what is
done in it. `docs/page.md` shows a whole one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from page.session.palette import Command
from page.session.state import AppState, Change
from webpte.errors import InputError
from webpte.llm import Generator


@dataclass(frozen=True)
class Need:
    """What a view cannot do without.

    text   what to do about it, shown in the view's place
    met    whether it is there
    hides  without it there is no tab either: for what a program is, not for what can be done
    offer  the act that brings it about, and its button
    """

    text: str
    met: Callable[[AppState], bool]
    hides: bool = False
    offer: tuple[str, str] | None = None


def _is_language_model(state: AppState) -> bool:
    if state.session is None:
        return False
    try:
        Generator(state.session.program)
    except InputError:
        return False
    return True


PROGRAM = Need("Open a program first.", lambda state: state.session is not None, hides=True)
METHOD = Need(
    "This program has constant methods only: there is nothing to run.",
    lambda state: state.session is not None and bool(state.session.method),
)
LANGUAGE_MODEL = Need("Open a language model with a KV cache.", _is_language_model, hides=True)
RUN = Need(
    "Run the program first.",
    lambda state: state.session is not None and state.session.shown is not None,
    offer=("run", "Run"),
)
WEBGPU = Need(
    "This is about the GPU: choose to run on WebGPU.",
    lambda state: state.session is not None and state.session.device == "webgpu",
)
TIMESTAMPS = Need(
    "This adapter has no timestamp queries, so nothing can be timed on it.",
    lambda state: state.adapter is not None and "timestamp-query" in state.adapter.features,
)


class Panel:
    """What a view shows. Its methods `on_<act>` handle the act `<view>:<act>` of the page."""

    def __init__(self, view: View, state: AppState) -> None:
        self.view = view
        self.state = state
        self._tasks: set[asyncio.Task[None]] = set()

    def draw(self) -> None:
        """All of it, as things are now. Only called while it is in front and its needs are met."""

    def forget(self) -> None:
        """The session is another one, or gone: drop what was its. `start`ed work has ended."""

    def accepts(self, name: str) -> bool:
        """Whether a file of this name is for this view, wherever it is dropped."""
        return False

    async def accept_files(self, files: Sequence[Any]) -> None:
        """Such files, once the program that may have come with them is open."""

    def start(self, work: Coroutine[Any, Any, None], doing: str) -> asyncio.Task[None]:
        """Work beside all else, until it has ended or the session has. What fails is told.

        What uses the program is not for this but for `state.do`, which lets nothing else use it.
        """
        task = asyncio.ensure_future(self._watched(work, doing))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _watched(self, work: Coroutine[Any, Any, None], doing: str) -> None:
        try:
            await work
        except Exception as error:
            self.state.show_error(error, doing)

    def end_work(self) -> None:
        for task in self._tasks:
            task.cancel()

    def show(self, html: str) -> None:
        """The panel's content: the page is patched to be like this."""
        self.state.browser.show(html={self.view.panel_id: html})

    def tell_script(self, **data: object) -> None:
        """Calls `show(panel, data, act)` of the view's script, on the main thread."""
        self.state.browser.show(script={self.view.name: data})

    def act(self, name: str) -> str:
        """The `data_act` of a control for which `on_<name>` is called."""
        return f"{self.view.name}:{name}"


@dataclass(frozen=True)
class View:
    """A tab and its panel.

    name     in addresses, acts and ids: a short word
    title    on the tab
    order    of the tab: lower ones are further left
    make     makes the panel, once, when the page starts
    needs    what must be there; the first that is not is told
    follows  what it is drawn again for while it is in front
    style    whether `views/<name>.css` belongs to it
    commands rows of the palette: `Command("Copy as Python", "copy")` calls `on_copy`
    """

    name: str
    title: str
    order: int
    make: Callable[[View, AppState], Panel]
    needs: tuple[Need, ...] = ()
    follows: tuple[Change, ...] = (Change.SESSION, Change.METHOD, Change.RESULTS)
    style: bool = False
    commands: tuple[Command, ...] = ()

    @property
    def panel_id(self) -> str:
        return f"view-{self.name}"

    def has_tab(self, state: AppState) -> bool:
        return all(need.met(state) for need in self.needs if need.hides)

    def missing(self, state: AppState) -> Need | None:
        return next((need for need in self.needs if not need.met(state)), None)

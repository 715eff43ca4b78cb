"""The interface of views: a tab with a panel, declared in a folder in `views/`.

    VIEW = View("python", "Python", order=90, make=PythonPanel, needs=(PROGRAM,))

The declaration says where its tab is and when it exists; the panel draws, and handles its acts.
`docs/inside/extending.md` shows a complete one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from page.core.abilities import is_language_model, is_sentence_encoder, is_text_encoder
from page.core.palette import Command
from page.core.session import Session
from page.core.state import AppState, Change
from page.shared.html.device_note import device_note
from page.shared.html.markup import Html, render


@dataclass(frozen=True)
class Need:
    """A condition for a view.

    text   what to do about it, shown in place of the view
    met    returns whether it is met
    hides  without it there is no tab: for properties of a program that cannot change
    offer  the act that fulfils it, and its button
    """

    text: str
    met: Callable[[AppState], bool]
    hides: bool = False
    offer: tuple[str, str] | None = None


def ability(text: str, found: Callable[[Session], bool]) -> Need:
    """Return the need for an ability of the open program, without which there is no tab."""
    return Need(text, lambda state: state.session is not None and state.session.can(found), True)


PROGRAM = Need("Open a program first.", lambda state: state.session is not None, hides=True)
METHOD = Need(
    "This program has constant methods only: there is nothing to run.",
    lambda state: state.session is not None and bool(state.session.method),
)
LANGUAGE_MODEL = ability("Open a language model with a KV cache.", is_language_model)
SENTENCE_ENCODER = ability("Open a sentence encoder.", is_sentence_encoder)
TEXT_ENCODER = ability("Open a sentence encoder.", is_text_encoder)
RUN = Need(
    "Run the program first.",
    lambda state: state.session is not None and state.session.shown is not None,
    offer=("run", "Run"),
)
WEBGPU = Need(
    "This view needs a GPU: choose WebGPU as the device.",
    lambda state: state.session is not None and state.session.device == "webgpu",
)
TIMESTAMPS = Need(
    "This adapter has no timestamp queries, so kernels cannot be timed.",
    lambda state: state.adapter is not None and "timestamp-query" in state.adapter.features,
)


class Panel:
    """The content of a view. Its methods `on_<act>` handle the act `<view>:<act>` of the page."""

    def __init__(self, view: View, state: AppState) -> None:
        self.view = view
        self.state = state
        self._tasks: set[asyncio.Task[None]] = set()

    def draw(self) -> None:
        """Draw the whole panel. Only called while it is in front and its needs are met."""

    def forget(self) -> None:
        """Drop what belongs to the old session, which was replaced or closed. Work from `start` has
        ended."""

    def accepts(self, name: str) -> bool:
        """Tell whether a file of this name is for this view, wherever it is dropped."""
        return False

    async def accept_files(self, files: Sequence[Any]) -> None:
        """Handle accepted files, once the program that came with them is open."""

    def start(self, work: Coroutine[Any, Any, None], doing: str) -> asyncio.Task[None]:
        """Run work in the background until it or the session ends; show its error.

        Work on the program goes through `state.do` instead, which runs one task at a time.
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
        """Show the panel's content: the page is patched to match it."""
        content = render((self._device_note(), Html(html)))
        self.state.browser.show(html={self.view.panel_id: content})

    def _device_note(self) -> Html | None:
        session = self.state.session
        if not self.view.names_device or session is None:
            return None
        busy = Change.BUSY in self.view.follows and session.runner.busy
        return device_note(session.device, self.state.adapter, busy)

    def tell_script(self, **data: object) -> None:
        """Call `show(panel, data, act)` of the view's script, on the main thread."""
        self.state.browser.show(script={self.view.name: data})

    def act(self, name: str) -> str:
        """Return the `data_act` of a control for which `on_<name>` is called."""
        return f"{self.view.name}:{name}"


@dataclass(frozen=True)
class View:
    """A tab and its panel.

    name     in addresses, acts and ids: a short word
    title    on the tab
    order    of the tab: lower ones are further left
    make     creates the panel, once, when the page starts
    needs    its conditions; the first that is not met is shown
    follows  changes after which it is redrawn while it is in front
    style    whether it has a `<name>.css`
    commands rows of the palette: `Command("Copy as Python", "copy")` calls `on_copy`
    leads    it comes to the front when a program opens for which it has a tab
    tasks    the same, for programs of these tasks
    names_device  a note above the panel says which device computes
    also     other words that find it in the palette
    """

    name: str
    title: str
    order: int
    make: Callable[[View, AppState], Panel]
    needs: tuple[Need, ...] = ()
    follows: tuple[Change, ...] = (Change.SESSION, Change.METHOD, Change.RESULTS)
    style: bool = False
    commands: tuple[Command, ...] = ()
    leads: bool = False
    tasks: tuple[str, ...] = ()
    names_device: bool = False
    also: str = ""

    @property
    def panel_id(self) -> str:
        return f"view-{self.name}"

    def has_tab(self, state: AppState) -> bool:
        return all(need.met(state) for need in self.needs if need.hides)

    def missing(self, state: AppState) -> Need | None:
        return next((need for need in self.needs if not need.met(state)), None)

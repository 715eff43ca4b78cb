"""The question which program of a repository is opened, where several would run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from page.browser import Message
from page.core.state import AppState
from page.shared.html.markup import Html, choice, h
from page.shared.html.units import bytes_text
from webpte.engine.open.hub import Repository
from webpte.errors import RepositoryError
from webpte.hub.layouts import ChosenProgram, Variant, choose_among


class VariantQuestion:
    def __init__(self, state: AppState) -> None:
        self._state = state
        self._answer: asyncio.Future[str] | None = None

    async def choose(
        self, repository: Repository, below: str, variants: Sequence[Variant]
    ) -> ChosenProgram:
        """Return the named program, the only program that runs, or the chosen program."""
        adapter = self._state.adapter
        half = adapter is None or adapter.has_f16
        inside = [one for one in variants if one.path.startswith(f"{below}/") or not below]
        running = [one for one in inside if one.backend.runs]
        if below in repository.files or len(running) < 2:
            return choose_among(repository, below, variants, half)
        whole: ChosenProgram | None = None
        proposed = running[0].path
        try:
            chosen = choose_among(repository, below, variants, half)
            proposed = chosen.variant.path
            if chosen.others:
                whole, proposed = chosen, ""
        except RepositoryError:  # programs that may not belong together: none is proposed
            pass
        if whole is not None and len(whole.names) == len(running):
            return whole
        self._answer = asyncio.get_running_loop().create_future()
        self._state.show(arriving=_question(str(repository), inside, proposed, whole), stages="")
        self._state.browser.show(reveal="progress")
        self._state.tell(f"{repository} has {len(running)} programs: choose one")
        try:
            answer = await self._answer
        finally:
            self._answer = None
        return whole if whole and not answer else choose_among(repository, answer, variants, half)

    def answer(self, message: Message) -> None:
        """Take the answer; an answer that comes too late does nothing."""
        if self._answer is not None and not self._answer.done():
            self._state.show(arriving="")
            self._answer.set_result(str(message["fields"]["file"]))


def _question(
    name: str, variants: Sequence[Variant], proposed: str, whole: ChosenProgram | None
) -> Html:
    runs = {one.path: _told(one) for one in variants if one.backend.runs}
    parts = ", ".join(sorted(whole.names.values())) if whole is not None else ""
    options = ({"": f"all parts: {parts}"} if parts else {}) | runs
    others = [one for one in variants if not one.backend.runs]
    kinds = ", ".join(dict.fromkeys(one.backend.title for one in others))
    files = "program is" if len(others) == 1 else "programs are"
    return h(
        "form",
        h("h3", f"{name} has {len(runs)} programs"),
        h(
            "div",
            choice("program", options, proposed, name="file"),
            h("button", "Open", type="submit", class_="primary"),
            h("button", "Cancel", type="button", data_act="cancel-opening"),
            class_="controls",
        ),
        h("p", f"{len(others)} more {files} for {kinds}.", class_="note") if others else None,
        data_act="open-variant",
        class_="context-question",
        aria_label="Programs",
    )


def _told(one: Variant) -> str:
    size = bytes_text(one.program.size or 0)
    return ", ".join(filter(None, (one.path, one.backend.title, size)))

"""The check of a program against the example of its card, or the first case of a bundled program,
and the way to a safer variant.

The verdict is kept for the program, the adapter and the variant, and shown when it is opened again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from page.browser import Message
from page.core.interfaces import OpenSection
from page.core.palette import Command
from page.core.session import Session
from page.core.state import AppState, Change
from page.sections.check.view import Verdict, check_view
from page.shared.html.markup import Html
from webpte.engine.call.options import safer_variant, variant_label
from webpte.inspection.report import Check


class CheckController:
    def __init__(self, state: AppState, opening: OpenSection) -> None:
        self._state = state
        self._opening = opening
        state.follow(lambda change: self._draw(), Change.SESSION, Change.METHOD)
        state.commands.append(self._commands)

    def _commands(self) -> Iterator[Command]:
        session = self._state.session
        if session is not None and _has_example(session) and not session.runner.busy:
            yield Command(
                "Built-in test", "check-example", view="run", kind="Run", also="check verify"
            )

    async def on_check_example(self, message: Message) -> None:
        session = self._state.idle_session()
        if session is not None and _has_example(session):
            self._state.tell("Running the built-in test", "busy")
            await self._state.do(session, self._check(session), "checking the example", False)

    async def on_safer(self, message: Message) -> None:
        """Open the program in the next safer variant, and check it there."""
        session = self._state.session
        if session is None:
            return
        safer = safer_variant(session.program.options, session.program.device_info)
        if safer is None:
            return
        device = "numpy" if safer.options is None else session.device
        if await self._opening.open(session.source, device=device, options=safer.options):
            await self.on_check_example(message)

    async def _check(self, session: Session) -> None:
        found: Check
        if address := _address(session):
            data = await self._state.browser.fetch_bytes(address)
            found = await session.program.check(data)
        else:
            found = await session.program.check(method=session.method)
        verdict = Verdict.of(found)
        self._state.store.write(_key(session), verdict.stored(_place(session)))
        self._draw()
        if verdict.agrees:
            self._state.tell("Matches the reference")
        else:
            self._state.tell("Differs from the reference", "bad")

    def _draw(self) -> None:
        session = self._state.session
        if session is None or not _has_example(session):
            self._state.show(run_check="")
            return
        kept: Any = self._state.store.read(_key(session))
        verdict = Verdict.read(kept, _place(session))
        safer = safer_variant(session.program.options, session.program.device_info)
        variant = variant_label(session.program.options, session.program.device_info)
        view: Html = check_view(verdict, variant, safer.label if safer is not None else "")
        self._state.show(run_check=view)


def _address(session: Session) -> str:
    """Return the address of the card's example; empty if there is none."""
    return session.source.card.check if session.source.card is not None else ""


def _has_example(session: Session) -> bool:
    """Tell whether there are expected outputs, which rounding of KV caches or prompts changes."""
    if session.source.kv_cache is not None or session.source.int8_products:
        return False
    return bool(_address(session) or session.program.cases.get(session.method))


def _key(session: Session) -> str:
    card = session.source.card
    return f"check:{card.name}" if card is not None else f"check:bundle:{session.source.name}"


def _place(session: Session) -> str:
    """Return the conditions of a verdict: the program's size, the adapter and the variant."""
    info = session.program.device_info
    names = info.kind, info.vendor, info.architecture, info.description
    variant = variant_label(session.program.options, info)
    return " ".join((*names, variant, str(session.source.size)))

"""The interfaces through which sections use each other, so that none imports another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from page.browser import Source
from page.core.session import Session
from page.shared.cards.cards import Card
from webpte import Options
from webpte.inspection.report import Difference


class InputSection(Protocol):
    live: Callable[[], bool]

    def draw(self) -> None: ...

    def ask_for_frame(self) -> None: ...

    async def accept_example(self, data: bytes, name: str, index: int) -> None: ...

    async def explain_failure(
        self, session: Session, method: str, arrays: Sequence[Any], error: Exception
    ) -> None: ...


class OutputSection(Protocol):
    def draw(self) -> None: ...

    def draw_age(self) -> None: ...

    def answer(self) -> str: ...

    def scroll_into_view(self) -> None: ...

    def tell_unknown_state(self, reason: str) -> None: ...

    def compare_all(self, expected: Sequence[Any], against: str) -> list[Difference]: ...


class OpenSection(Protocol):
    @property
    def turn(self) -> int: ...

    @property
    def coming(self) -> Source | None: ...

    def cancel(self) -> None: ...

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
    ) -> bool: ...


class TabSection(Protocol):
    @property
    def leading(self) -> str: ...

    def bring_to_front(self, name: str, shown: bool = False) -> None: ...

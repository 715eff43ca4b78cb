"""What the desks of the page share: the browser, the engine, the adapter, and the session."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from page.browser import Browser
from page.markup import Html
from page.session import Session
from page.status_view import error_view
from webpte import DeviceInfo


@dataclass(eq=False)
class Stage:
    browser: Browser
    engine: Any
    adapter: DeviceInfo | None = None
    adapter_known: asyncio.Event = field(default_factory=asyncio.Event)
    device: str = "webgpu"  # for the next program
    narrow: bool = False  # a small screen, where long lists start folded
    session: Session | None = None

    def tell(self, line: str, mood: str = "good") -> None:
        """The one line that says what goes on; its dot is green, amber ("busy") or red ("bad")."""
        self.browser.show(text={"status": line}, mood=mood)

    def show(self, **sections: str) -> None:
        """Section -> markup; an underscore stands for a dash."""
        self.browser.show(html={name.replace("_", "-"): html for name, html in sections.items()})

    def show_error(
        self,
        error: Exception,
        doing: str,
        actions: Mapping[str, str] | None = None,
        note: str = "",
        more: Html | None = None,
    ) -> None:
        """`doing` says what was under way; actions: act -> button; `note` says what still works."""
        box = error_view(error, doing, actions, note, more)
        self.browser.show(html={"error": box}, reveal="error")
        self.tell(f"{type(error).__name__}: see the message", "bad")

    async def stop_runs(self) -> None:
        """Nothing uses the session's program when this returns, until the caller waits again."""
        while self.session is not None and self.session.runner.busy:
            await self.session.runner.stop()

"""Options of an open language model: its KV cache, and the numbers that prompts are read in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from page.browser import Message
from page.core.state import AppState
from page.sections.open.controller import OpenController


class ModelOptions:
    """A changed option opens the current language model again."""

    def __init__(self, state: AppState, opening: OpenController) -> None:
        self._state = state
        self._opening = opening

    async def on_kv_cache(self, message: Message) -> None:
        """Open the current language model with another KV cache."""
        await self._open_with("kv_cache", str(message["value"]) or None)

    async def on_prompts(self, message: Message) -> None:
        """Open the current language model with prompts in integers, or in floats again."""
        await self._open_with("int8_products", bool(message["value"]))

    async def _open_with(self, name: str, value: Any) -> None:
        session = self._state.session
        if session is not None and getattr(session.source, name) != value:
            source = replace(session.source, **{name: value})
            await self._opening.open(source, device=session.device)

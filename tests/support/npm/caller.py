"""The other side of the Python of the package for npm."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from npm.worker import Worker


class Caller:
    """The other side: it sends calls, and collects the answers of each."""

    def __init__(self) -> None:
        self.answers: dict[int, list[tuple[str, Any]]] = {}
        self.parts: list[Any] = []
        self.worker = Worker(self._receive)

    def _receive(self, number: int, kind: str, text: str, parts: Sequence[Any]) -> None:
        self.parts = list(parts)
        self.answers.setdefault(number, []).append((kind, json.loads(text)))

    def start(self, name: str, *given: Any, parts: Sequence[Any] = ()) -> int:
        number = len(self.answers) + 1
        self.answers[number] = []
        self.worker.start(number, name, json.dumps(given), parts)
        return number

    async def end_of(self, number: int) -> tuple[str, Any]:
        while not self.answers[number] or self.answers[number][-1][0] in ("progress", "item"):
            await asyncio.sleep(0)
        return self.answers[number][-1]

    async def call(self, name: str, *given: Any, parts: Sequence[Any] = ()) -> Any:
        kind, value = await self.end_of(self.start(name, *given, parts=parts))
        assert kind == "result", value
        return value

    async def error(self, name: str, *given: Any, parts: Sequence[Any] = ()) -> Any:
        kind, value = await self.end_of(self.start(name, *given, parts=parts))
        assert kind == "error", value
        return value

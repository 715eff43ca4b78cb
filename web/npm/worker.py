"""The Python side of the worker: runs calls of JavaScript at the same time, and answers each."""

from __future__ import annotations

import asyncio
import json
import re
import traceback
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from npm.calls import Calls
from npm.values import Encoder, decode
from webpte.errors import WebpteError

# send(id, kind, text, parts): the kinds are "result", "stream", "item", "end", "error",
# "cancelled" and "progress". The text is JSON, see values.py.
Send = Callable[[int, str, str, Sequence[Any]], None]
_WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_INTERNAL = "internal"


class Worker:
    """Calls that are under way, by the numbers that JavaScript gave them.

    shares_thread  whether the caller runs in this thread, and can use its objects of the GPU
    """

    def __init__(self, send: Send, shares_thread: bool = False) -> None:
        self._send = send
        self._shares_thread = shares_thread
        self._calls = Calls()
        self._running: dict[int, asyncio.Task[None]] = {}

    def start(self, number: int, name: str, text: str, parts: Sequence[Any]) -> None:
        """Begin a call; its answers are sent."""
        running = asyncio.ensure_future(self._run(number, name, text, parts))
        self._running[number] = running

        def ended(task: asyncio.Task[None]) -> None:
            del self._running[number]
            if task.cancelled():
                self._send(number, "cancelled", "null", [])

        running.add_done_callback(ended)

    def cancel(self, number: int) -> None:
        """End a call that is under way; an ended call does not change."""
        if number in self._running:
            self._running[number].cancel()

    async def _run(self, number: int, name: str, text: str, parts: Sequence[Any]) -> None:
        def progress(stage: str, done: int, total: int) -> None:
            told = {"stage": str(stage), "done": int(done), "total": int(total)}
            self._send(number, "progress", json.dumps(told), [])

        try:
            arguments = decode(text, parts, self._calls.find)
            value = await self._calls.named(name)(*arguments, progress=progress)
            if isinstance(value, AsyncIterator):
                await self._stream(number, value)
            else:
                self._answer(number, "result", value)
        except Exception as error:
            self._send(number, "error", json.dumps(described(error), default=str), [])

    async def _stream(self, number: int, items: AsyncIterator[Any]) -> None:
        self._answer(number, "stream", None)
        try:
            async for item in items:
                self._answer(number, "item", item)
        finally:
            close = getattr(items, "aclose", None)
            if close is not None:
                await close()
        self._answer(number, "end", None)

    def _answer(self, number: int, kind: str, value: Any) -> None:
        encoder = Encoder(self._calls.keep, self._shares_thread)
        text = encoder.text(value)
        self._send(number, kind, text, encoder.parts)


def described(error: Exception) -> dict[str, Any]:
    """Describe an error for JavaScript: its classes, its own first, a code, and its attributes."""
    if not isinstance(error, WebpteError):
        message = "".join(traceback.format_exception_only(error)).strip()
        told = {"traceback": "".join(traceback.format_exception(error))}
        return {"classes": ["WebpteError"], "code": _INTERNAL, "message": message, "details": told}
    details = {key: value for key, value in vars(error).items() if not key.startswith("_")}
    code = details.pop("code", None) or code_of(type(error).__name__)
    names = [kind.__name__ for kind in type(error).__mro__ if issubclass(kind, WebpteError)]
    return {"classes": names, "code": code, "message": str(error), "details": details}


def code_of(name: str) -> str:
    """Return the code of a class of errors: "out_of_memory" of OutOfMemoryError."""
    return _WORDS.sub("_", name.removesuffix("Error")).lower()

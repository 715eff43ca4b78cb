"""Requests of the engine in JavaScript that are not completed yet, and its errors in Python."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import numpy as np
from pyodide.ffi import JsException

from webpte.engine.gpu.webgpu.eager_future import EagerFuture
from webpte.errors import (
    ConstantError,
    DeviceError,
    DeviceLostError,
    FileChangedError,
    OutOfMemoryError,
    ShaderError,
    SourceError,
    WebpteError,
)

_ERRORS: dict[str, type[WebpteError]] = {
    "DeviceLost": DeviceLostError,
    "OutOfMemory": OutOfMemoryError,
    "ShaderError": ShaderError,
    "Overflow": ConstantError,
    "SourceError": SourceError,
    "FileChangedError": FileChangedError,
}


def _error(doing: str, name: str, message: str) -> WebpteError:
    """Return the WebpteError for a JavaScript error."""
    kind = _ERRORS.get(name, DeviceError)
    message = f"{doing}: {message}"
    if kind is DeviceLostError:
        message = f"{message.rstrip('.')}; call program.recover(), or load the program again"
    return kind(message)


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Raise JavaScript's exceptions as WebpteErrors."""
    try:
        yield
    except JsException as error:
        raise _error(doing, str(error.name), str(error.message)) from error


def _bytes_of(data: Any, place: np.ndarray | None) -> bytes:
    """Copy the bytes that JavaScript passed, or else the bytes that it wrote to `place`."""
    try:
        return place.tobytes() if data is None and place is not None else bytes(data.to_bytes())
    except MemoryError as error:
        raise OutOfMemoryError("Python has no memory left for results of the GPU") from error


class PendingRequests:
    """Requests that the engine has not completed yet, by number."""

    def __init__(self) -> None:
        self._awaited: dict[int, tuple[str, EagerFuture[bytes], np.ndarray | None]] = {}
        self._numbers = count(1)

    def expect(self, doing: str, place: np.ndarray | None = None) -> tuple[int, EagerFuture[bytes]]:
        """Return a new number and its future; `place` has the bytes unless `completed` does."""
        number, future = next(self._numbers), EagerFuture[bytes]()
        self._awaited[number] = doing, future, place
        return number, future

    def forget(self, number: int) -> None:
        del self._awaited[number]

    def completed(self, number: int, data: Any, name: str = "", message: str = "") -> None:
        """Settle a request; the engine calls this with its bytes, or with an error's name."""
        doing, future, place = self._awaited.pop(number)
        if name:
            future.settle(None, _error(doing, name, message))
            return
        try:
            with translated(doing):
                result = _bytes_of(data, place)
        except Exception as error:  # otherwise the task would wait for ever
            future.settle(None, error)
        else:
            future.settle(result)

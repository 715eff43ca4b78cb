"""A view's values by program file: each stays with its file, from visit to visit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from page.core.state import AppState

Value = TypeVar("Value")


class KeptByFile(Generic[Value]):
    """The values of a view, by the file of the program: it may be opened again, or elsewhere.

    key    returns the store's key for a file
    new    makes the value of a file without a value
    read   returns a value from the store's form; None if that is not one
    write  returns the store's form
    """

    def __init__(
        self,
        state: AppState,
        key: Callable[[str], str],
        new: Callable[[], Value],
        read: Callable[[Any], Value | None],
        write: Callable[[Value], Any],
    ) -> None:
        self._state = state
        self._key, self._new, self._read, self._write = key, new, read, write
        self._values: dict[str, Value] = {}

    @property
    def value(self) -> Value:
        """The value of the open program's file."""
        session = self._state.session
        assert session is not None  # as the view's needs say
        file = session.source.key
        if file not in self._values:
            self._values[file] = self._read(self._state.store.read(self._key(file))) or self._new()
        return self._values[file]

    def save(self) -> None:
        """Keep the value for the next visit."""
        if self._state.session is not None:
            key = self._key(self._state.session.source.key)
            self._state.store.write(key, self._write(self.value))

"""Constant folding for the calls of a delegate's graph and for a method's kernels alike.

Calls are visited in order. A call whose inputs are all constants is computed when the program is
loaded, and its outputs are constants for the calls after it. A call that fails stays: the run
raises its error, and only if the run gets there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, Generic, TypeVar

from webpte.errors import WebpteError

FoldedCall = TypeVar("FoldedCall")

# What a call can raise for its arguments.
FAILURES = (WebpteError, ArithmeticError, LookupError, MemoryError, TypeError, ValueError)


class ConstantFolder(ABC, Generic[FoldedCall]):
    """A folder of calls, in order. `results` are the outputs of `folded` calls by value index."""

    def __init__(self) -> None:
        self.results: dict[int, Any] = {}
        self.folded: list[FoldedCall] = []

    @abstractmethod
    def can_fold(self, call: FoldedCall) -> bool:
        """Return whether all inputs of a call are known, and its outputs may become constants."""

    async def read_inputs(self, call: FoldedCall) -> None:
        """Read constants that `compute` needs from the file."""

    @abstractmethod
    def compute(self, call: FoldedCall) -> Mapping[int, Any] | None:
        """Return the outputs of a call by value index, or None if they cannot be constants."""

    async def fold(self, calls: Iterable[FoldedCall]) -> None:
        """Fold the calls that can be folded."""
        for call in calls:
            if not self.can_fold(call):
                continue
            await self.read_inputs(call)
            try:
                found = self.compute(call)
            except FAILURES:
                continue
            if found is not None:
                self.results.update(found)
                self.folded.append(call)

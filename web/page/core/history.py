"""The calls since a program's state began, so that NumPy can repeat them.

A program with state (a KV cache, mutable buffers) gives other results for the same inputs from call
to call. To compare with it, NumPy has to make the same calls in the same order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from page.shared.html.units import bytes_text, count_text
from webpte import Program

MOST_CALLS = 2000  # the reference repeats them all, which would take too long for more
MOST_BYTES = 256 << 20  # of kept inputs


class PastCall(NamedTuple):
    """One call, made one or several times in a row. Arrays are never changed once they are made."""

    method: str
    inputs: Sequence[Any]
    times: int = 1


class History:
    """All calls since the beginning, or the reason why they are not known."""

    def __init__(self) -> None:
        self.lost = ""
        self._calls: list[PastCall] = []

    @property
    def calls(self) -> tuple[PastCall, ...]:
        return tuple(self._calls)

    def add(self, method: str, inputs: Sequence[Any]) -> None:
        if self.lost:
            return
        last = self._calls[-1] if self._calls else None
        if last is not None and last.method == method and _same(last.inputs, inputs):
            self._calls[-1] = last._replace(times=last.times + 1)
        else:
            self._calls.append(PastCall(method, tuple(inputs)))
        if count_calls(self._calls) > MOST_CALLS:
            self.lose(f"there were more than {count_text(MOST_CALLS)} calls")
        elif _held_bytes(self._calls) > MOST_BYTES:
            self.lose(f"inputs had more than {bytes_text(MOST_BYTES)}")

    def lose(self, reason: str) -> None:
        """Give up the history for a reason, and free its arrays."""
        self.lost = self.lost or reason
        self._calls = []


def count_calls(calls: Sequence[PastCall]) -> int:
    return sum(call.times for call in calls)


def _same(ones: Sequence[Any], others: Sequence[Any]) -> bool:
    return len(ones) == len(others) and all(
        one is other if isinstance(one, np.ndarray) else type(one) is type(other) and one == other
        for one, other in zip(ones, others, strict=True)
    )


def _held_bytes(calls: Sequence[PastCall]) -> int:
    """Return the size of all inputs; an array of several calls counts once."""
    arrays = {id(one): one for call in calls for one in call.inputs if isinstance(one, np.ndarray)}
    return sum(array.nbytes for array in arrays.values())


async def follow(
    program: Program,
    calls: Sequence[PastCall],
    stopping: Callable[[], bool],
    tick: Callable[[int], None],
) -> tuple[Any, ...] | None:
    """Repeat calls on a program; return the last outputs, or None if stopped. `tick` gets the
    count."""
    values: tuple[Any, ...] = ()
    done = 0
    for call in calls:
        for _ in range(call.times):
            await asyncio.sleep(0)  # handles messages: on NumPy a run never awaits
            if stopping():
                return None
            values = await program.run(call.method, *call.inputs)
            done += 1
            tick(done)
    return values

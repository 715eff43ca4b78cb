"""The lifetime of what a program has on a device, and the leases of its calls."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from webpte.errors import ClosedError


class Lifetime(AbstractContextManager[None]):
    """The lifetime of what is on a device. Calls hold a lease on it.

    Ending it refuses new leases at once, and calls that are still being prepared stop at their next
    `check`; memory is given back when the last lease ends. So no call ever meets freed memory, and
    nothing that a late call allocates is left over.
    """

    def __init__(self) -> None:
        self._leases = 0
        self._ended: str | None = None
        self._held: list[Callable[[], None]] = []

    def hold(self, give_back: Callable[[], None]) -> None:
        """Register a function that gives something back at the end; they run in this order."""
        self._held.append(give_back)

    @property
    def ended(self) -> bool:
        return self._ended is not None

    def check(self) -> None:
        """Raise ClosedError after `end`."""
        if self._ended is not None:
            raise ClosedError(self._ended)

    def lease(self) -> AbstractContextManager[None]:
        """Keep everything on the device during the `with` block; leases may overlap."""
        return self

    def __enter__(self) -> None:
        self.check()
        self._leases += 1

    def __exit__(self, *_: object) -> None:
        self._leases -= 1
        if self._ended is not None:
            self.end(self._ended)

    def end(self, why: str) -> None:
        """Refuse leases from now on, with `why` as the message; ending twice does nothing."""
        if self._ended is None:
            self._ended = why
        if not self._leases:
            held, self._held = self._held, []
            for give_back in held:
                give_back()

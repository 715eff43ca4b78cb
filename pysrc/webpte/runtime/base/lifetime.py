"""How long what is on a device may be used, and when it is given back."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from webpte.errors import ClosedError


class Lifetime:
    """Calls hold a lease on what they use.

    Ending it refuses new leases at once, and calls that are still being prepared stop at their next
    `check`; memory goes back when the last lease does. So no call ever meets memory that is gone,
    and none is left behind by a call that allocates late.
    """

    def __init__(self) -> None:
        self._leases = 0
        self._ended: str | None = None
        self._held: list[Callable[[], None]] = []

    def hold(self, give_back: Callable[[], None]) -> None:
        """Something more to give back at the end, in the order in which it came."""
        self._held.append(give_back)

    @property
    def ended(self) -> bool:
        return self._ended is not None

    def check(self) -> None:
        if self._ended is not None:
            raise ClosedError(self._ended)

    def lease(self) -> AbstractContextManager[None]:
        """For as long as a call may use what is behind this."""
        return _Lease(self)

    def begin_lease(self) -> None:
        self.check()
        self._leases += 1

    def end_lease(self) -> None:
        self._leases -= 1
        self._settle()

    def end(self, why: str) -> None:
        """`why` is what calls are told from now on; ending twice does nothing."""
        if self._ended is None:
            self._ended = why
        self._settle()

    def _settle(self) -> None:
        if self._ended is not None and not self._leases:
            held, self._held = self._held, []
            for give_back in held:
                give_back()


class _Lease(AbstractContextManager[None]):
    """A class, not a generator: every call takes two, and this costs a third."""

    __slots__ = ("_lifetime",)

    def __init__(self, lifetime: Lifetime) -> None:
        self._lifetime = lifetime

    def __enter__(self) -> None:
        self._lifetime.begin_lease()

    def __exit__(self, *_: object) -> None:
        self._lifetime.end_lease()

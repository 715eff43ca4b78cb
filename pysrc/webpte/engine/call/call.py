"""The call under way: its lease on memory, its progress and submissions, its place in errors.

A context belongs to the call in which work happens, so calls that overlap are kept apart. Code that
runs, copies or reads back on the device calls `count_submission` once the work was handed over.
Writing bytes to a buffer does not count: they go along with the next submission. A long plan may go
to a browser's queue in pieces, in immediate sequence (see replay.js): that counts as a
single submission.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar, Token
from time import perf_counter
from typing import Any, TypeVar

from webpte.engine.files.download import Progress
from webpte.errors import ClosedError, ExecutionError, GraphError, InputError, told_at

T = TypeVar("T")


class Lifetime(AbstractContextManager[None]):
    """The lifetime of objects on a device. Calls hold a lease on it.

    Ending it refuses new leases at once, and calls that are still being prepared stop at their next
    `check`; memory is freed when the last lease ends. So no call ever meets freed memory, and no
    allocation of a late call is left over.
    """

    def __init__(self) -> None:
        self._leases = 0
        self._ended: str | None = None
        self._held: list[Callable[[], None]] = []

    def hold(self, give_back: Callable[[], None]) -> None:
        """Register a function that frees something at the end; functions run in this order."""
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

    def lease_for(self, work: Awaitable[T]) -> asyncio.Future[T]:
        """Hold a lease until `work` has ended, even if nobody awaits it or its caller is cancelled.

        The work runs as a separate task, whose error asyncio does not log.
        """
        self.__enter__()
        task = asyncio.ensure_future(work)
        task.add_done_callback(self._give_back)
        return task

    def _give_back(self, work: asyncio.Future[Any]) -> None:
        self.__exit__()
        if not work.cancelled():
            work.exception()

    def end(self, why: str) -> None:
        """Refuse leases from now on, with `why` as the message; ending twice does nothing."""
        if self._ended is None:
            self._ended = why
        if not self._leases:
            held, self._held = self._held, []
            for give_back in held:
                give_back()


class Clock:
    """Milliseconds per stage."""

    def __init__(self) -> None:
        self._last = perf_counter()
        self.laps: dict[str, float] = {}

    def lap(self, stage: str) -> None:
        now = perf_counter()
        self.laps[stage] = (now - self._last) * 1000
        self._last = now


class RunTimes:
    """Times of a delegate's runs.

    executions  the number of runs that were submitted
    last_ms     milliseconds of the last run: prepare, submit, wait
    ended       the time, by `perf_counter`, at which the last run ended
    host_ms     milliseconds on the host since the start, by op name
    """

    def __init__(self) -> None:
        self.executions = 0
        self.last_ms: dict[str, float] = {}
        self.ended = 0.0
        self.host_ms: dict[str, float] = {}

    def record_submission(self, started: float) -> None:
        """Record a run whose submission began at `started`, and has just ended."""
        self.executions += 1
        self.last_ms["submit"] = (perf_counter() - started) * 1000

    def record_end(self, waited_since: float) -> None:
        """Record that a run has just ended."""
        self.ended = perf_counter()
        self.last_ms["wait"] = (self.ended - waited_since) * 1000

    def record(self, started: float, submitted: float) -> None:
        """Record a run that was submitted between these times, and has just ended."""
        self.executions += 1
        self.record_end(submitted)
        self.last_ms["submit"] = (submitted - started) * 1000


class CallContext(AbstractContextManager["CallContext"]):
    """A count of the submissions in the `with` block, also by tasks that start there.

    `progress` receives the progress of compiling; None: the progress of the surrounding context
    does. `ended` receives the number of submissions at the end.
    """

    __slots__ = ("_ended", "_token", "progress", "submissions")

    def __init__(
        self,
        progress: Progress | None = None,
        ended: Callable[[int], None] | None = None,
    ) -> None:
        self.progress = progress
        self.submissions = 0
        self._ended = ended
        self._token: Token[CallContext | None] | None = None

    def __enter__(self) -> CallContext:
        outer = _current.get()
        if self.progress is None and outer is not None:
            self.progress = outer.progress
        self._token = _current.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._token is not None
        _current.reset(self._token)
        if self._ended is not None:
            self._ended(self.submissions)


_current: ContextVar[CallContext | None] = ContextVar("the call under way", default=None)


def count_submission() -> None:
    """Count a submission to the GPU for the call under way, if any."""
    context = _current.get()
    if context is not None:
        context.submissions += 1


def call_progress() -> Progress | None:
    """Return the progress function of the call under way, or None."""
    context = _current.get()
    return None if context is None else context.progress


def reporting(progress: Progress) -> CallContext:
    """Report the progress of calls in the `with` block, unless a call has a progress function."""
    return CallContext(progress)


class CallLog:
    """The calls of a program's methods, and whether it was rebuilt or closed meanwhile.

    generation   the number of times that the program was rebuilt: earlier state is gone
    weights      the number of times that weights were replaced
    submissions  of the call that ended last
    closed       whether the program was closed
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.generation = 0
        self.weights = 0
        self.submissions = 0
        self.closed = False
        self._calls: Counter[str] = Counter()

    @property
    def version(self) -> tuple[int, int]:
        """Numbers that change when keys and values computed before are not right any more."""
        return self.generation, self.weights

    def check_open(self) -> None:
        """Raise ClosedError after the program was closed."""
        if self.closed:
            raise ClosedError(f"{self.name} was closed; load it again")

    def count(self, method: str) -> None:
        """Count a call that may change state."""
        self._calls[method] += 1

    def calls(self, method: str) -> int:
        """Return how often a method was called in any way, for example to notice other callers."""
        return self._calls[method]

    def context(self, progress: Progress | None = None) -> CallContext:
        """Return a context that counts the submissions of a call."""
        return CallContext(progress, self._set_submissions)

    def _set_submissions(self, count: int) -> None:
        self.submissions = count

    @contextmanager
    def calling(self, method: str, lifetime: Lifetime) -> Iterator[None]:
        """Count a call that may change state, and hold a lease while it runs."""
        self.count(method)
        with lifetime.lease(), self.context():
            yield


class CallPlace(AbstractContextManager[None]):
    """Adds a place to errors that are raised inside, as `place` does to a message.

    Errors about wrong inputs and closed programs need no place. A GraphError becomes an
    ExecutionError: the file was fine when it was loaded, so the inputs of this call do not suit it.
    """

    __slots__ = ("_place",)

    def __init__(self, place: Callable[[str], str]) -> None:
        self._place = place

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, InputError | ClosedError):
            message = self._place(str(error) or type(error).__name__)
            told = told_at(error, message, ExecutionError, foreign=GraphError)
            if told is not error:
                raise told from error


def executing(method: str) -> CallPlace:
    """Name the method in errors that are raised inside."""
    return CallPlace(lambda message: f"method {method!r}: {message}")

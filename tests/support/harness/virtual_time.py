"""An event loop with virtual time: a test that sleeps takes no time, on any machine.

    assert run_virtually(script()) == ...

While anything can run, the clock stands still; when all tasks wait for a timer, it jumps to the
next one. So the order of events depends on the timers alone, never on the load of the machine.
Work for a thread is done at once, as in the browser. It is for code that waits for timers and tasks
only: sockets have no virtual time.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


class _JumpingSelector(selectors.DefaultSelector):
    """A selector that never waits: it adds the waiting time to `now`."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready:
            assert timeout is not None, "all tasks wait, and for no timer: they would for ever"
            self.now += max(timeout, 0.0)
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Result], *args: Any
    ) -> asyncio.Future[Result]:
        done: asyncio.Future[Result] = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:
            done.set_exception(error)
        return done


def run_virtually(script: Coroutine[Any, Any, Result]) -> Result:
    """Run like `asyncio.run`, on a loop of virtual time."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(script)


async def until(met: Callable[[], bool]) -> None:
    """Let other tasks run, turn by turn, until `met()`: no time passes."""
    for _ in range(100_000):
        if met():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came")

"""The recorder of a timed run, for `Program.profile` and `Program.trace`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from webpte.engine.graph.graph import Call, Graph
from webpte.engine.graph.live_state import LiveState, Snapshot
from webpte.engine.run.device_plan import Segment

Watch = Callable[[Graph, Call, LiveState, dict[int, np.ndarray]], Callable[[], None]]


@dataclass(frozen=True)
class HostSpan:
    """A span of host time, by `perf_counter`, for a `call` of a delegate."""

    kind: str  # prepare, upload, submit, wait or host
    name: str
    start: float
    end: float
    place: int
    call: int | None = None
    nbytes: int = 0


@dataclass(frozen=True)
class TimedKernel:
    """A dispatch. `since` is the time of its submission; `microseconds` is None without a clock."""

    place: int
    call: int
    label: str
    microseconds: float | None
    since: float
    until: float  # the time when the results of its submission arrived


@dataclass(frozen=True)
class TimedDelegateCall:
    """A call of a delegate, and the shapes at which it runs."""

    place: int
    graph: Graph
    live: LiveState


class Timings:
    """Recorder of spans and kernels of a run.

    `clocked` is whether the GPU can time its kernels. `place` is the instruction of the method that
    is under way; the method sets it.
    """

    def __init__(self, clocked: bool = True) -> None:
        self.clocked = clocked
        self.place = 0
        self.host_spans: list[HostSpan] = []
        self.kernels: list[TimedKernel] = []
        self.entered: list[TimedDelegateCall] = []
        self.rows: list[tuple[str, float]] = []  # name of the op or kernel, and its microseconds

    def prepared(
        self, graph: Graph, live: Snapshot, times: tuple[float, float, float], nbytes: int
    ) -> None:
        """Record the spans between the `times`: finding or building a plan, then packing inputs."""
        started, planned, filled = times
        state = LiveState(graph)
        state.restore(live)
        self.entered.append(TimedDelegateCall(self.place, graph, state))
        self.host_spans += [
            HostSpan("prepare", "plan", started, planned, self.place),
            HostSpan("upload", "inputs", planned, filled, self.place, nbytes=nbytes),
        ]

    def host(self, name: str, started: float, call: int | None = None) -> float:
        """Record work on the host from `started` until now; returns its milliseconds."""
        ended = perf_counter()
        self.host_spans.append(HostSpan("host", name, started, ended, self.place, call))
        self.rows.append((f"host: {name}", (ended - started) * 1e6))
        return (ended - started) * 1000

    def noting(
        self, segment: Segment, running: Awaitable[tuple[bytes, list[float]]], started: float
    ) -> Awaitable[bytes]:
        """Wait for a submission that began at `started`; record its kernels, return its bytes."""
        return self._noted(segment, running, started, perf_counter(), self.place)

    async def _noted(
        self,
        segment: Segment,
        running: Awaitable[tuple[bytes, list[float]]],
        started: float,
        submitted: float,
        place: int,
    ) -> bytes:
        result, times = await running
        ended = perf_counter()
        sent = int(segment.payload.data.size)
        self.host_spans += [
            HostSpan("submit", "kernels", started, submitted, place, nbytes=sent),
            HostSpan("wait", "results", submitted, ended, place, nbytes=len(result)),
        ]
        known: list[float | None] = [*times] if self.clocked else [None] * len(segment.labels)
        for label, call, each in zip(segment.labels, segment.calls, known, strict=True):
            self.kernels.append(TimedKernel(place, call, label, each, submitted, ended))
            if each is not None:
                self.rows.append((label, each))
        return result


async def untimed(running: Awaitable[bytes]) -> tuple[bytes, list[float]]:
    """Return the result of a device without a clock in the form of a device with a clock."""
    return await running, []


def watch_numpy(timings: Timings | None) -> Watch | None:
    """Return a watch that times every call of a delegate that runs in NumPy."""
    if timings is None:
        return None
    place = timings.place

    def watch(
        graph: Graph, call: Call, live: LiveState, arrays: dict[int, np.ndarray]
    ) -> Callable[[], None]:
        if not timings.entered or timings.entered[-1].live is not live:
            timings.entered.append(TimedDelegateCall(place, graph, live))
        started = perf_counter()

        def done() -> None:
            timings.host(call.kernel or call.name, started, call.index)

        return done

    return watch

"""The request for a run, which a program hands to a method and a method to its delegates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from webpte.engine.ops.core.target import TunedConfigs
from webpte.engine.run.io import OutputPlacement
from webpte.engine.run.timings import Timings


class Probe(Protocol):
    """A recorder that runs delegates call by call and keeps the computed values."""

    async def run(
        self, delegate: object, inputs: Sequence[Any], place: int, *, alone: bool
    ) -> list[Any]:
        """Run a delegate that is step `place` of its method, and record its values."""

    def record_kernel(
        self, name: str, given: Sequence[Any], computed: Sequence[Any], place: int
    ) -> None:
        """Record a kernel of the method that has run on the host."""


@dataclass(frozen=True)
class DryRun:
    """A run that does not change state: to time, to inspect, or to try other tile configs."""

    timings: Timings | None = None
    probe: Probe | None = None
    configs: TunedConfigs | None = None


class RunRequest(NamedTuple):
    """Inputs, a placement for all outputs or a placement for each, and the kind of run.

    `dry_run` is None for a plain call. With `caller_restores` the caller restores the state after a
    failure or a dry run, because the caller's method has further steps.
    """

    inputs: Sequence[Any]
    outputs: OutputPlacement | Sequence[OutputPlacement] = OutputPlacement.HOST
    dry_run: DryRun | None = None
    caller_restores: bool = False

    @property
    def timings(self) -> Timings | None:
        return None if self.dry_run is None else self.dry_run.timings


class Delegate(Protocol):
    """The interface of GpuDelegate and NumpyDelegate."""

    @property
    def input_count(self) -> int: ...

    @property
    def has_state(self) -> bool: ...

    async def save_state(self) -> Callable[[], None]:
        """Return a function that restores the present state; for callers that run alone."""

    async def run(self, request: RunRequest) -> list[Any]:
        """Run once; returns a tensor or an int per output."""

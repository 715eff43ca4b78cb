"""Runs that look inside of delegates without changing state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from webpte.engine.graph.graph import Call, Graph
from webpte.engine.graph.live_state import LiveState
from webpte.engine.rewrite.dataflow import Dataflow
from webpte.engine.run.delegate import GpuDelegate
from webpte.engine.run.numpy_delegate import NumpyDelegate
from webpte.inspection.checker import CallChecker
from webpte.inspection.recorder import Arrays, ValueRecorder, count_non_finite
from webpte.inspection.stepwise import StepwiseRun


class ComparingProbe:
    """Runs delegates call by call, compares them with NumPy, and fills `recorder`."""

    def __init__(self, recorder: ValueRecorder) -> None:
        self.recorder = recorder

    async def run(
        self, delegate: object, inputs: Sequence[Any], place: int, *, alone: bool
    ) -> list[Any]:
        """Run a delegate; see `StepwiseRun.run` for `alone`."""
        if isinstance(delegate, NumpyDelegate):
            return await delegate.run_watched(inputs, self._watch(place))
        assert isinstance(delegate, GpuDelegate)

        def follow(live: LiveState, given: Arrays) -> CallChecker:
            return CallChecker(
                delegate.graph, live, given, delegate.constants(), self.recorder, place
            )

        return await StepwiseRun(delegate, follow).run(inputs, alone=alone)

    def _watch(self, place: int) -> Callable[..., Callable[[], None]]:
        """Return a watch that counts NaN and infinities, without a comparison."""

        def watch(graph: Graph, call: Call, live: LiveState, arrays: Arrays) -> Callable[[], None]:
            flow = Dataflow.of(graph)
            reads, changed = [i for i in flow.reads(call) if i in arrays], flow.changes(call)
            given = {i: arrays[i].copy() if i in changed else arrays[i] for i in reads}
            before = count_non_finite(given.values())

            def done() -> None:
                made = {i: arrays[i] for i in flow.writes(call) if i in arrays}
                name = call.kernel or call.name
                self.recorder.keep(place, call, given, made)
                self.recorder.add_values(place, call.index, name, before, made.values())

            return done

        return watch

    def record_kernel(
        self, name: str, given: Sequence[Any], computed: Sequence[Any], place: int
    ) -> None:
        """Record a kernel of the method that has run on the host."""
        self.recorder.add_values(place, None, name, count_non_finite(given), computed)

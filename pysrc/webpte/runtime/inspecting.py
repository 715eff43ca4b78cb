"""Looking inside of a program: `graph`, `compare`, `trace` and `memory`; see docs/inspecting.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webpte.errors import InputError
from webpte.insight import MethodGraph
from webpte.runtime.build import Build
from webpte.runtime.delegate import GpuDelegate
from webpte.runtime.describe import Inside, describe
from webpte.runtime.numpy_delegate import NumpyDelegate

if TYPE_CHECKING:
    from webpte.runtime.method import Delegate, Method

STAGES = ("planned", "file")


class Inspected:
    """The part of a program that shows what it does. `Program` is the only one of its kind."""

    name: str
    _build: Build

    def _known(self, name: str) -> Method:
        raise NotImplementedError

    def graph(self, method: str = "forward", stage: str = "planned") -> MethodGraph:
        """What a method consists of: calls, values between them, repeated blocks.

        stage  "planned": as it runs on the device, at the shapes of the last call; "file": as the
               exporter wrote it, before anything was folded, lifted or stitched
        """
        self._known(method)
        if stage not in STAGES:
            raise InputError(f"stage={stage!r}: there are {' and '.join(map(repr, STAGES))}")
        build = self._build
        stages = build.stages[method]
        if stage == "planned":
            contents = stages.planned
            inside = [_inside(delegate) for delegate in build.delegates_of(method)]
        else:
            contents = stages.file
            inside = [Inside(graph) for graph in contents.graphs if graph is not None]
        staying = {id(i) for i in stages.planned.plan.instructions}
        unfolded = {id(i) for i in stages.folded.plan.instructions}
        places = {
            id(i): "host" if id(i) in staying else "gpu" if id(i) in unfolded else "folded"
            for i in contents.plan.instructions
        }
        return describe(self.name, contents, stage, inside, stages.state, places, build.library)


def _inside(delegate: Delegate) -> Inside:
    if isinstance(delegate, GpuDelegate):
        steps = {step.call.index: step for step in delegate.steps}
        return Inside(delegate.graph, delegate.live, steps)
    assert isinstance(delegate, NumpyDelegate)
    return Inside(delegate.graph, where="host")

"""Sources of the graph view: the open program, or a compiled program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Protocol

from page.core.session import Session
from page.core.state import AppState
from page.shared.html.markup import Html, choice, h
from page.shared.html.units import bytes_text, plural, shape_text
from page.views.graph.choices import COLOURS, STAGES, Act
from page.views.graph.names import Names
from page.views.graph.runs import GraphRuns
from page.views.graph.seen import seen_view
from page.views.graph.stages import StageGraphs
from page.views.view import TIMESTAMPS
from webpte.compiling.device_classes import DESCRIPTION
from webpte.compiling.dispatch_graph import dispatch_graph, planned_methods, totals
from webpte.compiling.read_compiled import CompiledFiles, Table
from webpte.errors import DescriptionError
from webpte.inspection.report import MethodGraph, Node, Trace


class GraphSource(Protocol):
    """A source of graphs.

    method   whose graph it is
    stages   the graphs that it has, by stage, with their titles; {} for one only
    colours  what boxes can be coloured by
    device   that the graph is for
    busy     whether something runs on it
    clock    whether its calls can be timed
    trace    the last trace of the method
    stem     for the names of files
    key      tells graphs apart that are drawn alike
    """

    @property
    def method(self) -> str: ...
    @property
    def stages(self) -> Mapping[str, str]: ...
    @property
    def colours(self) -> Mapping[str, str]: ...
    @property
    def device(self) -> str: ...
    @property
    def busy(self) -> bool: ...
    @property
    def clock(self) -> bool: ...
    @property
    def trace(self) -> Trace | None: ...
    @property
    def stem(self) -> str: ...
    @property
    def key(self) -> str: ...

    def graph(self, stage: str) -> MethodGraph: ...

    def names(self, stage: str) -> Names: ...

    def linked(self, stage: str, node: int) -> Sequence[Node]:
        """Return the calls of the other graph that a call was made from, or became."""
        ...

    def seen(self, stage: str, node: Node, act: Act) -> Html | None:
        """Return the values of a call in a run; None if nothing can run."""
        ...

    def head(self, act: Act) -> Html | None:
        """Return what there is to choose above the graph."""
        ...


@dataclass(frozen=True)
class SessionSource:
    """The graphs of the open program."""

    state: AppState
    session: Session
    known: StageGraphs
    runs: GraphRuns
    stages = STAGES
    colours = COLOURS

    @property
    def method(self) -> str:
        return self.session.method

    @property
    def device(self) -> str:
        return self.session.device

    @property
    def busy(self) -> bool:
        return self.session.runner.busy

    @property
    def clock(self) -> bool:
        return self.device == "numpy" or TIMESTAMPS.met(self.state)

    @property
    def trace(self) -> Trace | None:
        return self.session.traces.get(self.method)

    @property
    def stem(self) -> str:
        return f"{self.session.source.name.removesuffix('.pte')}.{self.method}"

    @property
    def key(self) -> str:
        source = self.session.source
        return f"{source.name} {source.size} {self.method}"

    def graph(self, stage: str) -> MethodGraph:
        return self.known.of(self.session, stage)

    def names(self, stage: str) -> Names:
        return self.known.names(self.session, stage)

    def linked(self, stage: str, node: int) -> Sequence[Node]:
        return self.known.linked(self.session, stage, node)

    def seen(self, stage: str, node: Node, act: Act) -> Html | None:
        seen = self.runs.seen(self.session)
        kept = seen.calls.get(node.id) if seen is not None else None
        return seen_view(node, stage, kept, self.busy, self.names(stage), act)

    def head(self, act: Act) -> Html | None:
        return None


_DEVICES = {
    "software.json": "CPUs",
    "desktop-matrices.json": "desktop GPUs with subgroup matrices",
    "desktop-f16.json": "desktop GPUs with f16",
    "desktop-integers.json": "desktop GPUs with packed dot products",
    "desktop.json": "desktop GPUs",
    "f16.json": "GPUs with f16",
    "integers.json": "GPUs with packed dot products",
    DESCRIPTION: "every GPU",
}


class CompiledSource:
    """The dispatches of a compiled program: of a class of devices, a method, a plan."""

    stages: Mapping[str, str] = {}
    colours: Mapping[str, str] = {}
    device, busy, clock, trace = "webgpu", False, False, None

    def __init__(self, compiled: CompiledFiles) -> None:
        self.compiled = compiled
        tables = {one: table for one, table in compiled.tables.items() if planned_methods(table)}
        if not tables:
            raise DescriptionError(compiled.name, "no method of it has a plan")
        self._tables: Mapping[str, Table] = tables
        self._file = DESCRIPTION if DESCRIPTION in tables else next(iter(tables))
        self._method, self._plan = next(iter(self._methods)), 0
        self._drawn: tuple[MethodGraph, Names] | None = None

    @property
    def _methods(self) -> Mapping[str, list[Table]]:
        return planned_methods(self._tables[self._file])

    @property
    def method(self) -> str:
        return self._method

    @property
    def stem(self) -> str:
        return f"{PurePath(self.compiled.name).stem}.{self._method}.compiled"

    @property
    def key(self) -> str:
        return f"{self.compiled.name} {self._file} {self._method} {self._plan}"

    def choose(self, what: str, value: str) -> None:
        """Choose the file, the method or the plan; a choice that there is not changes nothing."""
        if what == "file" and value in self._tables:
            self._file = value
            if self._method not in self._methods:
                self._method = next(iter(self._methods))
            self._plan = min(self._plan, len(self._methods[self._method]) - 1)
        elif what == "method" and value in self._methods:
            self._method, self._plan = value, 0
        elif what == "plan" and value.isdecimal() and int(value) < len(self._methods[self._method]):
            self._plan = int(value)
        self._drawn = None

    def _graph(self) -> tuple[MethodGraph, Names]:
        if self._drawn is None:
            graph = dispatch_graph(self.compiled, self._file, self._method, self._plan)
            told = self._tables[self._file]["methods"][self._method]
            sides = (
                [one["name"] for one in told[side] if "kind" not in one]
                for side in ("inputs", "outputs")
            )
            self._drawn = graph, Names(graph, *sides)
        return self._drawn

    def graph(self, stage: str) -> MethodGraph:
        return self._graph()[0]

    def names(self, stage: str) -> Names:
        return self._graph()[1]

    def linked(self, stage: str, node: int) -> Sequence[Node]:
        return ()

    def seen(self, stage: str, node: Node, act: Act) -> Html | None:
        return None

    def head(self, act: Act) -> Html | None:
        table = self._tables[self._file]
        plans = self._methods[self._method]
        choices = (
            ("file", "compiled for", {one: _DEVICES.get(one, one) for one in self._tables}),
            ("method", "method", {one: one for one in self._methods}),
            ("plan", "shapes", {str(at): _shapes(plan) for at, plan in enumerate(plans)}),
        )
        chosen = {"file": self._file, "method": self._method, "plan": str(self._plan)}
        whole, stored = totals(table)
        told = [
            f"{self.compiled.name}, compiled",
            f"{plural(len(table['buffers']), 'buffer')} of {bytes_text(whole)}",
            f"{bytes_text(stored)} of weights",
            plural(len(table["kernels"]), "kernel"),
        ]
        if not self.compiled.shaders:
            told.append("drop the whole folder to see WGSL")
        return h(
            "div",
            h("p", " · ".join(told), class_="note"),
            [
                choice(title, options, chosen[name], "inline", data_act=act("compiled"),
                       data_name=name)
                for name, title, options in choices
                if len(options) > 1
            ],
            h("button", "Close", type="button", class_="quiet", data_act="close-compiled",
              aria_label="Close the compiled program"),
            class_="controls graph-compiled",
        )  # fmt: skip


def _shapes(plan: Table) -> str:
    return ", ".join("a number" if one is None else shape_text(one) for one in plan["shapes"])

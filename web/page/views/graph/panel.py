"""The graph view: a diagram or a list, folded by layers, with the details of each call."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

from page.browser import Message
from page.html.markup import Html, h
from page.html.units import count_text, plural
from page.parts.status_view import causes
from page.session.session import Session
from page.session.state import AppState, Change
from page.views.graph.boxes import Column, node_id
from page.views.graph.choices import COLOURS, DRAWINGS, STAGES, Choices
from page.views.graph.controls import KEYS, controls_view, drawing_tools, legend_view
from page.views.graph.drawn import Drawing, drawing_of, paint_of
from page.views.graph.inside import inside_view
from page.views.graph.outline import Box, all_folds, folds_around, found, outline, page_of
from page.views.graph.seen import SeenRun, seen_view, wanted_nodes
from page.views.graph.tints import Tints, times_of
from page.views.profile.shorter import traced_inputs
from page.views.view import METHOD, PROGRAM, TIMESTAMPS, Panel, View
from webpte.report import Histogram, MethodGraph, StoredConstant, Trace


class _RunStoppedError(Exception):
    """The run was stopped; raised inside it, since it has no other way to end."""


class GraphPanel(Panel):
    def __init__(self, view: View, state: AppState) -> None:
        super().__init__(view, state)
        self._graph: MethodGraph | None = None
        self._graph_key: tuple[object, ...] = ()
        self._method = ""
        self._choices = Choices()
        self._counted: dict[str, Histogram | None] = {}  # None: being counted
        self._seen: SeenRun | None = None
        self._sent = ("", "")  # the drawing and its colours, as the script has them

    def forget(self) -> None:
        self._graph, self._graph_key, self._method = None, (), ""
        self._choices = self._choices.for_another_graph()
        self._counted, self._seen, self._sent = {}, None, ("", "")

    # ---- what is shown

    def draw(self) -> None:
        session = self.state.session
        if session is None:
            return
        if session.method != self._method:
            self.end_work()
            self.forget()
        self._method = session.method
        self._graph = self._current(session, self._choices.stage)
        self._show(self._graph)
        if self._choices.drawing == "list":
            self.tell_script()

    def _current(self, session: Session, stage: str) -> MethodGraph:
        """Return the graph, rebuilt for another method or for the live shapes of another run."""
        program = session.program
        key = (session.method, stage, program.generation, program.stats.executions)
        known = self._graph if self._graph_key[:2] == key[:2] else None
        if known is None or (self._graph_key != key and not session.runner.busy):
            known, self._graph_key = program.graph(session.method, stage), key
        return known

    def _outline(self, graph: MethodGraph) -> list[Box]:
        return outline(graph, self._choices.opened)

    def _listed(self, graph: MethodGraph) -> list[Box]:
        """Return the boxes of the list."""
        if self._choices.searching:
            return [*found(graph, self._choices.text)]
        return self._outline(graph)

    def _found(self, graph: MethodGraph) -> list[int]:
        if not self._choices.searching:
            return []
        return [call.node.id for call in found(graph, self._choices.text)]

    def _show(self, graph: MethodGraph, reveal: bool = False) -> None:
        """Show the graph; `reveal`: the drawing moves to the chosen call."""
        session, choices = self.state.session, self._choices
        assert session is not None  # as PROGRAM says
        if choices.chosen is not None and choices.chosen >= len(graph.nodes):
            choices.chosen = None  # a plan for other shapes may have fewer calls
        drawn, matches = choices.drawing == "drawn", self._found(graph)
        tints = Tints(graph, choices.colour, times_of(graph, session.traces.get(self._method)))
        body = self._drawing_view() if drawn else self._list_view(graph, tints)
        inside = self._inside(session, graph, tints)
        self.show(
            h(
                "section",
                h(
                    "div",
                    h("h2", "Graph", h("span", self._method, class_="count")),
                    class_="card-head",
                ),
                controls_view(choices, self.act, bool(graph.layers), len(matches)),
                self._summary(session, graph, matches),
                self._legend(session, tints),
                h("div", body, inside, class_="graph-parts"),
                class_="card graph",
            )
        )
        if drawn:
            self._tell_drawing(graph, tints, matches, reveal)

    def _legend(self, session: Session, tints: Tints) -> Html:
        trace: Trace | None = session.traces.get(self._method)
        clock = session.device == "numpy" or TIMESTAMPS.met(self.state)
        return legend_view(
            self._choices,
            tints,
            self.act,
            traced=trace is not None,
            clock=clock if trace is None else trace.timed,
            busy=session.runner.busy,
        )

    def _list_view(self, graph: MethodGraph, tints: Tints) -> Html:
        choices, boxes = self._choices, self._listed(graph)
        if not 0 <= choices.first < max(1, len(boxes)):
            choices.first = 0
        return Column(graph, choices, tints, self.act).view(boxes)

    def _drawing_view(self) -> Html:
        """Return the empty drawing, which its script fills and keeps."""
        return h(
            "div",
            drawing_tools(),
            h("div", id="graph-drawing", data_keep=True),
            h("p", KEYS, class_="note", id="graph-keys"),
            class_="graph-stage",
        )

    def _inside(self, session: Session, graph: MethodGraph, tints: Tints) -> Html | None:
        choices = self._choices
        if choices.chosen is None:
            return None
        node, seen = graph.nodes[choices.chosen], self._fresh_seen(session)
        kept = seen.calls.get(node.id) if seen is not None else None
        values = seen_view(node, choices.stage, kept, session.runner.busy, self.act)
        return inside_view(graph, node, tints, self._counted, choices.shaders, values, self.act)

    def _fresh_seen(self, session: Session) -> SeenRun | None:
        """Return the values of the last run, unless inputs or state have changed since."""
        now = (session.held(), session.program.stats.executions)
        if self._seen is not None and (self._seen.held, self._seen.executions) != now:
            self._seen = None
        return self._seen

    def _summary(self, session: Session, graph: MethodGraph, matches: list[int]) -> Html:
        if self._choices.searching:
            told = f"{plural(len(matches), 'call')} of {count_text(len(graph.nodes))} found"
        else:
            told = f"{plural(len(graph.nodes), 'call')}, {plural(len(graph.values), 'value')}"
            told += "".join(f", {group.name} × {group.count}" for group in graph.layers)
        if session.device == "numpy" and self._choices.stage == "planned":
            told += ". NumPy runs all on the host: kernels are shown on WebGPU."
        return h("p", told, class_="note", role="status")

    def _tell_drawing(
        self, graph: MethodGraph, tints: Tints, matches: list[int], reveal: bool
    ) -> None:
        boxes = self._outline(graph)
        drawing = drawing_of(graph, boxes)
        text, paint = drawing.json(), paint_of(graph, boxes, drawing, tints)
        data: dict[str, object] = {"mark": self._marks(drawing, matches, reveal)}
        if text != self._sent[0]:
            data["drawing"] = text
        if "drawing" in data or paint != self._sent[1]:
            data["paint"] = paint
        self._sent = (text, paint)
        session = self.state.session
        stem = session.source.name.removesuffix(".pte") if session is not None else "graph"
        self.tell_script(**data, file=f"{stem}.{self._method}.svg")

    def _marks(self, drawing: Drawing, matches: list[int], reveal: bool) -> dict[str, object]:
        chosen = self._choices.chosen
        return {
            "chosen": None if chosen is None else drawing.box_of[chosen],
            "found": sorted({drawing.box_of[node] for node in matches}),
            "searching": self._choices.searching,
            "reveal": reveal,
        }

    # ---- how it is looked at

    def on_drawing(self, message: Message) -> None:
        value = str(message["value"])
        if value in DRAWINGS and value != self._choices.drawing:
            self._choices.drawing, self._choices.first, self._sent = value, 0, ("", "")
            self._again(reveal=True)

    def on_stage(self, message: Message) -> None:
        value, session = str(message["value"]), self.state.session
        if session is None or value not in STAGES:
            return
        graph = self._current(session, value)  # if it fails, nothing changes
        self.end_work()
        self._counted = {}  # values have other names in the other graph
        old = self._choices
        self._choices = Choices(old.drawing, value, old.colour, old.text)
        self._graph = graph
        self._show(graph)

    def on_colour(self, message: Message) -> None:
        if str(message["value"]) in COLOURS:
            self._choices.colour = str(message["value"])
            self._again()

    def on_fold(self, message: Message) -> None:
        self._choices.opened, self._choices.first = set(), 0
        self._again()

    def on_unfold(self, message: Message) -> None:
        if self._graph is not None:
            self._choices.opened, self._choices.first = all_folds(self._graph), 0
            self._again()

    def on_toggle(self, message: Message) -> None:
        self._choices.opened ^= {str(message["key"])}
        self._again()

    def on_turn(self, message: Message) -> None:
        graph, first = self._graph, int(message["first"])
        if graph is not None and 0 <= first < len(self._listed(graph)):
            self._choices.first = first
            self._again()
            self.tell_script(focus="first")

    # ---- the search

    def on_search(self, message: Message) -> None:
        self._choices.text, self._choices.first = str(message["value"]), 0
        self._choices.match = None
        self._again()

    def on_step(self, message: Message) -> None:
        """Go to the next or previous match; after the last comes the first."""
        graph, choices = self._graph, self._choices
        matches = self._found(graph) if graph is not None else []
        if graph is None or not matches:
            return
        by = int(message["by"])
        at = choices.match
        choices.match = (
            (0 if by > 0 else -1) % len(matches) if at is None else (at + by) % len(matches)
        )
        self._look_at(graph, matches[choices.match])

    # ---- one call

    def _look_at(self, graph: MethodGraph, node: int) -> None:
        choices = self._choices
        choices.opened |= folds_around(graph, node)
        choices.chosen, choices.shaders = node, set()
        choices.first = page_of(self._listed(graph), node)
        self._show(graph, reveal=True)

    def on_choose(self, message: Message) -> None:
        """Open a call, or close it again."""
        graph, node, choices = self._graph, int(message["node"]), self._choices
        if graph is None or not 0 <= node < len(graph.nodes):
            return  # it belongs to an older graph
        choices.chosen = None if choices.chosen == node else node
        choices.shaders = set()
        self._show(graph)

    def on_close(self, message: Message) -> None:
        """Close the details and return the focus to the call."""
        chosen, self._choices.chosen = self._choices.chosen, None
        self._again()
        if chosen is not None:
            drawn = self._choices.drawing == "drawn"
            self.tell_script(focus="drawing" if drawn else node_id(chosen))

    def on_go(self, message: Message) -> None:
        """Go to a call: open folds around it, and end a search that hides it."""
        graph, node = self._graph, int(message["node"])
        if graph is None or not 0 <= node < len(graph.nodes):
            return
        self._choices.text, self._choices.match = "", None
        self._look_at(graph, node)
        if self._choices.drawing == "list":
            self.tell_script(focus=node_id(node))

    def on_wgsl(self, message: Message) -> None:
        self._choices.shaders ^= {int(message["kernel"])}
        self._again()

    def on_count(self, message: Message) -> None:
        """Compute the histogram of a constant."""
        key = str(message["key"])
        value = self._graph.values.get(key) if self._graph is not None else None
        constant = value.constant if value is not None else None
        if constant is not None and key not in self._counted:
            self._counted[key] = None
            self._again()
            self.start(self._count(key, constant, self._counted), f"counting values of {key}")

    async def _count(
        self, key: str, constant: StoredConstant, counted: dict[str, Histogram | None]
    ) -> None:
        try:
            counted[key] = await constant.histogram()
        except BaseException:
            del counted[key]  # so that it can be requested again
            raise
        finally:
            if counted is self._counted:  # else another graph is shown
                self._again()

    # ---- what needs a run

    async def on_measure(self, message: Message) -> None:
        session = self._ready()
        if session is not None:
            await self._do(session, self._measure(session), "measuring")

    async def _measure(self, session: Session) -> None:
        traced, seen = traced_inputs(self.state, session), self._fresh_seen(session)
        arrays = [state.array() for state in traced.inputs]
        trace = await session.program.trace(session.method, *arrays)
        session.traces[session.method] = trace
        if seen is not None:  # a trace changes no state: the values are still valid
            self._seen = replace(seen, executions=session.program.stats.executions)
        told = "Measured" if trace.timed else "This adapter cannot time its kernels"
        self.state.tell(f"{told}. {traced.note}" if traced.note else told)

    async def on_values(self, message: Message) -> None:
        session, graph, chosen = self._ready(), self._graph, self._choices.chosen
        if session is None or graph is None or chosen is None:
            return
        if self._choices.stage == "planned" and graph.nodes[chosen].call is not None:
            nodes = wanted_nodes(graph, chosen)
            await self._do(session, self._see(session, nodes), "looking at values")

    async def _see(self, session: Session, nodes: list[int]) -> None:
        held, known = session.held(), self._fresh_seen(session)
        arrays = [state.array() for state in session.inputs]

        def progress(_stage: str, _done: int, _total: int) -> None:
            if session.runner.stopping:
                raise _RunStoppedError

        try:
            values = await session.program.values(
                session.method, *arrays, nodes=nodes, progress=progress
            )
        except Exception as error:  # the run may have wrapped it
            if not any(isinstance(cause, _RunStoppedError) for cause in causes(error)):
                raise
            self.state.tell("Stopped: no values are shown")
            return
        before = known.calls if known is not None else {}
        executions = session.program.stats.executions  # nothing else has run meanwhile
        self._seen = SeenRun(held, executions, {**before, **values.calls})
        self.state.tell("Values of a run are shown")

    def _ready(self) -> Session | None:
        """Return the session if it can run with the current inputs; else say in the status what is
        wrong."""
        session = self.state.idle_session()
        problem = next((one for one in session.inputs if one.error), None) if session else None
        if problem is not None:
            self.state.tell(f"{problem.name} is not ready, see Run: {problem.error}", "bad")
            return None
        return session

    async def _do(self, session: Session, work: Coroutine[Any, Any, None], doing: str) -> None:
        """Run work on the program; the panel is redrawn when Change.BUSY is announced."""
        self.state.show(error="")
        self.state.tell(doing.capitalize(), "busy")
        await self.state.do(session, work, doing, can_stop=session.device != "numpy")

    def _again(self, reveal: bool = False) -> None:
        if self._graph is not None:
            self._show(self._graph, reveal)


VIEW = View(
    "graph",
    "Graph",
    order=20,
    make=GraphPanel,
    needs=(PROGRAM, METHOD),
    follows=(Change.SESSION, Change.METHOD, Change.INPUTS, Change.RESULTS, Change.BUSY),
    style=True,
)

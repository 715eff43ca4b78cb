"""The graph view: a diagram or a list, folded by layers, with the details of each call."""

from __future__ import annotations

from page.browser import Message
from page.core.palette import Command
from page.core.state import AppState, Change
from page.shared.html.markup import Html, h
from page.views.graph.boxes import Column, node_id
from page.views.graph.choices import COLOURS, DRAWINGS, Choices
from page.views.graph.controls import (
    KEYS,
    controls_view,
    drawing_tools,
    legend_view,
    summary_view,
)
from page.views.graph.drawn import drawing_of, marks_of, paint_of
from page.views.graph.inside import CallParts, inside_view
from page.views.graph.names import Names
from page.views.graph.outline import (
    Box,
    OutlineCall,
    all_folds,
    folds_around,
    found,
    outline,
    page_of,
)
from page.views.graph.runs import GraphRuns
from page.views.graph.seen import wanted_nodes
from page.views.graph.sources import CompiledSource, GraphSource, SessionSource
from page.views.graph.stages import FILE, PLANNED, StageGraphs
from page.views.graph.tints import Tints, times_of
from page.views.view import METHOD, PROGRAM, Need, Panel, View
from webpte.inspection.report import Histogram, MethodGraph, StoredConstant


class GraphPanel(Panel):
    def __init__(self, view: View, state: AppState) -> None:
        super().__init__(view, state)
        self._graph: MethodGraph | None = None
        self._stages = StageGraphs()
        self._compiled: CompiledSource | None = None
        self._runs = GraphRuns(state)
        self._shown = ""  # the kind of the source, and its method
        self._choices = Choices()
        self._counted: dict[str, Histogram | None] = {}  # None: being counted
        self._sent = ("", "")  # the drawing and its colours, as the script has them
        state.follow(self._follow, Change.VIEW)

    def forget(self) -> None:
        self._leave_full()
        self._graph, self._shown = None, ""
        self._stages.forget()
        self._runs.forget()
        self._choices = self._choices.for_another_graph()
        self._counted, self._sent = {}, ("", "")

    def _follow(self, change: Change) -> None:
        if self.state.front != self.view.name:
            self._leave_full()

    def _leave_full(self) -> None:
        """Give the window back to the page, which cannot be reached otherwise."""
        if self._choices.full:
            self._choices.full = False
            self.tell_script(full=False)
            if self._source is not None:
                self._again()

    @property
    def _source(self) -> GraphSource | None:
        """The source of graphs: the compiled program that is shown, or the open program."""
        compiled, session = self.state.compiled, self.state.session
        if compiled is not None:
            if self._compiled is None or self._compiled.compiled is not compiled:
                self._compiled = CompiledSource(compiled)
            return self._compiled
        self._compiled = None
        if session is None:
            return None
        return SessionSource(self.state, session, self._stages, self._runs)

    # ---- drawing

    def draw(self) -> None:
        source = self._source
        if source is None:
            return
        shown = f"{type(source).__name__} {source.method}"
        if shown != self._shown:
            self.end_work()
            self.forget()
        self._shown = shown
        self._graph = source.graph(self._choices.stage)
        self._show(self._graph)
        if self._choices.drawing == "list":
            self.tell_script()

    def _outline(self, graph: MethodGraph) -> list[Box]:
        return outline(graph, self._choices.opened)

    def _listed(self, graph: MethodGraph) -> list[Box]:
        """Return the boxes of the list."""
        return [*self._found(graph)] if self._choices.searching else self._outline(graph)

    def _found(self, graph: MethodGraph) -> list[OutlineCall]:
        source = self._source
        if not self._choices.searching or source is None:
            return []
        return found(graph, self._choices.text, source.names(self._choices.stage))

    def _show(self, graph: MethodGraph, reveal: bool = False) -> None:
        """Show the graph; `reveal`: the drawing moves to the chosen call."""
        source, choices = self._source, self._choices
        assert source is not None  # as GRAPHED says
        if choices.chosen is not None and choices.chosen >= len(graph.nodes):
            choices.chosen = None  # a plan for other shapes may have fewer calls
        drawn, matches = choices.drawing == "drawn", self._found(graph)
        tints = Tints(graph, choices.colour, times_of(graph, source.trace))
        names = source.names(choices.stage)
        body = self._drawing_view() if drawn else self._list_view(graph, tints, names)
        inside = self._inside(source, graph, tints)
        self.show(
            h(
                "section",
                h(
                    "div",
                    h("h2", "Graph", h("span", source.method, class_="count")),
                    class_="card-head",
                ),
                source.head(self.act),
                controls_view(choices, self.act, bool(graph.layers), len(matches), source),
                summary_view(source.device, graph, choices, matches),
                legend_view(choices, tints, self.act, source),
                h("div", body, inside, class_="graph-parts"),
                class_="card graph graph-full" if choices.full else "card graph",
            )
        )
        if drawn:
            self._tell_drawing(source, graph, tints, matches, reveal)

    def _list_view(self, graph: MethodGraph, tints: Tints, names: Names) -> Html:
        choices, boxes = self._choices, self._listed(graph)
        if not 0 <= choices.first < max(1, len(boxes)):
            choices.first = 0
        return Column(graph, choices, tints, names, self.act).view(boxes)

    def _drawing_view(self) -> Html:
        """Return the empty drawing, which its script fills and keeps."""
        return h(
            "div",
            drawing_tools(self._choices.full, self.act),
            h("div", id="graph-drawing", data_keep=True),
            h("p", KEYS, class_="note", id="graph-keys"),
            class_="graph-stage",
        )

    def _inside(self, source: GraphSource, graph: MethodGraph, tints: Tints) -> Html | None:
        choices, stage = self._choices, self._choices.stage
        if choices.chosen is None:
            return None
        node = graph.nodes[choices.chosen]
        values = source.seen(stage, node, self.act)
        linked = source.linked(stage, node.id)
        parts = CallParts(graph, node, source.names(stage), tints, linked)
        return inside_view(parts, self._counted, choices.shaders, values, self.act)

    def _tell_drawing(
        self,
        source: GraphSource,
        graph: MethodGraph,
        tints: Tints,
        matches: list[OutlineCall],
        reveal: bool,
    ) -> None:
        boxes = self._outline(graph)
        drawing = drawing_of(graph, boxes, source.names(self._choices.stage))
        text, paint = drawing.json(), paint_of(graph, boxes, drawing, tints)
        data: dict[str, object] = {"mark": marks_of(drawing, self._choices, matches, reveal)}
        if text != self._sent[0]:
            data["drawing"] = text
        if "drawing" in data or paint != self._sent[1]:
            data["paint"] = paint
        self._sent = (text, paint)
        self.tell_script(
            **data,
            file=f"{source.stem}.svg",
            graph=f"{source.key} {self._choices.stage}",
            full=self._choices.full,
        )

    # ---- how it is looked at

    def on_drawing(self, message: Message) -> None:
        value = str(message["value"])
        if value in DRAWINGS and value != self._choices.drawing:
            self._choices.drawing, self._choices.first, self._sent = value, 0, ("", "")
            self._again(reveal=True)

    def on_stage(self, message: Message) -> None:
        value, source = str(message["value"]), self._source
        if source is not None and value in source.stages:
            self._show(self._turn_to(source, value))

    def on_compiled(self, message: Message) -> None:
        """Turn to another class of devices, method or plan of the compiled program."""
        if self._compiled is not None:
            self._compiled.choose(str(message["name"]), str(message["value"]))
            self._choices = self._choices.for_another_graph()
            self.draw()

    def _turn_to(self, source: GraphSource, stage: str) -> MethodGraph:
        """Turn to the other graph; if it cannot be built, nothing changes."""
        graph = source.graph(stage)
        self.end_work()
        self._counted = {}  # values have other names in the other graph
        old = self._choices
        self._choices = Choices(old.drawing, stage, old.colour, old.text, full=old.full)
        self._graph = graph
        return graph

    def on_link(self, message: Message) -> None:
        """Go to a call of the other graph, from which the open one was made, or which it became."""
        source, node = self._source, int(message["node"])
        other = FILE if self._choices.stage == PLANNED else PLANNED
        if source is None or other not in source.stages:
            return
        if 0 <= node < len(source.graph(other).nodes):
            graph = self._turn_to(source, other)
            self._choices.text = ""
            self._look_at(graph, node)
            if self._choices.drawing == "list":
                self.tell_script(focus=node_id(node))

    def on_full(self, message: Message) -> None:
        """Give the graph the whole window, or give it back."""
        self._choices.full = not self._choices.full
        self._again()
        if self._choices.drawing == "list":
            self.tell_script(full=self._choices.full)

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
        self._look_at(graph, matches[choices.match].node.id)

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

    def on_call(self, message: Message) -> None:
        """Go to a call of the optimized graph; the profile links to it."""
        if self.state.session is None:
            return
        if self.state.compiled is not None:
            self.state.show_compiled(None)
            self.draw()
        source = self._source
        if source is not None and (self._graph is None or self._choices.stage != PLANNED):
            self._turn_to(source, PLANNED)
        self.on_go(message)
        self.tell_script(focus="drawing")

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

    # ---- acts that need a run

    async def on_measure(self, message: Message) -> None:
        await self._runs.measure()

    async def on_values(self, message: Message) -> None:
        graph, chosen = self._graph, self._choices.chosen
        if graph is None or chosen is None or graph.stage != PLANNED:
            return
        if graph.nodes[chosen].call is not None:
            await self._runs.see(wanted_nodes(graph, chosen))

    def _again(self, reveal: bool = False) -> None:
        if self._graph is not None:
            self._show(self._graph, reveal)


GRAPHED = Need(PROGRAM.text, lambda state: state.compiled is not None or PROGRAM.met(state), True)
_METHOD = Need(METHOD.text, lambda state: state.compiled is not None or METHOD.met(state))

VIEW = View(
    "graph",
    "Graph",
    order=20,
    also="netron operators model",
    make=GraphPanel,
    needs=(GRAPHED, _METHOD),
    follows=(
        *(Change.SESSION, Change.METHOD, Change.INPUTS, Change.RESULTS, Change.BUSY),
        Change.COMPILED,
    ),
    style=True,
    commands=(Command("Toggle full window", "full", also="fullscreen maximize"),),
)

"""The method's graph: its calls in order, folded by layers, and what is inside of each."""

from __future__ import annotations

from page.browser import Message
from page.graph.boxes import COLOURS, STAGES, Choices, Column, controls_view, node_id
from page.graph.inside import inside_view
from page.graph.outline import Box, all_folds, folds_around, found, outline, page_of
from page.markup import Html, h
from page.stage import Stage
from page.units import count_text, plural
from page.view import METHOD, PROGRAM, Panel, View
from webpte.insight import Histogram, MethodGraph, StoredConstant


class GraphPanel(Panel):
    def __init__(self, view: View, stage: Stage) -> None:
        super().__init__(view, stage)
        self._graph: MethodGraph | None = None
        self._method = ""
        self._choices = Choices()
        self._counted: dict[str, Histogram | None] = {}  # None: being counted

    def forget(self) -> None:
        self._graph, self._method = None, ""
        # How people look at graphs is the same for the next program; what they look at is not.
        self._choices = Choices(self._choices.stage, self._choices.colour)
        self._counted = {}

    def draw(self) -> None:
        """Anew: another method, or other live shapes."""
        session = self.stage.session
        if session is None:
            return
        if session.method != self._method:
            self.end_work()
            self.forget()
        self._method = session.method
        self._graph = session.program.graph(session.method, self._choices.stage)
        self._show(self._graph)
        self.tell_script()

    def _boxes(self, graph: MethodGraph) -> list[Box]:
        choices = self._choices
        return (
            found(graph, choices.text) if choices.text.strip() else outline(graph, choices.opened)
        )

    def _show(self, graph: MethodGraph) -> None:
        choices = self._choices
        boxes = self._boxes(graph)
        if not 0 <= choices.first < max(1, len(boxes)):
            choices.first = 0
        inside = None
        if choices.chosen is not None and choices.chosen >= len(graph.nodes):
            choices.chosen = None  # the plan of other shapes can have fewer calls
        if choices.chosen is not None:
            node = graph.nodes[choices.chosen]
            inside = inside_view(graph, node, self._counted, choices.shaders, self.act)
        column = Column(graph, choices, self.act)
        self.show(
            h(
                "section",
                h(
                    "div",
                    h("h2", "Graph", h("span", self._method, class_="count")),
                    class_="card-head",
                ),
                controls_view(choices, self.act, bool(graph.layers)),
                self._summary(graph, boxes),
                column.legend(),
                column.view(boxes, inside),
                class_="card graph",
            )
        )

    def _summary(self, graph: MethodGraph, boxes: list[Box]) -> Html:
        if self._choices.text.strip():
            told = f"{plural(len(boxes), 'call')} of {count_text(len(graph.nodes))} found"
        else:
            told = f"{plural(len(graph.nodes), 'call')}, {plural(len(graph.values), 'value')}"
            told += "".join(f", {group.name} × {group.count}" for group in graph.layers)
        session = self.stage.session
        on_numpy = session is not None and session.device == "numpy"
        if on_numpy and self._choices.stage == "planned":
            told += ". NumPy runs all on the host: kernels are shown on WebGPU."
        return h("p", told, class_="note", role="status")

    # ---- what people do

    def on_stage(self, message: Message) -> None:
        value, session = str(message["value"]), self.stage.session
        if session is None or value not in STAGES:
            return
        graph = session.program.graph(self._method, value)  # if it fails, all stays as it is
        self.end_work()
        self._counted = {}  # values have other names there
        self._choices = Choices(value, self._choices.colour, self._choices.text)
        self._graph = graph
        self._show(graph)

    def on_colour(self, message: Message) -> None:
        if str(message["value"]) in COLOURS:
            self._choices.colour = str(message["value"])
            self._again()

    def on_search(self, message: Message) -> None:
        self._choices.text, self._choices.first = str(message["value"]), 0
        self._again()

    def on_fold(self, message: Message) -> None:
        self._choices.opened, self._choices.first = set(), 0
        self._again()

    def on_unfold(self, message: Message) -> None:
        if self._graph is not None:
            self._choices.opened, self._choices.first = all_folds(self._graph), 0
            self._again()

    def on_toggle(self, message: Message) -> None:
        key = str(message["key"])
        self._choices.opened ^= {key}
        self._again()

    def on_turn(self, message: Message) -> None:
        graph, first = self._graph, int(message["first"])
        if graph is not None and 0 <= first < len(self._boxes(graph)):
            self._choices.first = first
            self._again()
            self.tell_script(focus="first")

    def on_choose(self, message: Message) -> None:
        """A box is opened, or closed again."""
        graph, node, choices = self._graph, int(message["node"]), self._choices
        if graph is None or not 0 <= node < len(graph.nodes):
            return  # it was of the graph before this one
        choices.chosen = None if choices.chosen == node else node
        choices.shaders = set()
        self._show(graph)

    def on_go(self, message: Message) -> None:
        """To a call, wherever it is: folds around it open, and a search that hides it ends."""
        graph, node, choices = self._graph, int(message["node"]), self._choices
        if graph is None or not 0 <= node < len(graph.nodes):
            return
        choices.text, choices.shaders = "", set()
        choices.opened |= folds_around(graph, node)
        choices.chosen, choices.first = node, page_of(self._boxes(graph), node)
        self._show(graph)
        self.tell_script(focus=node_id(node))

    def on_wgsl(self, message: Message) -> None:
        self._choices.shaders ^= {int(message["kernel"])}
        self._again()

    def on_count(self, message: Message) -> None:
        """The histogram of a constant."""
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
            del counted[key]  # it can be asked for again
            raise
        finally:
            if counted is self._counted:  # else nobody looks at that graph any more
                self._again()

    def _again(self) -> None:
        if self._graph is not None:
            self._show(self._graph)


VIEW = View("graph", "Graph", order=20, make=GraphPanel, needs=(PROGRAM, METHOD), style=True)

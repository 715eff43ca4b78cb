"""Colours of calls: by kind, by device, by dtype, or by time; text says the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from page.shared.html.markup import Html, h
from page.shared.html.units import count_text, us_text
from page.views.graph.choices import PLACES
from page.views.graph.kinds import KINDS, kind_of
from webpte.inspection.report import MethodGraph, Node, Trace

TINTS = 6  # colours of graph.css for dtypes
HEATS = 6  # and for times: each step is half of the step above
UNTIMED = "graph-untimed"


@dataclass(frozen=True)
class Times:
    """Microseconds of each call, over all of its dispatches."""

    by_node: Mapping[int, float]

    @property
    def longest(self) -> float:
        return max(self.by_node.values(), default=0.0)

    @property
    def total(self) -> float:
        return sum(self.by_node.values())

    def of(self, nodes: Sequence[Node]) -> float | None:
        found = [self.by_node[node.id] for node in nodes if node.id in self.by_node]
        return sum(found) if found else None

    def heat(self, node: int) -> int | None:
        """Return the heat of a call: 0 for the longest times, 1 below half of them, and so on."""
        taken = self.by_node.get(node)
        if taken is None:
            return None
        step = 0
        while step < HEATS - 1 and taken * 2 ** (step + 1) < self.longest:
            step += 1
        return step


def times_of(graph: MethodGraph, trace: Trace | None) -> Times | None:
    """Return the times of a trace; None if it has no times, or is of a plan with other calls."""
    if trace is None or trace.method != graph.method or graph.stage != "planned":
        return None
    spent: dict[int, float] = {}
    for step in trace.steps:
        if step.node >= len(graph.nodes) or graph.nodes[step.node].op != step.op:
            return None
        if step.microseconds is not None:
            spent[step.node] = spent.get(step.node, 0.0) + step.microseconds
    return Times(spent) if spent else None


class Tints:
    """The colours of one graph."""

    def __init__(self, graph: MethodGraph, colour: str, times: Times | None) -> None:
        self._graph = graph
        self._colour = colour
        self.times = times
        counts = Counter(self.dtype(node) for node in graph.nodes)
        self._dtypes = [name for name, _ in counts.most_common()]

    def dtype(self, node: Node) -> str:
        """Return the dtype of a call's output, or of the tensor that the call changes."""
        keys = (*node.outputs, *node.changes)
        return next((self._graph.values[key].dtype for key in keys), "none")

    def of(self, node: Node) -> str:
        """Return the CSS class of a call's colour."""
        if self._colour == "kind":
            return f"graph-kind-{kind_of(node)}"
        if self._colour == "where":
            return f"graph-{node.where}"
        if self._colour == "dtype":
            return self._of_dtype(self.dtype(node))
        heat = self.times.heat(node.id) if self.times is not None else None
        return UNTIMED if heat is None else f"graph-heat-{heat}"

    def _of_dtype(self, dtype: str) -> str:
        return f"graph-tint-{min(self._dtypes.index(dtype), TINTS - 1)}"

    def shares(self, nodes: Sequence[Node]) -> list[tuple[str, float]]:
        """Return the colours of several calls, each with its share of their number or time."""
        weights: dict[str, float] = {}
        whole = self.times.of(nodes) if self._colour == "time" and self.times else None
        for node in nodes:
            weight = 1.0 if not whole or self.times is None else self.times.by_node.get(node.id, 0)
            if weight:
                weights[self.of(node)] = weights.get(self.of(node), 0.0) + weight
        total = sum(weights.values()) or 1.0
        return [(tint, weight / total) for tint, weight in weights.items()]

    def note(self, nodes: Sequence[Node]) -> str:
        """Return the note of a box: its time, if colours show times."""
        taken = self.times.of(nodes) if self.times and self._colour == "time" else None
        return "" if taken is None else us_text(taken)

    # ---- legend

    def legend(self) -> Html:
        """Return the legend, with the number of calls of each colour."""
        entries = [
            h(
                "li",
                h("span", class_=f"graph-dot {tint}", aria_hidden="true"),
                f"{text} ",
                h("span", count_text(count), class_="count"),
            )
            for tint, text, count in self._meanings()
        ]
        return h("ul", entries, class_="graph-legend", aria_label="Colours")

    def _meanings(self) -> list[tuple[str, str, int]]:
        nodes = self._graph.nodes
        if self._colour == "kind":
            kinds = Counter(map(kind_of, nodes))
            return [(f"graph-kind-{one}", one, kinds[one]) for one in KINDS if kinds[one]]
        if self._colour == "where":
            places = Counter(node.where for node in nodes)
            return [(f"graph-{one}", PLACES.get(one, one), n) for one, n in places.items()]
        if self._colour == "dtype":
            dtypes = Counter(map(self.dtype, nodes))
            return [(self._of_dtype(one), one, dtypes[one]) for one in self._dtypes]
        counts = Counter(map(self.of, nodes))
        found = []
        for step in range(HEATS):
            if counts[f"graph-heat-{step}"] and self.times is not None:
                edge = us_text(self.times.longest / 2 ** (step + 1))
                text = f"over {edge}" if step < HEATS - 1 else "less"
                found.append((f"graph-heat-{step}", text, counts[f"graph-heat-{step}"]))
        if counts[UNTIMED]:
            found.append((UNTIMED, "no time of its own", counts[UNTIMED]))
        return found

"""The graph as a list: a column of boxes, in the order of execution."""

from __future__ import annotations

from collections.abc import Sequence

from page.shared.html.markup import Html, h
from page.shared.html.units import count_text, plural
from page.views.graph.choices import Act, Choices
from page.views.graph.drawn import fold_title, gives_text, type_text
from page.views.graph.names import Names, short
from page.views.graph.outline import SHOWN, Box, Fold, OutlineCall
from page.views.graph.tints import Tints
from webpte.inspection.report import MethodGraph, Node

MOST_SOURCES = 6  # links of one box; the opened one has them all


def node_id(node: int) -> str:
    return f"graph-call-{node}"


def fold_id(key: str) -> str:
    return f"graph-fold-{key.replace('.', '-')}"


class Column:
    """The list of one graph's boxes."""

    def __init__(
        self, graph: MethodGraph, choices: Choices, tints: Tints, names: Names, act: Act
    ) -> None:
        self._graph = graph
        self._names = names
        self._choices = choices
        self._tints = tints
        self._act = act

    def view(self, boxes: Sequence[Box]) -> Html:
        first = self._choices.first
        shown = boxes[first : first + SHOWN]
        near = self._near()
        rows = [
            self._fold(box) if isinstance(box, Fold) else self._call(box, near) for box in shown
        ]
        searching = self._choices.searching
        starts, ends = first == 0 and not searching, first + SHOWN >= len(boxes) and not searching
        return h(
            "div",
            self._pages(len(boxes), "above") if len(boxes) > SHOWN else None,
            h(
                "ol",
                self._ends("Inputs", self._graph.inputs, False) if starts else None,
                rows,
                self._ends("Outputs", self._graph.outputs, True) if ends else None,
                class_="graph-flow",
                aria_label="Calls in the order in which they run",
            ),
            self._pages(len(boxes), "below") if len(boxes) > SHOWN else None,
        )

    # ---- boxes

    def _fold(self, box: Fold) -> Html:
        size = plural(len(box.nodes), "call")
        note = self._tints.note(box.nodes)
        button = h(
            "button",
            h("span", fold_title(box), class_="graph-op"),
            h("span", f"{size}, {box.nodes[0].id} to {box.nodes[-1].id}", class_="count"),
            h("span", note, class_="graph-time") if note else None,
            self._bar(box.nodes),
            type="button",
            id=fold_id(box.key),
            data_act=self._act("toggle"),
            data_key=box.key,
            aria_expanded="true" if box.is_open else "false",
        )
        return h("li", button, class_=f"graph-box graph-fold graph-depth-{box.depth}")

    def _bar(self, nodes: Sequence[Node]) -> Html:
        """Return the colours of folded calls, each as long as its share."""
        parts, start = [], 0.0
        for tint, share in self._tints.shares(nodes):
            width = 100 * share
            parts.append(
                h("rect", x=f"{start:.2f}%", width=f"{width:.2f}%", height="5", class_=tint)
            )
            start += width
        return h("svg", parts, width="100%", height="5", class_="graph-bar", aria_hidden="true")

    def _call(self, box: OutlineCall, near: dict[int, str]) -> Html:
        node = box.node
        chosen = node.id == self._choices.chosen
        note = self._tints.note((node,))
        layer = node.layer if self._choices.searching else None
        button = h(
            "button",
            h("span", str(node.id), class_="graph-number"),
            h("span", short(node.op), class_="graph-op"),
            h("span", gives_text(self._graph, node), class_="type"),
            h("span", near[node.id], class_="graph-near") if node.id in near else None,
            h("span", layer, class_="count") if layer else None,
            h("span", f"contains {', '.join(map(short, box.holds))}", class_="graph-near")
            if box.holds
            else None,
            h("span", note, class_="graph-time") if note else None,
            h("span", node.where, class_=f"tag tag-{node.where}"),
            type="button",
            id=node_id(node.id),
            title=node.op,
            data_act=self._act("choose"),
            data_node=node.id,
            aria_expanded="true" if chosen else "false",
            aria_controls="graph-inside" if chosen else None,
        )
        classes = ["graph-box", f"graph-depth-{box.depth}", self._tints.of(node)]
        classes += ["graph-chosen"] if chosen else []
        return h("li", button, self._sources(node), class_=" ".join(classes))

    def _sources(self, node: Node) -> Html | None:
        """Return links to the calls that a call's inputs come from."""
        found: list[Node] = []
        for key in node.inputs:
            before = [writer for writer in self._graph.writers(key) if writer.id < node.id]
            found += [before[-1]] if before and before[-1] not in found else []
        if not found:
            return None
        links = [call_link(source, self._act) for source in found[:MOST_SOURCES]]
        more = f"and {len(found) - MOST_SOURCES} more" if len(found) > MOST_SOURCES else None
        return h("p", "from ", links, more, class_="graph-sources")

    def _near(self) -> dict[int, str]:
        """Return the calls that feed the chosen one, or use it."""
        chosen = self._choices.chosen
        if chosen is None:
            return {}
        node = self._graph.nodes[chosen]
        near = {writer.id: "feeds it" for key in node.inputs for writer in self._graph.writers(key)}
        near |= {
            reader.id: "uses it" for key in node.outputs for reader in self._graph.readers(key)
        }
        near.pop(chosen, None)
        return near

    def _ends(self, title: str, keys: Sequence[str], linked: bool) -> Html:
        entries = []
        for key in keys:
            what = type_text(self._graph, key)
            writers = self._graph.writers(key)[-1:] if linked else []
            links = [[" from ", call_link(writer, self._act)] for writer in writers]
            name = h("code", self._names.of(key), title=f"value {key}")
            entries.append(h("li", name, " ", h("span", what, class_="type"), links))
        return h("li", h("h3", title), h("ul", entries), class_="graph-box graph-end")

    def _pages(self, count: int, place: str) -> Html:
        """Return the buttons that turn the pages of a long list."""
        first = self._choices.first
        steps = (
            ("Earlier", first - SHOWN, first > 0),
            ("Later", first + SHOWN, first + SHOWN < count),
        )
        buttons = [
            h(
                "button",
                text,
                type="button",
                data_act=self._act("turn"),
                data_first=to,
                id=f"graph-{text.lower()}-{place}",
                aria_disabled=None if possible else "true",
            )
            for text, to, possible in steps
        ]
        last = min(count, first + SHOWN)
        told = f"boxes {count_text(first + 1)} to {count_text(last)} of {count_text(count)}"
        return h("div", buttons, h("span", told, class_="count"), class_="graph-pages")


def call_link(node: Node, act: Act) -> Html:
    return h(
        "button",
        f"{node.id} {short(node.op)}",
        type="button",
        class_="graph-link",
        data_act=act("go"),
        data_node=node.id,
    )

"""The column of boxes, and the controls above it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from page.graph.outline import SHOWN, Box, Call, Fold
from page.markup import Html, h
from page.units import count_text, plural, shape_text
from webpte.insight import MethodGraph, Node

Act = Callable[[str], str]
STAGES = {"planned": "As it runs", "file": "As in the file"}
COLOURS = {"where": "place", "dtype": "dtype"}
PLACES = {
    "gpu": "GPU",
    "alias": "alias: shares memory, no work",
    "host": "host",
    "folded": "folded: computed at load",
    "delegate": "in a delegate",
}
TINTS = 6  # colours of graph.css for dtypes
MOST_SOURCES = 6  # links of one box; the opened one has them all


@dataclass
class Choices:
    """What people have set in the view."""

    stage: str = "planned"
    colour: str = "where"
    text: str = ""
    opened: set[str] = field(default_factory=set)  # keys of folds
    chosen: int | None = None  # the call that is open
    shaders: set[int] = field(default_factory=set)  # its kernels whose WGSL is open
    first: int = 0  # the first box that is shown


def node_id(node: int) -> str:
    return f"graph-call-{node}"


def fold_id(key: str) -> str:
    return f"graph-fold-{key.replace('.', '-')}"


def short(op: str) -> str:
    """ "aten.add.Tensor" -> "add.Tensor": the name space is the same for most."""
    space, _, rest = op.partition(".")
    return rest.removesuffix(".default") if "." in rest or space == "webpte" else op


def controls_view(choices: Choices, act: Act, has_folds: bool) -> Html:
    def switch(name: str, chosen: str, words: dict[str, str], label: str) -> Html:
        buttons = [
            h(
                "button",
                text,
                type="button",
                data_act=act(name),
                data_value=value,
                aria_pressed="true" if value == chosen else "false",
            )
            for value, text in words.items()
        ]
        return h("div", buttons, class_="tabs", role="group", aria_label=label)

    search = h(
        "input",
        type="text",
        value=choices.text,
        data_act=act("search"),
        placeholder="linear, softmax, 0.54 …",
        autocomplete="off",
        spellcheck="false",
    )
    folds = [
        h("button", text, type="button", class_="quiet", data_act=act(name))
        for name, text in (("unfold", "Open all"), ("fold", "Fold all"))
    ]
    return h(
        "div",
        switch("stage", choices.stage, STAGES, "Which graph"),
        h("label", "find an operator or a value", search, class_="graph-search"),
        h(
            "div",
            h("span", "colour by", class_="label"),
            switch("colour", choices.colour, COLOURS, "Colour by"),
            class_="graph-colour",
        ),
        h("div", folds, class_="graph-folds") if has_folds and not choices.text.strip() else None,
        class_="graph-controls",
    )


class Column:
    """Draws boxes of one graph."""

    def __init__(self, graph: MethodGraph, choices: Choices, act: Act) -> None:
        self._graph = graph
        self._choices = choices
        self._act = act
        counts = Counter(self.dtype(node) for node in graph.nodes)
        self._dtypes = [name for name, _ in counts.most_common()]

    def view(self, boxes: Sequence[Box], inside: Html | None) -> Html:
        """`inside` is what the chosen call shows."""
        first = self._choices.first
        shown = boxes[first : first + SHOWN]
        near = self._near()
        rows = [
            self._fold(box) if isinstance(box, Fold) else self._call(box, inside, near)
            for box in shown
        ]
        searching = bool(self._choices.text.strip())
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

    def legend(self) -> Html:
        """What the colours mean, with how many calls each has."""
        if self._choices.colour == "where":
            found = Counter(node.where for node in self._graph.nodes)
            words = [(where, PLACES.get(where, where)) for where in found]
        else:
            found = Counter(self.dtype(node) for node in self._graph.nodes)
            words = [(dtype, dtype) for dtype in self._dtypes]
        entries = [
            h(
                "li",
                h("span", class_=f"graph-dot {self._tint(name)}", aria_hidden="true"),
                f"{text} ",
                h("span", count_text(found[name]), class_="count"),
            )
            for name, text in words
        ]
        return h("ul", entries, class_="graph-legend", aria_label="Colours")

    def dtype(self, node: Node) -> str:
        """Of what a call gives; of what it changes, if it gives nothing."""
        keys = (*node.outputs, *node.changes)
        return next((self._graph.values[key].dtype for key in keys), "none")

    def _tint(self, name: str) -> str:
        if self._choices.colour == "where":
            return f"graph-{name}"
        return f"graph-tint-{min(self._dtypes.index(name), TINTS - 1)}"

    def _tint_of(self, node: Node) -> str:
        by_place = self._choices.colour == "where"
        return self._tint(node.where if by_place else self.dtype(node))

    # ---- boxes

    def _fold(self, box: Fold) -> Html:
        size = plural(len(box.nodes), "call")
        each = f"{box.title} × {box.blocks}" if box.blocks else box.title
        button = h(
            "button",
            h("span", each, class_="graph-op"),
            h("span", f"{size}, {box.nodes[0].id} to {box.nodes[-1].id}", class_="count"),
            self._bar(box.nodes),
            type="button",
            id=fold_id(box.key),
            data_act=self._act("toggle"),
            data_key=box.key,
            aria_expanded="true" if box.is_open else "false",
        )
        return h("li", button, class_=f"graph-box graph-fold graph-depth-{box.depth}")

    def _bar(self, nodes: Sequence[Node]) -> Html:
        """The colours of what is folded, each as long as it is frequent."""
        parts, start = [], 0.0
        for tint, count in Counter(map(self._tint_of, nodes)).items():
            width = 100 * count / len(nodes)
            parts.append(
                h("rect", x=f"{start:.2f}%", width=f"{width:.2f}%", height="5", class_=tint)
            )
            start += width
        return h("svg", parts, width="100%", height="5", class_="graph-bar", aria_hidden="true")

    def _call(self, box: Call, inside: Html | None, near: dict[int, str]) -> Html:
        node = box.node
        chosen = node.id == self._choices.chosen
        gives = [self._graph.values[key] for key in node.outputs]
        shapes = ", ".join(
            "number" if value.kind == "number" else f"{value.dtype} {shape_text(value.shape)}"
            for value in gives
        )
        layer = node.layer if self._choices.text.strip() else None
        button = h(
            "button",
            h("span", str(node.id), class_="graph-number"),
            h("span", short(node.op), class_="graph-op"),
            h("span", shapes, class_="type"),
            h("span", near[node.id], class_="graph-near") if node.id in near else None,
            h("span", layer, class_="count") if layer else None,
            h("span", node.where, class_=f"tag tag-{node.where}"),
            type="button",
            id=node_id(node.id),
            title=node.op,
            data_act=self._act("choose"),
            data_node=node.id,
            aria_expanded="true" if chosen else "false",
        )
        classes = ["graph-box", f"graph-depth-{box.depth}", self._tint_of(node)]
        classes += ["graph-chosen"] if chosen else []
        return h(
            "li", button, self._sources(node), inside if chosen else None, class_=" ".join(classes)
        )

    def _sources(self, node: Node) -> Html | None:
        """Which calls its inputs come from: the edges of the graph."""
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
        """The calls that give the chosen one something, or take something from it."""
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
            value = self._graph.values.get(key)
            what = f"{value.dtype} {shape_text(value.shape)}" if value is not None else ""
            writers = self._graph.writers(key)[-1:] if linked else []
            links = [[" from ", call_link(writer, self._act)] for writer in writers]
            entries.append(h("li", h("code", key), " ", h("span", what, class_="type"), links))
        return h("li", h("h3", title), h("ul", entries), class_="graph-box graph-end")

    def _pages(self, count: int, place: str) -> Html:
        """Parts of a long column, to be turned like pages."""
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

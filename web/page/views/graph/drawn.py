"""The drawing of a graph as data: boxes, edges, and opened folds around them.

`layout_worker.js` computes the positions, and `drawing.js` draws it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from page.shared.html.units import plural, shape_text
from page.views.graph.choices import Choices
from page.views.graph.kinds import attributes_text
from page.views.graph.names import Names, short
from page.views.graph.outline import Box, Fold, OutlineCall
from page.views.graph.tints import Tints
from webpte.inspection.report import MethodGraph, Node


@dataclass(frozen=True)
class DrawnBox:
    """A box: `key` is the same in every drawing; `node` is set for calls, `fold` for folds."""

    key: str
    kind: str  # call, fold, input, output
    title: str
    text: str
    node: int | None = None
    fold: str | None = None


@dataclass(frozen=True)
class DrawnGroup:
    """A fold that is open: the boxes from `first` on, before `stop`, are in it."""

    fold: str
    title: str
    first: int
    stop: int


@dataclass(frozen=True)
class Drawing:
    """Boxes in the order in which they run; edges as (from, to) among them, each once."""

    boxes: tuple[DrawnBox, ...]
    edges: tuple[tuple[int, int], ...]
    groups: tuple[DrawnGroup, ...]
    box_of: dict[int, int]  # by node: its own, or the fold that it is in

    def json(self) -> str:
        """Return the drawing as one JSON text, which passes to the page faster than many values."""
        parts = ("boxes", "groups")
        data = {part: [asdict(one) for one in getattr(self, part)] for part in parts}
        return json.dumps({**data, "edges": self.edges}, separators=(",", ":"))


def gives_text(graph: MethodGraph, node: Node) -> str:
    """Return the types of a call's outputs."""
    return ", ".join(type_text(graph, key) for key in node.outputs)


def type_text(graph: MethodGraph, key: str) -> str:
    value = graph.values.get(key)
    if value is None:
        return ""
    return "number" if value.kind == "number" else f"{value.dtype} {shape_text(value.shape)}"


def fold_title(box: Fold) -> str:
    return f"{box.title} × {box.blocks}" if box.blocks else box.title


def drawing_of(graph: MethodGraph, outline: Sequence[Box], names: Names | None = None) -> Drawing:
    """Build the drawing; in `outline`, open folds come before their content."""
    names = names or Names(graph)
    boxes = [
        DrawnBox(f"in {key}", "input", names.of(key), type_text(graph, key))
        for key in dict.fromkeys(graph.inputs)
    ]
    box_of: dict[int, int] = {}
    opened: list[tuple[Fold, int]] = []
    for each in outline:
        if isinstance(each, OutlineCall):
            box_of[each.node.id] = len(boxes)
            boxes.append(_call(graph, each.node))
        elif each.is_open:
            opened.append((each, len(boxes)))
        else:
            box_of |= {node.id: len(boxes) for node in each.nodes}
            title, text = fold_title(each), plural(len(each.nodes), "call")
            boxes.append(DrawnBox(f"fold {each.key}", "fold", title, text, None, each.key))
    groups = [
        DrawnGroup(fold.key, fold_title(fold), first, 1 + box_of[fold.nodes[-1].id])
        for fold, first in opened
    ]
    outputs = len(boxes)
    keys = list(dict.fromkeys(graph.outputs))
    boxes += [
        DrawnBox(f"out {key}", "output", names.of(key), type_text(graph, key)) for key in keys
    ]
    ends = {key: outputs + at for at, key in enumerate(keys)}
    edges = _edges(graph, box_of, ends)
    return Drawing(tuple(boxes), edges, tuple(groups), box_of)


def _call(graph: MethodGraph, node: Node) -> DrawnBox:
    text = " · ".join(filter(None, (gives_text(graph, node), attributes_text(graph, node))))
    return DrawnBox(f"call {node.id}", "call", short(node.op), text, node.id)


def _edges(
    graph: MethodGraph, box_of: dict[int, int], outputs: dict[str, int]
) -> tuple[tuple[int, int], ...]:
    inputs = {key: at for at, key in enumerate(dict.fromkeys(graph.inputs))}
    found: dict[tuple[int, int], None] = {}
    for edge in graph.edges:
        start = inputs.get(edge.value) if edge.source is None else box_of[edge.source]
        end = outputs.get(edge.value) if edge.target is None else box_of[edge.target]
        if start is not None and end is not None and start < end:
            found[start, end] = None
    return tuple(found)


def marks_of(
    drawing: Drawing, choices: Choices, matches: Sequence[OutlineCall], reveal: bool
) -> dict[str, object]:
    """Return which boxes are chosen or found; `reveal`: the drawing moves to the chosen one."""
    chosen = choices.chosen
    return {
        "chosen": None if chosen is None else drawing.box_of[chosen],
        "found": sorted({drawing.box_of[call.node.id] for call in matches}),
        "searching": choices.searching,
        "reveal": reveal,
    }


def paint_of(graph: MethodGraph, outline: Sequence[Box], drawing: Drawing, tints: Tints) -> str:
    """Return colours as JSON: for each box [class, note], and for folds the shares."""
    closed = {box.key: box for box in outline if isinstance(box, Fold) and not box.is_open}
    painted: list[list[object]] = []
    for box in drawing.boxes:
        if box.node is not None:
            node = graph.nodes[box.node]
            painted.append([tints.of(node), tints.note((node,))])
        elif box.fold is not None:
            nodes = closed[box.fold].nodes
            shares = [(tint, round(share, 4)) for tint, share in tints.shares(nodes)]
            painted.append(["", tints.note(nodes), shares])
        else:
            painted.append(["", ""])
    return json.dumps(painted, separators=(",", ":"))

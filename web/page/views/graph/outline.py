"""A method as a list of boxes: its calls in order, repeated blocks folded into one box each.

A group of blocks opens to its blocks, and a block to its calls. Search results are listed
without folds.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from page.views.graph.names import Names
from webpte.inspection.report import MethodGraph, Node
from webpte.inspection.report.operator_words import operator_words

SHOWN = 120  # boxes on the page at once: more would make it slow


@dataclass(frozen=True)
class Fold:
    """Calls in one box: all blocks of a group, or a single block."""

    key: str
    title: str
    nodes: tuple[Node, ...]
    blocks: int  # 0 if it is a single one
    depth: int
    is_open: bool


@dataclass(frozen=True)
class OutlineCall:
    """One call; `holds` are the fused operators for which a search has found it."""

    node: Node
    depth: int
    holds: tuple[str, ...] = ()


Box = Fold | OutlineCall


def outline(graph: MethodGraph, opened: Collection[str]) -> list[Box]:
    """Return all boxes when the folds with these keys are open."""
    boxes: list[Box] = []
    at = 0
    for number, group in enumerate(graph.layers):
        first, last = group.ranges[0][0], group.ranges[-1][1]
        boxes += [OutlineCall(node, 0) for node in graph.nodes[at:first]]
        key = str(number)
        whole = Fold(key, group.name, graph.nodes[first:last], len(group.ranges), 0, key in opened)
        boxes.append(whole)
        if whole.is_open:
            boxes += _blocks(graph, number, opened)
        at = last
    return [*boxes, *(OutlineCall(node, 0) for node in graph.nodes[at:])]


def _blocks(graph: MethodGraph, number: int, opened: Collection[str]) -> list[Box]:
    boxes: list[Box] = []
    group = graph.layers[number]
    at = group.ranges[0][0]
    for index, (start, stop) in enumerate(group.ranges):
        boxes += [OutlineCall(node, 1) for node in graph.nodes[at:start]]  # between two blocks
        key = f"{number}.{index}"
        nodes = graph.nodes[start:stop]
        boxes.append(Fold(key, f"{group.name} {index}", nodes, 0, 1, key in opened))
        if key in opened:
            boxes += [OutlineCall(node, 2) for node in nodes]
        at = stop
    return boxes


def all_folds(graph: MethodGraph) -> set[str]:
    keys = set()
    for number, group in enumerate(graph.layers):
        keys |= {str(number), *(f"{number}.{index}" for index in range(len(group.ranges)))}
    return keys


def folds_around(graph: MethodGraph, node: int) -> set[str]:
    """Return the folds that must be open for a call to be visible."""
    for number, group in enumerate(graph.layers):
        if group.ranges[0][0] <= node < group.ranges[-1][1]:
            inner = [i for i, (start, stop) in enumerate(group.ranges) if start <= node < stop]
            return {str(number), *(f"{number}.{index}" for index in inner)}
    return set()


def found(graph: MethodGraph, text: str, names: Names | None = None) -> list[OutlineCall]:
    """Find the calls with a text in their operator, label, layer, kernels, values or dtypes.

    A fused call is also found by the operators in it: `holds` says by which.
    """
    wanted = text.strip().lower()
    names = names or Names(graph)
    calls = []
    for node in graph.nodes:
        holds = [part for part in dict.fromkeys(node.parts) if wanted in operator_words(part)]
        if wanted in operator_words(node.op):
            holds = []
        if holds or wanted in _words(graph, node, names):
            calls.append(OutlineCall(node, 0, tuple(holds)))
    return calls


def _words(graph: MethodGraph, node: Node, names: Names) -> str:
    keys = (*node.inputs, *node.outputs, *node.changes)
    values = [graph.values[key] for key in keys if key in graph.values]
    words = [value.constant.name or "" for value in values if value.constant is not None]
    words += [value.dtype for value in values if value.kind != "number"]
    words += [kernel.name for kernel in node.kernels]
    words += [names.own(key) for key in keys]
    told = (operator_words(node.op), node.label, node.layer or "", *keys, *words)
    return " ".join(told).lower()


def page_of(boxes: list[Box], node: int) -> int:
    """Return the first box of the page that a call is on."""
    places = [
        i for i, box in enumerate(boxes) if isinstance(box, OutlineCall) and box.node.id == node
    ]
    return places[0] // SHOWN * SHOWN if places else 0

"""Repeated blocks in a list of calls: the layers of a model, which no file names.

A block is a run of calls that follows itself, equal in operators, types and sizes. Its start is
found by the number of values that pass from block to block: between two layers it is smallest. The
first block often has a few calls more, which compute values for all blocks; it counts as well.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from webpte.inspection.report.method_graph import GraphValue, LayerGroup, Node

FEWEST_CALLS = 6  # calls in all blocks together; fewer are not a pattern
LONGEST_PERIOD = 2000  # calls of a block; a longer search would take too much time


@dataclass(frozen=True)
class Block:
    """The calls from `start` up to, not including, `stop`."""

    start: int
    stop: int


@dataclass(frozen=True)
class LayerBlocks:
    """Equal blocks, in order."""

    blocks: tuple[Block, ...]
    period: int  # calls per block

    @property
    def covered(self) -> int:
        return self.blocks[-1].stop - self.blocks[0].start


def find_blocks(signatures: Sequence[Hashable], crossing: Sequence[int]) -> list[LayerBlocks]:
    """Find groups of repeated blocks, in order.

    `crossing[i]` counts the values that pass from the calls before `i` to the calls from `i` on.
    """
    numbers: dict[Hashable, int] = {}
    ids = np.array([numbers.setdefault(each, len(numbers)) for each in signatures], np.int64)
    return _Finder(ids, np.asarray(crossing)).find(0, len(ids))


class _Finder:
    def __init__(self, ids: np.ndarray, crossing: np.ndarray) -> None:
        self._ids = ids
        self._crossing = crossing

    def find(self, low: int, high: int) -> list[LayerBlocks]:
        found = self._best(low, high)
        if found is None:
            return []
        start, stop = found.blocks[0].start, found.blocks[-1].stop
        return [*self.find(low, start), found, *self.find(stop, high)]

    def _best(self, low: int, high: int) -> LayerBlocks | None:
        """Find the longest repetition; among equally long repetitions, the shortest block."""
        best, covered = None, FEWEST_CALLS - 1
        for period in range(2, min((high - low) // 2, LONGEST_PERIOD) + 1):
            same = self._ids[low : high - period] == self._ids[low + period : high]
            start, length = _longest_run(same)
            start += low
            count = length // period + 1
            varied = len(np.unique(self._ids[start : start + period])) > 1
            if count > 1 and count * period > covered and varied:
                best, covered = (start, length + period, period), count * period
        if best is None:
            return None
        return self._extended(self._cut(*best), low, high)

    def _cut(self, start: int, span: int, period: int) -> LayerBlocks:
        """Split a repetition into blocks where the fewest values cross."""
        counts = {offset: (span - offset) // period for offset in range(period)}
        most = max(counts.values())

        def cost(offset: int) -> tuple[float, int, int]:
            cuts = start + offset + period * np.arange(counts[offset])
            return float(self._crossing[cuts[1:]].mean()), -counts[offset], offset

        offset = min((o for o, n in counts.items() if n >= max(2, most - 1)), key=cost)
        starts = [start + offset + period * i for i in range(counts[offset])]
        return LayerBlocks(tuple(Block(at, at + period) for at in starts), period)

    def _extended(self, found: LayerBlocks, low: int, high: int) -> LayerBlocks:
        """Add the blocks before and after that contain the same calls and a few more."""
        blocks, wanted = list(found.blocks), self._ids[found.blocks[0].start :][: found.period]
        before = self._matched(wanted[::-1], range(blocks[0].start - 1, low - 1, -1))
        if before is not None:
            blocks.insert(0, Block(before, blocks[0].start))
        after = self._matched(wanted, range(blocks[-1].stop, high))
        if after is not None:
            blocks.append(Block(blocks[-1].stop, after + 1))
        return LayerBlocks(tuple(blocks), found.period)

    def _matched(self, wanted: np.ndarray, places: range) -> int | None:
        """Return the place of the last wanted call, if all occur with few others between."""
        left = list(wanted[::-1])
        for place in places[: len(wanted) + max(4, len(wanted) // 4)]:
            if self._ids[place] == left[-1]:
                left.pop()
                if not left:
                    return place
        return None


def _longest_run(same: np.ndarray) -> tuple[int, int]:
    """Return start and length of the longest run of true."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], same.astype(np.int8), [0]))))
    if not edges.size:
        return 0, 0
    starts, stops = edges[::2], edges[1::2]
    longest = int((stops - starts).argmax())
    return int(starts[longest]), int(stops[longest] - starts[longest])


# Layers of a method


def group_layers(nodes: Sequence[Node], values: Mapping[str, GraphValue]) -> tuple[LayerGroup, ...]:
    """Find the repeated blocks of a method; the largest group are its layers.

    Nodes that only compute numbers are ignored: often the first layer computes them for all.
    """

    def tensors(keys: Iterable[str]) -> list[GraphValue]:
        return [values[key] for key in keys if values[key].kind != "number"]

    kept = [node for node in nodes if tensors(node.outputs)]
    signatures = [
        (node.op, tuple((v.dtype, v.largest) for v in tensors((*node.inputs, *node.outputs))))
        for node in kept
    ]
    places, crossing = [*(node.id for node in kept), len(nodes)], _crossing(nodes)
    found = find_blocks(signatures, [crossing[place] for place in places])
    main = max(found, key=lambda blocks: blocks.covered, default=None)
    groups: list[LayerGroup] = []
    for blocks in found:
        name = "layer" if blocks is main else f"block {len(groups) + 1}"
        ranges = tuple((places[b.start], places[b.stop - 1] + 1) for b in blocks.blocks)
        groups.append(LayerGroup(name, len(ranges), blocks.period, ranges))
    return tuple(groups)


def _crossing(nodes: Sequence[Node]) -> list[int]:
    """Count for each node the values of earlier nodes that this node or later nodes read."""
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for node in nodes:
        last |= dict.fromkeys(node.inputs, node.id)
        for key in node.outputs:
            first.setdefault(key, node.id)
    changes = np.zeros(len(nodes) + 2, np.int64)
    for key, start in first.items():
        if last.get(key, start) > start:
            changes[start + 1] += 1
            changes[last[key] + 1] -= 1
    counts: list[int] = np.cumsum(changes).tolist()
    return counts

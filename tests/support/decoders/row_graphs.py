"""Graphs whose GEMVs compute their row: the sum of a norm and a residual."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from support.decoders.epilogue_graphs import layer_norm
from support.decoders.head_graphs import ChangedHeads, attention_of
from support.graphs.fusion_graphs import POSITIONS, Heads, Net, Sizes
from support.write.pte_writer import GraphWriter

Steps = list[list[np.ndarray]]


@dataclass(frozen=True)
class RowCase:
    """A row, and what reads it besides another output: gated GEMMs, or attention with `change`.

    row     "sum" of a residual and an RMS norm, "normed sum": that, and another RMS norm for the
            GEMVs alone; "rms" or "layer": a norm
    change  of the heads, see ChangedHeads; None for gated GEMMs
    """

    row: str
    sizes: Sizes
    change: str | None = None
    kind: str = "q4"
    viewed: bool = False  # whether views are between the norm, the sum and the GEMVs

    def __str__(self) -> str:
        reader = "gated" if self.change is None else f"{self.change or 'plain'}_heads"
        words = (self.row, str(self.sizes), reader, self.kind, "viewed" if self.viewed else "")
        return "-".join(word.replace(" ", "_") for word in words if word)


_SMALL, _ODD, _LONG = Sizes(1, 64, 36), Sizes(1, 576, 100), Sizes(1, 2112, 36)

ROWS = (
    RowCase("sum", _SMALL),
    RowCase("normed sum", _ODD),
    RowCase("normed sum", _LONG, kind="int8"),
    RowCase("normed sum", _SMALL, viewed=True),
    RowCase("sum", _SMALL, change=""),
    RowCase("normed sum", _ODD, change="head norm"),
    RowCase("normed sum", _SMALL, change="", viewed=True),
    RowCase("sum", _SMALL, change="head norm", kind="int8"),
    RowCase("normed sum", _LONG, change="bias"),
    RowCase("normed sum", Sizes(1, 8448, 12), kind="int8"),
)

# These compute the row by itself: too many tokens, sizes without whole units, floats, rounded rows,
# a norm without a sum.
ALONE = (
    RowCase("normed sum", Sizes(3, 64, 36)),
    RowCase("normed sum", Sizes(17, 64, 36), change=""),
    RowCase("layer", Sizes(2, 64, 36), change="bias"),
    RowCase("sum", Sizes(1, 40, 7)),
    RowCase("normed sum", _SMALL, kind="float"),
    RowCase("normed sum", _SMALL, kind="rounded"),
    RowCase("rms", _SMALL),
    RowCase("rms", _SMALL, change="head norm", kind="int8"),
    RowCase("layer", _ODD, change=""),
)


def computed_row(case: RowCase) -> tuple[GraphWriter, Steps]:
    """Write the row and what reads it; outputs: the reader's result, and the row."""
    net = Net(case.sizes.inner + len(case.row))
    dims = (1, case.sizes.tokens, case.sizes.inner)
    x, r = net.g.tensor(dims), net.g.tensor(dims)
    row, source = _row(net, case, x, r)
    more: tuple[int, ...] = ()
    if case.change is None:
        out = net.swiglu(source, case.sizes.rows, case.kind)
    else:
        heads = Heads(case.sizes.tokens, 4, 2, 16, half=True, turned=16)
        given = ChangedHeads(heads, case.change, case.kind)
        out, more = attention_of(net, given, source)
    net.g.inputs(x, r, *more)
    net.g.outputs(out, net.add(row, row))
    places = (0, case.sizes.tokens, POSITIONS - case.sizes.tokens)
    return net.g, [
        [net.floats(*dims), net.floats(*dims), *(np.array([place], np.int32) for _ in more)]
        for place in (places if more else places[:1])
    ]


def _row(net: Net, case: RowCase, x: int, r: int) -> tuple[int, int]:
    """Write the row, and the GEMVs' operand: the row or its norm."""
    dims = net.g.shapes[x][0]
    other = (dims[1], 1, dims[2]) if case.viewed else dims
    row = layer_norm(net, x) if case.row == "layer" else net.norm(x)
    if "sum" in case.row:
        if case.viewed:
            row = net.add(net.view(row, *other), net.view(r, *other))
        else:
            row = net.add(r, row)
    source = net.view(row, *dims) if case.viewed else row
    return row, net.norm(source) if case.row == "normed sum" else source

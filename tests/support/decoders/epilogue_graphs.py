"""Graphs of linear layers and what surrounds them in decoders: biases, activations, norms."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from support.graphs.fusion_graphs import ADD, Net, Sizes
from support.write.pte_writer import GraphWriter

GELU, RELU = "aten.gelu.default", "aten.relu.default"


@dataclass(frozen=True)
class EpilogueCase:
    """A linear layer of some kind, and its epilogue: "bias" or "added bias", "gelu", "residual"."""

    sizes: Sizes
    kind: str
    epilogue: tuple[str, ...]
    norm: str = "rms"  # "layer" or ""

    def __str__(self) -> str:
        words = (str(self.sizes), self.norm, self.kind, *self.epilogue)
        return "-".join(word.replace(" ", "_") for word in words if word)


_ROW, _WIDE, _FEW, _MANY = Sizes(1, 64, 36), Sizes(1, 576, 100), Sizes(5, 96, 20), Sizes(35, 64, 12)

EPILOGUES = (
    EpilogueCase(_ROW, "int8", ("added bias", "residual")),
    EpilogueCase(_WIDE, "q4", ("bias", "gelu")),
    EpilogueCase(_WIDE, "int8", ("gelu",), norm=""),
    EpilogueCase(_ROW, "q4", ("bias", "residual")),
    EpilogueCase(_FEW, "int8", ("added bias", "gelu", "residual")),
    EpilogueCase(_FEW, "q4", ("bias", "residual")),
    EpilogueCase(_FEW, "rounded", ("bias", "gelu")),
    EpilogueCase(_ROW, "rounded", ("added bias", "residual"), norm=""),
    EpilogueCase(_MANY, "int8", ("added bias", "gelu")),
    EpilogueCase(_MANY, "int8", ("added bias", "gelu", "residual")),
    EpilogueCase(_MANY, "q4", ("bias", "residual"), norm=""),
    EpilogueCase(_WIDE, "int8", ("added bias", "gelu"), norm="layer"),
    EpilogueCase(_ROW, "q4", ("bias", "residual"), norm="layer"),
    EpilogueCase(_FEW, "int8", ("added bias", "gelu"), norm="layer"),
    EpilogueCase(_MANY, "int8", ("added bias", "gelu"), norm="layer"),
    EpilogueCase(Sizes(1, 40, 7), "int8", ("added bias", "residual")),
    EpilogueCase(Sizes(2, 35, 5), "q4", ("bias", "gelu")),
)


def layer_norm(net: Net, x: int, bias: bool = False) -> int:
    """Write a layer norm over the last dim."""
    g, (*rows, width) = net.g, net.g.shapes[x][0]
    out, stats = net.like(x), [g.tensor((*rows, 1)) for _ in range(2)]
    given = [net.constant(net.floats(width)), net.constant(net.floats(width)) if bias else g.null()]
    name = "aten.native_layer_norm.default"
    g.op(name, x, g.int_list([width]), *given, g.double(1e-5), g.value_list([out, *stats]))
    return out


def normed(net: Net, x: int, norm: str) -> int:
    """Write an RMS norm ("rms"), a layer norm and a view ("layer") or nothing ("")."""
    if norm == "layer":
        return net.view(layer_norm(net, x), *net.g.shapes[x][0])
    return net.norm(x) if norm else x


def with_epilogue(case: EpilogueCase) -> tuple[GraphWriter, list[np.ndarray]]:
    """Write a norm, a linear layer and its epilogue."""
    net = Net(case.sizes.inner)
    g, sizes = net.g, case.sizes
    x, r = g.tensor((1, sizes.tokens, sizes.inner)), g.tensor((1, sizes.tokens, sizes.rows))
    y = net.linear(normed(net, x, case.norm), sizes.rows, case.kind, "bias" in case.epilogue)
    if "added bias" in case.epilogue:
        y = g.op(ADD, y, net.constant(net.floats(sizes.rows)), g.int(1), net.like(y))
    if "gelu" in case.epilogue:
        y = g.op(GELU, y, g.string("tanh"), net.like(y))
    if "residual" in case.epilogue:
        y = net.add(r, y)
    return g, net.finish((x, r), y)


def gelu_gated(sizes: Sizes, kind: str, op: str = GELU) -> tuple[GraphWriter, list[np.ndarray]]:
    """Write a norm and f(gate) * up."""
    net = Net(sizes.inner)
    g = net.g
    x = g.tensor((1, sizes.tokens, sizes.inner))
    h = net.norm(x)
    gate = net.linear(h, sizes.rows, kind)
    rest = (g.string("none"),) if op == GELU else ()
    out = net.mul(g.op(op, gate, *rest, net.like(gate)), net.linear(h, sizes.rows, kind))
    return g, net.finish((x,), out)


def normed_sum(dims: tuple[int, ...]) -> tuple[GraphWriter, list[np.ndarray]]:
    """Write r + norm(x)."""
    net = Net(dims[-1])
    x, r = net.g.tensor(dims), net.g.tensor(dims)
    return net.g, net.finish((x, r), net.add(r, net.norm(x)))

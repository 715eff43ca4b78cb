"""Graphs that nearly match a rule of fusion, or match it in an edge case.

Each once gave wrong results, or failed. `NEAR_MISSES` maps names to functions that build the
program and the inputs of successive calls.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from support.graphs.conv_graphs import PAD, PLAIN
from support.graphs.encoder_graphs import Encoder
from support.graphs.fusion_graphs import Net
from support.write.pte_writer import GraphWriter

Array = np.ndarray
Made = tuple[GraphWriter, list[list[Array]]]

LINEAR = "aten.linear.default"


def larger_sum(rows: int) -> Made:
    """Write a GEMM that is added to each member of a batch."""
    net = Net()
    h, x = net.g.tensor((rows, 8)), net.g.tensor((3, rows, 8))
    product = net.linear(h, 8, "float")
    return net.g, [net.finish((h, x), net.add(x, product))]


def outer_gate(kind: str) -> Made:
    """Write a row of gates times a column: the result is larger than both."""
    net = Net()
    x = net.g.tensor((1, 64))
    gate = net.linear(x, 8, kind)
    silu = net.mul(gate, net.sigmoid(gate))
    column = net.view(net.linear(x, 8, kind), 8, 1)
    out = net.g.op("aten.mul.Tensor", silu, column, net.g.tensor((8, 8)))
    return net.g, [net.finish((x,), out)]


def outer_silu() -> Made:
    """Write a row times the sigmoids of that row, as a column."""
    net = Net()
    x = net.g.tensor((1, 64))
    gate = net.linear(x, 8, "float")
    column = net.view(net.sigmoid(gate), 8, 1)
    silu = net.g.op("aten.mul.Tensor", gate, column, net.g.tensor((8, 8)))
    return net.g, [net.finish((x,), net.mul(silu, net.linear(x, 8, "float")))]


def times_itself() -> Made:
    """Write normalized rows, multiplied with each other."""
    net = Net()
    x = net.g.tensor((5, 64))
    norm = net.norm(x)
    out = net.g.op(LINEAR, norm, norm, net.g.null(), net.g.tensor((5, 5)))
    return net.g, [net.finish((x,), out)]


def gates_of_gates() -> Made:
    """Write a GEMM whose weights are another one's output."""
    net = Net()
    x = net.g.tensor((8, 8))
    gate = net.linear(x, 8, "float")
    up = net.g.op(LINEAR, x, gate, net.g.null(), net.like(gate))
    return net.g, [net.finish((x,), net.mul(net.mul(gate, net.sigmoid(gate)), up))]


def layers(net: Net, x: int, count: int) -> list[int]:
    return [net.linear(x, 8, "float") for _ in range(count)]


def two_threes() -> Made:
    """Write three layers of one x, three more of the first one's result, a reader between."""
    net = Net()
    x = net.g.tensor((20, 8))
    (first,) = layers(net, x, 1)
    (near,) = layers(net, first, 1)
    read = net.sigmoid(near)
    others = [*layers(net, first, 1), *layers(net, x, 2), *layers(net, first, 1)]
    return net.g, [net.finish((x,), read, *others)]


def written_twice() -> Made:
    """Write a buffer that is read before and after it is written."""
    net = Net()
    x, state = net.g.tensor((2, 8)), net.constant(net.floats(2, 8))
    before = net.sigmoid(state)
    net.g.op("aten.mul.Tensor", net.g.op("aten.relu.default", x, net.like(x)), x, state)
    inputs = net.finish((x,), before, net.sigmoid(state))
    return net.g, [inputs, inputs]


def nothing_around() -> Made:
    """Write a padding of zero width before a 1×1 convolution, as exporters leave it."""
    net = Net()
    g, dims, one, zero = net.g, (1, 8, 4, 5), net.g.int_list([1, 1]), net.g.int_list([0, 0])
    x = g.tensor(dims)
    border = g.op(PAD, x, g.int_list([0, 0, 0, 0]), g.double(0.0), g.tensor(dims))
    given = (border, net.constant(net.floats(12, 8, 1, 1)), g.null(), one, zero, one)
    out = g.op(PLAIN, *given, g.bool_(False), zero, g.int(1), g.tensor((1, 12, 4, 5)))
    return g, [net.finish((x,), out)]


def attended(net: Encoder, *sizes: int) -> tuple[tuple[int, int, int], int]:
    """Write inputs q, k and v of (heads, tokens, keys) with eight elements, and the scores."""
    heads, tokens, keys = sizes
    q, k, v = (net.g.tensor((heads, n, 8)) for n in (tokens, keys, keys))
    return (q, k, v), net.bmm(q, net.permute(k, 0, 2, 1))


def one_score() -> Made:
    """Write attention to one key: the scores are one number, as is their scale."""
    net = Encoder()
    given, scores = attended(net, 1, 1, 1)
    scaled = net.g.op("aten.mul.Tensor", net.number(0.3), scores, net.like(scores))
    return net.g, [net.finish(given, net.bmm(net.softmax(scaled), given[2]))]


def one_element() -> Made:
    """Write heads of one element: each key is one number, as is the scale."""
    net = Encoder()
    q, k, v = (net.g.tensor((1, 1, 1)) for _ in range(3))
    scaled = net.g.op("aten.mul.Tensor", net.number(0.3), k, net.g.tensor((1, 1, 1)))
    return net.g, [net.finish((q, k, v), net.bmm(net.softmax(net.bmm(q, scaled)), v))]


def two_rows_at_once() -> Made:
    """Write a softmax over the keys of two queries."""
    net = Encoder()
    given, scores = attended(net, 2, 4, 6)
    weights = net.view(net.softmax(net.view(scores, 2, 2, 12)), 2, 4, 6)
    return net.g, [net.finish(given, net.bmm(weights, given[2]))]


def other_values() -> Made:
    """Write weights of two heads, each shared by half of the queries for four heads' values."""
    net = Encoder()
    (q, k, _), scores = attended(net, 2, 8, 6)
    values = net.g.tensor((4, 6, 8))
    weights = net.view(net.softmax(scores), 4, 4, 6)
    return net.g, [net.finish((q, k, values), net.bmm(weights, values))]


def no_keys() -> Made:
    """Write attention to no keys: an empty sum is zero."""
    net = Encoder()
    given, scores = attended(net, 2, 4, 6)
    for value in given[1:]:
        net.g.host(value, dynamic=True)
    q, k, v = inputs = net.finish(given, net.bmm(net.softmax(scores), given[2]))
    return net.g, [inputs, [q, k[:, :0], v[:, :0]], inputs]


def other_tokens() -> Made:
    """Write views that turn two rows of a GEMM into four tokens of one head."""
    net = Net()
    g, dims = net.g, (1, 4, 1, 4)
    x, position, place = g.tensor((1, 2, 64)), g.tensor((1,), "int32"), g.symint()
    g.op("et_vk.select_as_symint.default", position, g.int(0), g.int(0), place)
    q, k, v = (net.view(net.linear(x, 8), *dims) for _ in range(3))
    angles = net.rng.uniform(0, 6, (4, 2)).astype(np.float32)
    tables = [net.constant(np.cos(angles)), net.constant(np.sin(angles))]
    turned = [g.tensor(dims) for _ in range(2)]
    g.op("et_vk.apply_rotary_emb.default", q, k, *tables, g.value_list(turned))
    caches = [net.constant(net.floats(1, 16, 1, 4)) for _ in range(2)]
    rest = (place, g.int(1), g.null(), g.int(0), g.bool_(True), g.null())
    out = g.op("sdpa_with_kv_cache.default", *turned, v, *caches, *rest, g.tensor(dims))
    g.inputs(x, position)
    g.outputs(out)
    return g, [[net.floats(1, 2, 64), np.array([n], np.int32)] for n in (0, 4)]


NEAR_MISSES: dict[str, Callable[[], Made]] = {
    "a sum larger than a product": lambda: larger_sum(17),
    "a sum larger than few rows": lambda: larger_sum(2),
    "an outer product of gates": lambda: outer_gate("float"),
    "an outer product of 4-bit gates": lambda: outer_gate("q4"),
    "an outer product in a silu": outer_silu,
    "rows times themselves": times_itself,
    "a gate for weights": gates_of_gates,
    "three layers before three layers": two_threes,
    "a buffer that is written after it is read": written_twice,
    "no zeros around": nothing_around,
    "one score": one_score,
    "heads of one element": one_element,
    "a softmax over two rows": two_rows_at_once,
    "weights for other values": other_values,
    "no keys": no_keys,
    "rows that are other tokens": other_tokens,
}

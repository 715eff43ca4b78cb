"""Small programs of every kind, and ways to break them."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from support.write.pte_writer import GraphWriter, MethodWriter, Node, Scalar, Vector, write_pte
from support.write.xnnpack_writer import XnnpackWriter, floats, per_block

DATA = Path(__file__).parents[2] / "data" / "format"
EXTREMES = [0, 1, 2, 3, 7, 0xFF, 0x7FFF, 0xFFFF, 1 << 30, (1 << 31) - 1, 1 << 31, (1 << 32) - 1]
SIGNED = [-(1 << 63), -(1 << 31), -5, -2, -1, (1 << 33) + 1, (1 << 63) - 1]
LIMITS = {
    "u8": (0, 1 << 8),
    "u32": (0, 1 << 32),
    "u64": (0, 1 << 64),
    "i8": (-(1 << 7), 1 << 7),
    "i16": (-(1 << 15), 1 << 15),
    "i32": (-(1 << 31), 1 << 31),
    "i64": (-(1 << 63), 1 << 63),
}

Edit: TypeAlias = "Callable[[Node], None] | None"
Random = random.Random


def dynamic_shapes(edit: Edit = None) -> GraphWriter:
    """Write softmax, mean, padding and a view over a dynamic number of rows."""
    g = GraphWriter(edit=edit)
    x = g.tensor((8, 6))
    soft = g.op("aten._softmax.default", x, g.int(1), g.bool_(False), g.tensor((8, 6)))
    mean = g.op("aten.mean.dim", soft, g.int_list([-1]), g.bool_(True), g.tensor((8, 1)))
    wide = g.op("aten.expand_copy.default", mean, g.int_list([-1, 6]), g.tensor((8, 6)))
    pad = g.op(
        "aten.constant_pad_nd.default", wide, g.int_list([1, 1]), g.double(0.5), g.tensor((8, 8))
    )
    out = g.op("aten.view_copy.default", pad, g.int_list([-1, 2, 4]), g.tensor((8, 2, 4)))
    g.inputs(x)
    g.outputs(out, mean)
    for value in (x, out, mean):
        g.host(value, dynamic=True)
    return g


def symints(edit: Edit = None) -> GraphWriter:
    """Write a slice whose end is an element of an input, and sizes computed from live ones."""
    g = GraphWriter(edit=edit)
    x, position = g.tensor((8, 3)), g.tensor((1,), "int64")
    pos, rows, half, end = (g.symint(value) for value in (0, 8, 4, 4))
    g.op("et_vk.select_as_symint.default", position, g.int(0), g.int(0), pos)
    g.op("sym_size.int", x, g.int(0), rows)
    g.op("floordiv", rows, g.int(2), half)
    g.op("add", half, pos, end)
    part = g.op("aten.slice_copy.Tensor", x, g.int(0), g.null(), end, g.int(1), g.tensor((8, 3)))
    sizes = g.value_list([end, g.int(3)])
    out = g.op("aten.view_copy.default", part, sizes, g.tensor((8, 3)))
    full = g.op("aten.full.default", sizes, g.double(1.5), g.tensor((8, 3)))
    g.inputs(x, position)
    g.outputs(g.op("aten.add.Tensor", out, full, g.int(1), g.tensor((8, 3))))
    for value in (x, g.output_ids[0]):
        g.host(value, dynamic=True)
    return g


def value_lists(edit: Edit = None) -> GraphWriter:
    """Write several outputs, several inputs, and an index list with None."""
    g = GraphWriter(edit=edit)
    x, at = g.tensor((4, 5)), g.tensor((2,), "int32")
    parts = g.value_list([g.tensor((4, 2)), g.tensor((4, 3))])
    g.op("aten.split_with_sizes_copy.default", x, g.int_list([2, 3]), g.int(1), parts)
    first, second = parts - 2, parts - 1
    joined = g.op("aten.cat.default", g.value_list([second, first, x]), g.int(1), g.tensor((4, 10)))
    picked = g.op("aten.index.Tensor", joined, g.value_list([g.null(), at]), g.tensor((4, 2)))
    turned = g.op("aten.permute_copy.default", picked, g.int_list([1, 0]), g.tensor((2, 4)))
    doubled = g.op("aten.repeat.default", turned, g.int_list([2, 1]), g.tensor((4, 4)))
    g.inputs(x, at)
    g.outputs(doubled, first)
    return g


def constants(edit: Edit = None) -> GraphWriter:
    """Write a small network of convolution, pooling, normalization and linear layers."""
    g = GraphWriter(edit=edit)
    x = g.tensor((1, 2, 6, 6))
    w = g.prepack(g.tensor((3, 2, 3, 3), constant=np.ones((3, 2, 3, 3), np.float32)))
    b = g.tensor((3,), constant=np.ones(3, np.float32))
    ones, zeros = g.int_list([1, 1]), g.int_list([0, 0])
    conv = g.op(
        "aten.convolution.default",
        *(x, w, b, ones, ones, ones, g.bool_(False), zeros, g.int(1)),
        g.tensor((1, 3, 6, 6)),
    )
    two = g.int_list([2, 2])
    pooled = g.op(
        "aten.avg_pool2d.default", conv, two, two, zeros, g.bool_(False), g.tensor((1, 3, 3, 3))
    )
    flat = g.op("aten.view_copy.default", pooled, g.int_list([1, 27]), g.tensor((1, 27)))
    weight = g.tensor((4, 27), constant=np.ones((4, 27), np.float32))
    out = g.op("aten.linear.default", flat, weight, g.null(), g.tensor((1, 4)))
    scale = g.tensor((4,), constant=np.full(4, 2, np.float32))
    norms = g.value_list([g.tensor((1, 4)), g.tensor((1, 1)), g.tensor((1, 1))])
    g.op(
        "aten.native_layer_norm.default", out, g.int_list([4]), scale, scale, g.double(1e-5), norms
    )
    g.inputs(x)
    g.outputs(norms - 3)
    return g


def decoder(edit: Edit = None) -> GraphWriter:
    """Write one layer of a language model: embedding, norm, 4-bit linears, cache, attention."""
    g = GraphWriter(edit=edit)
    rng = np.random.default_rng(1)
    tokens, position, pos = g.tensor((1, 4), "int64"), g.tensor((1,), "int64"), g.symint(0)
    g.op("et_vk.select_as_symint.default", position, g.int(0), g.int(0), pos)
    table = g.tensor((9, 8), constant=rng.random((9, 8)).astype(np.float32))
    x = g.op("aten.embedding.default", table, tokens, g.tensor((1, 4, 8)))
    scale = g.prepack(g.tensor((8,), constant=np.ones(8, np.float32)))
    x = g.op("et_vk.rms_norm.default", x, scale, g.double(1e-5), g.tensor((1, 4, 8)))
    packed = g.prepack(g.tensor((8, 4), "uint8", constant=rng.integers(0, 255, (8, 4), np.uint8)))
    scales = g.prepack(g.tensor((1, 8), constant=np.ones((1, 8), np.float32)))
    heads = []
    for _ in range(3):
        flat = g.op(
            "et_vk.linear_q4gsw.default", x, packed, scales, g.int(8), g.null(), g.tensor((1, 4, 8))
        )
        sizes = g.int_list([1, -1, 2, 4])
        heads.append(g.op("aten.view_copy.default", flat, sizes, g.tensor((1, 4, 2, 4))))
    q, k, v = heads
    caches = []
    for value in (k, v):
        cache = g.prepack(g.tensor((1, 16, 2, 4), constant=np.zeros((1, 16, 2, 4), np.float32)))
        g.op("llama.update_cache.default", value, cache, pos, g.tensor((1,)))
        caches.append(cache)
    attended = g.op(
        "llama.custom_sdpa.default",
        *(q, *caches, pos, g.null(), g.double(0), g.bool_(True), g.null()),
        g.tensor((1, 4, 2, 4)),
    )
    g.inputs(tokens, position)
    g.outputs(attended)
    for value in (tokens, attended):
        g.host(value, dynamic=True)
    return g


def two_delegates(edit: Edit = None) -> MethodWriter:
    """Write kernels before, between and after delegates, a jump, and mutable state."""
    graph = GraphWriter(edit=edit)
    x = graph.tensor((3, 4))
    graph.inputs(x)
    graph.outputs(graph.op("aten.exp.default", x, graph.tensor((3, 4))))
    m = MethodWriter()
    x1, x2, x3, x4 = (m.tensor((3, 4)) for _ in range(4))
    state = m.tensor((3, 4), data=np.ones((3, 4), np.float32), mutable=True)
    m.inputs(x1)
    m.kernel("aten::mul.out", x1, state, x2, x2)
    m.delegate(graph, [x2, x3])
    m.kernel("aten::cumsum.out", x3, 1, None, x2, x2)
    m.jump_false(m.value(True), 5)
    m.delegate(graph, [x2, x4])
    m.kernel("aten::permute_copy.out", x4, [1, 0], (turned := m.tensor((4, 3))), turned)
    m.kernel("aten::copy_", state, x3, False, state)
    m.free(x3)
    m.outputs(turned, x4)
    return m


def xnnpack_images(edit: Edit = None) -> MethodWriter:
    """Write convolutions, pools, and everything that moves elements, in an XNNPACK delegate."""
    g = XnnpackWriter(edit=edit)
    x = g.value((1, 2, 6, 6), argument=0)
    image = g.value((1, 6, 6, 2))
    g.node("StaticTranspose", x, image, num_dims=4, perm=(0, 2, 3, 1))
    w, b = g.value((4, 3, 3, 2), constant=floats(4, 3, 3, 2)), g.value((4,), constant=floats(4))
    sides: dict[str, Any] = {"top": 1, "right": 1, "bottom": 1, "left": 1}
    one: dict[str, Any] = {"stride": (1, 1), "dilation": (1, 1)}
    sizes: dict[str, Any] = {"groups": 1, "inputs": 2, "outputs": 4, "adjustment": (0, 0), **one}
    conv, pool, deep = g.value((1, 6, 6, 4)), g.value((1, 3, 3, 4)), g.value((1, 3, 3, 4))
    clamp = (0.0, 6.0)
    g.node("Conv2d", image, w, b, conv, clamp=clamp, kernel=(3, 3), **sides, **sizes)
    two: dict[str, Any] = {"kernel": (2, 2), "stride": (2, 2), "dilation": (1, 1)}
    g.node("MaxPooling2d", conv, pool, **two, top=0, right=0, bottom=0, left=0)
    each = g.value((1, 3, 3, 4), constant=floats(1, 3, 3, 4))
    sizes |= {"groups": 4, "inputs": 1, "outputs": 1}
    g.node("DepthwiseConv2d", pool, each, None, deep, kernel=(3, 3), **sides, **sizes)
    padded, part = g.value((1, 4, 4, 4)), g.value((1, 2, 4, 4))
    before, after = (0, 1, 0, 0), (0, 0, 1, 0)
    g.node("StaticConstantPad", deep, padded, before=before, after=after, value=0.5)
    g.node("StaticSlice", padded, part, num_dims=4, offsets=(0, 1, 0, 0), sizes=(1, 2, 0, 4))
    both, mean = g.value((1, 4, 4, 4)), g.value((1, 1, 1, 4))
    g.node("Concatenate2", part, part, both, axis=1)
    g.node("GlobalAvgPooling2d", both, mean, flags=0x40)
    y, larger = g.value((4,), argument=1, output=True), g.value((1, 5, 5, 4))
    g.node("StaticReshape", mean, y, num_dims=1, shape=(4,))
    z = g.value((1, 4, 5, 5), argument=2, output=True)
    g.node("StaticResizeBilinear2D", both, larger, size=(5, 5))
    g.node("StaticTranspose", larger, z, num_dims=4, perm=(0, 3, 1, 2))
    return g.method()


def xnnpack_rows(edit: Edit = None) -> MethodWriter:
    """Write layers with float and 4-bit weights, and elementwise nodes, over live rows."""
    g = XnnpackWriter(edit=edit)
    x, w = g.value((4, 8), argument=0, dynamic=True), g.value((6, 8), constant=floats(6, 8))
    b, bend = g.value((6,), constant=floats(6)), g.value((4, 6))
    scales = g.constant(np.full((6, 2), 0x3F80, np.uint16))
    packed = g.value(
        (6, 8), "qbint4", constant=bytes(range(24)), quant=per_block([], 4, buffer=scales)
    )
    few = g.value((4, 6))
    g.node("FullyConnected", x, w, b, bend, clamp=(-1.0, 1.0))
    g.node("FullyConnected", x, packed, None, few)
    added, soft, slope = g.value((4, 6)), g.value((4, 6)), g.value((4, 6))
    g.node("Multiply", bend, few, added)
    g.node("Softmax", added, soft)
    g.node("LeakyReLU", soft, slope, slope=0.5)
    turned, half = g.value((6, 4)), g.value((6, 4), "fp16", argument=1, output=True, dynamic=True)
    g.node("StaticTranspose", slope, turned, num_dims=2, perm=(1, 0))
    g.node("Convert", turned, half)
    product = g.value((4, 4), argument=2, output=True, dynamic=True)
    g.node("BatchMatrixMultiply", soft, turned, product)
    return g.method()


WRITTEN: dict[str, Callable[[Edit], GraphWriter | MethodWriter]] = {
    maker.__name__: maker
    for maker in (
        *(dynamic_shapes, symints, value_lists, constants, decoder, two_delegates),
        *(xnnpack_images, xnnpack_rows),
    )
}

FILES = {name: write_pte(maker(None)) for name, maker in WRITTEN.items()} | {
    path.stem: path.read_bytes() for path in sorted(DATA.glob("*.pte"))
}


def changed_bytes(data: bytes, rng: Random) -> bytes:
    """Make one to three bytes or numbers of 16, 32 or 64 bits extreme, or change them a little."""
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 3])):
        form = rng.choice(["<B", "<H", "<I", "<I", "<I", "<Q"])
        at = rng.randrange(len(data) - 8)
        at -= at % struct.calcsize(form)
        (old,) = struct.unpack_from(form, changed, at)
        near = old + rng.choice([-4, -1, 1, 4, 64])
        new = rng.choice([rng.choice(EXTREMES), near, old ^ 1 << rng.randrange(8)])
        struct.pack_into(form, changed, at, new % (1 << 8 * struct.calcsize(form)))
    return bytes(changed)


def changed_tree(name: str, rng: Random) -> bytes:
    """Rewrite the file with one to three changes of its numbers, lists and references."""
    in_graph = rng.random() < 0.7

    def edit(root: Node) -> None:
        for _ in range(rng.choice([1, 1, 2, 3])):
            _change(rng.choice(list(_fields(root))), rng)

    program = WRITTEN[name](edit if in_graph else None)
    return write_pte(program, edit=None if in_graph else edit)


def _fields(node: Node) -> Iterator[tuple[Node, int]]:
    """Yield every place of a tree that can be changed."""
    for slot, field in node.slots.items():
        if isinstance(field, Scalar | Vector):
            yield node, slot
        elif isinstance(field, Node):
            yield from _fields(field)
        elif isinstance(field, list):
            yield node, slot
            for member in field:
                yield from _fields(member)


def _change(place: tuple[Node, int], rng: Random) -> None:
    node, slot = place
    field = node.slots[slot]
    if isinstance(field, Scalar):
        node.slots[slot] = Scalar(field.kind, _number(field.kind, field.value, rng), field.default)
    elif isinstance(field, Vector):
        items = list(field.items)
        kind = rng.randrange(4)
        if kind < 2 and items:
            at = rng.randrange(len(items))
            items[at] = _number(field.kind, items[at], rng)
        elif kind == 2 and items:
            del items[rng.randrange(len(items))]
        else:
            items.insert(rng.randint(0, len(items)), _number(field.kind, 0, rng))
        node.slots[slot] = Vector(field.kind, items)
    elif isinstance(field, list) and field:
        members = list(field)
        at, other = rng.randrange(len(members)), rng.randrange(len(members))
        kind = rng.randrange(3)
        if kind == 0:
            del members[at]
        elif kind == 1:
            members.insert(at, members[other])
        else:
            members[at], members[other] = members[other], members[at]
        node.slots[slot] = members


def _number(kind: str, old: float, rng: Random) -> float:
    if kind == "f32":
        return rng.choice([0.0, -1.0, 1e30, float("inf"), float("nan"), 3.5])
    if kind == "f64":
        return rng.choice([0.0, -1.0, 1e300, float("inf"), float("nan"), old + 1, 3.5])
    low, high = LIMITS[kind]
    near = int(old) + rng.choice([-4, -2, -1, 1, 2, 3, 4])
    small = rng.randrange(12)
    new = rng.choice([near, near, near, small, small, rng.choice(EXTREMES), rng.choice(SIGNED)])
    return (new - low) % (high - low) + low

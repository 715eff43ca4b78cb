"""Small graphs that fusion rules match, of any size, with inputs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from support.write.pte_writer import GraphWriter

Array = np.ndarray

ADD, MUL, VIEW = "aten.add.Tensor", "aten.mul.Tensor", "aten.view_copy.default"
CHOOSE = "torchao.choose_qparams_affine.default"
ROWS = "webpte.choose_qparams_qd8.default"
NORM, SIGMOID = "et_vk.rms_norm.default", "aten.sigmoid.default"


def write_rounding(g: GraphWriter, x: int, mapping: str = "ASYMMETRIC") -> tuple[int, int]:
    """Write a scale and a zero point for each row of x; ROWS has XNNPACK's numbers."""
    *rows, inner = g.shapes[x][0]
    pair = g.tensor(tuple(rows)), g.tensor(tuple(rows), "int8")
    if mapping == ROWS:
        g.op(ROWS, x, g.int(1), g.value_list(pair))
        return pair
    block = (g.string(mapping), g.int_list([*(1 for _ in rows), inner]), g.null())
    rest = (g.int(-128), g.int(127), g.null(), g.null(), g.null(), g.bool_(False))
    g.op(CHOOSE, x, *block, *rest, g.value_list(pair))
    return pair


class Net:
    """A writer of successive layers with random weights."""

    def __init__(self, seed: int = 0) -> None:
        self.g = GraphWriter()
        self.rng = np.random.default_rng(seed)
        self._roundings: dict[int, tuple[int, int]] = {}

    def floats(self, *dims: int) -> Array:
        return self.rng.normal(0, 1, dims).astype(np.float32)

    def codes(self, *dims: int) -> Array:
        return self.rng.integers(0, 256, dims).astype(np.uint8)

    def constant(self, array: Array) -> int:
        return self.g.tensor(array.shape, str(array.dtype), constant=array)

    def linear(self, x: int, rows: int, kind: str = "q4", bias: bool = False) -> int:
        """Write a linear layer: 4-bit codes in groups of 32, 8-bit codes, or floats.

        "rounded": 4-bit codes, with each row of x quantized to int8 by its extremes.
        """
        dims, _ = self.g.shapes[x]
        inner, out = dims[-1], self.g.tensor((*dims[:-1], rows))
        if kind == "float":
            added = self.constant(self.floats(rows)) if bias else self.g.null()
            weight = self.constant(self.floats(rows, inner) / np.float32(np.sqrt(inner)))
            return self.g.op("aten.linear.default", x, weight, added, out)
        if kind == "int8":
            codes = self.codes(rows, inner).view(np.int8)
            scales = self.constant(np.abs(self.floats(rows)) / np.float32(64 * np.sqrt(inner)))
            name = "aten._weight_int8pack_mm.default"
            return self.g.op(name, x, self.constant(codes), scales, out)
        padded = -(-inner // 8) * 8
        codes = self.codes(rows, padded // 2)
        stride = -(-rows // 4) * 4
        table = np.abs(self.floats(-(-inner // 32), stride)) / np.float32(4 * np.sqrt(inner))
        added = self.constant(self.floats(stride)) if bias else self.g.null()
        args = (self.constant(codes), self.constant(table), self.g.int(32), added)
        if kind in ("rounded", "qd8"):
            weight, *rest = args
            pair = self.rounding(x, ROWS if kind == "qd8" else "ASYMMETRIC")
            given = (x, *pair, weight, self.g.null(), *rest, self.g.bool_(kind == "qd8"))
            return self.g.op("et_vk.linear_dq8ca_q4gsw.default", *given, out)
        return self.g.op("et_vk.linear_q4gsw.default", x, *args, out)

    def rounding(self, x: int, mapping: str = "ASYMMETRIC") -> tuple[int, int]:
        """Write a scale and a zero point for each row, shared by all readers of x.

        ROWS in place of a mapping has XNNPACK's numbers.
        """
        if x not in self._roundings:
            self._roundings[x] = write_rounding(self.g, x, mapping)
        return self._roundings[x]

    def like(self, x: int) -> int:
        return self.g.tensor(self.g.shapes[x][0])

    def view(self, x: int, *dims: int) -> int:
        return self.g.op(VIEW, x, self.g.int_list(dims), self.g.tensor(dims))

    def add(self, a: int, b: int, alpha: int = 1) -> int:
        return self.g.op(ADD, a, b, self.g.int(alpha), self.like(a))

    def mul(self, a: int, b: int) -> int:
        return self.g.op(MUL, a, b, self.like(a))

    def sigmoid(self, x: int) -> int:
        return self.g.op(SIGMOID, x, self.like(x))

    def norm(self, x: int) -> int:
        gain = self.constant(self.floats(self.g.shapes[x][0][-1]))
        return self.g.op(NORM, x, gain, self.g.double(1e-5), self.like(x))

    def swiglu(self, x: int, rows: int, kind: str = "q4") -> int:
        """Write gate * sigmoid(gate) * up, as exporters do."""
        gate = self.linear(x, rows, kind)
        silu = self.mul(gate, self.sigmoid(gate))
        return self.mul(silu, self.linear(x, rows, kind))

    def finish(self, inputs: tuple[int, ...], *outputs: int) -> list[Array]:
        """Name the inputs and outputs; return arrays for the inputs."""
        self.g.inputs(*inputs)
        self.g.outputs(*outputs)
        return [self.floats(*self.g.shapes[i][0]) for i in inputs]


@dataclass(frozen=True)
class Sizes:
    """Rows of x, elements of each, and columns."""

    tokens: int
    inner: int
    rows: int

    def __str__(self) -> str:
        return f"{self.tokens}x{self.inner}x{self.rows}"


# One row, several, more than fit into one workgroup, and too many for skinny kernels; k with whole
# units of weights, and without.
SIZES = (
    Sizes(1, 64, 64),
    Sizes(1, 576, 100),
    Sizes(3, 64, 12),
    Sizes(7, 96, 20),
    Sizes(17, 64, 8),
    Sizes(1, 2112, 36),
    Sizes(1, 40, 7),
    Sizes(2, 35, 5),
    Sizes(33, 64, 8),
)


def residual(sizes: Sizes, kind: str) -> tuple[GraphWriter, list[Array]]:
    """Write x + view(linear(h))."""
    net = Net(sizes.inner)
    h = net.g.tensor((1, sizes.tokens, sizes.inner))
    x = net.g.tensor((sizes.tokens, sizes.rows))
    out = net.add(x, net.view(net.linear(h, sizes.rows, kind), sizes.tokens, sizes.rows))
    return net.g, net.finish((h, x), out)


def gated(sizes: Sizes, kind: str) -> tuple[GraphWriter, list[Array]]:
    """Write a norm and SwiGLU."""
    net = Net(sizes.inner)
    x = net.g.tensor((1, sizes.tokens, sizes.inner))
    out = net.swiglu(net.norm(x), sizes.rows, kind)
    return net.g, net.finish((x,), out)


def normed(sizes: Sizes, kind: str) -> tuple[GraphWriter, list[Array]]:
    """Write a norm and a linear."""
    net = Net(sizes.inner)
    x = net.g.tensor((1, sizes.tokens, sizes.inner))
    return net.g, net.finish((x,), net.linear(net.norm(x), sizes.rows, kind))


SHAPES = {"residual": residual, "gated": gated, "normed": normed}


def chains() -> list[tuple[GraphWriter, list[Array]]]:
    """Write chains of element-wise ops, with scalars, a single element, and a branch inside."""
    net = Net(1)
    g, dims = net.g, (3, 7)
    x, y, one = g.tensor(dims), g.tensor(dims), g.tensor((1,))
    clamped = g.op("aten.clamp.default", x, g.double(-0.5), g.double(1.5), g.tensor(dims))
    gelu = g.op("aten.gelu.default", clamped, g.string("tanh"), g.tensor(dims))
    power = g.op("aten.pow.Tensor_Scalar", net.sigmoid(gelu), g.double(0.5), g.tensor(dims))
    less = g.op("aten.sub.Tensor", power, y, g.double(0.25), g.tensor(dims))
    first = (g, net.finish((x, y, one), net.mul(net.mul(less, gelu), one)))
    net = Net(2)
    x = net.g.tensor((1031,))
    bent = net.g.op("aten.elu.default", x, *map(net.g.double, (1.5, 0.5, 2.0)), net.like(x))
    relu = net.g.op("aten.relu.default", net.add(bent, x, alpha=3), net.like(x))
    return [first, (net.g, net.finish((x,), relu))]


@dataclass(frozen=True)
class Residual:
    """A convolution with a residual: channels in and out, pixels, the kernel's side, groups."""

    channels: tuple[int, int]
    pixels: tuple[int, int]
    side: int
    groups: int = 1
    end: str = "relu"
    stride: int = 1

    def __str__(self) -> str:
        (c, o), (h, w) = self.channels, self.pixels
        return f"{c}to{o}-{h}x{w}-{self.side}-{self.groups}-{self.end}-{self.stride}"

    @property
    def outputs(self) -> tuple[int, int]:
        h, w = ((n - 1) // self.stride + 1 for n in self.pixels)
        return h, w


# A tile, GEMMs of whole quads and of others, a long k (split-K), windows larger than a workgroup in
# every dim, and few channels (direct).
RESIDUALS = (
    Residual((5, 9), (7, 6), 3),
    Residual((8, 12), (4, 5), 1, end="clamp"),
    Residual((20, 37), (7, 5), 1),
    Residual((98, 16), (5, 5), 3),
    Residual((20, 36), (9, 7), 3),
    Residual((8, 12), (17, 14), 3, end="clamp"),
    Residual((68, 16), (7, 7), 3),
    Residual((36, 20), (11, 19), 3, stride=2),
    Residual((6, 6), (9, 7), 3, groups=6, end=""),
)


def residual_conv(case: Residual) -> tuple[GraphWriter, list[Array]]:
    """Write conv(x) + y and the ops after it."""
    net = Net(case.side)
    g, (c, o) = net.g, case.channels
    x, y = g.tensor((1, c, *case.pixels)), g.tensor((1, o, *case.outputs))
    weight = net.constant(net.floats(o, c // case.groups, case.side, case.side) / np.float32(c))
    sizes = [g.int_list([n, n]) for n in (case.stride, case.side // 2, 1)]
    rest = (g.bool_(False), g.int_list([0, 0]), g.int(case.groups))
    bias, out = net.constant(net.floats(o)), g.tensor((1, o, *case.outputs))
    end = net.add(y, g.op("aten.convolution.default", x, weight, bias, *sizes, *rest, out))
    if case.end == "relu":
        end = g.op("aten.relu.default", end, net.like(end))
    if case.end == "clamp":
        end = g.op("aten.hardtanh.default", end, g.double(-0.25), g.double(0.5), net.like(end))
    return g, net.finish((x, y), end)


@dataclass(frozen=True)
class Heads:
    """An attention: tokens per call, query heads, key heads, their size, and rows of the tables.

    The first `turned` elements of a head are rotated; `half`: pairs are `turned` / 2 apart.
    """

    tokens: int
    heads: int
    key_heads: int
    size: int
    half: bool = False
    turned: int = 0

    def __str__(self) -> str:
        kind = f"half{self.turned}" if self.half else "pairs"
        return f"{self.tokens}x{self.heads}x{self.key_heads}x{self.size}-{kind}"


INNER, POSITIONS = 64, 131

# A head of quads, more rows than a tile has, pairs that are not quads, and too many tokens.
HEADS = (
    Heads(1, 4, 2, 16),
    Heads(3, 6, 2, 8),
    Heads(1, 2, 2, 12, half=True, turned=8),
    Heads(2, 3, 1, 16, half=True, turned=16),
    Heads(2, 2, 1, 6),
    Heads(20, 4, 2, 8),
)


def attention(heads: Heads, kind: str = "q4", norm: bool = True) -> Net:
    """Write norm, q/k/v, rope and attention with a cache; inputs: x, position and the tables.

    Besides its caches, the graph has one output.
    """
    net = Net(heads.size)
    g = net.g
    x, position = g.tensor((1, heads.tokens, INNER)), g.tensor((1,), "int32")
    place = g.symint()
    g.op("et_vk.select_as_symint.default", position, g.int(0), g.int(0), place)
    source = net.norm(x) if norm else x
    shapes = [(1, heads.tokens, n, heads.size) for n in (heads.heads, *(heads.key_heads,) * 2)]
    q, k, v = (net.view(net.linear(source, dims[2] * dims[3], kind), *dims) for dims in shapes)
    turned = [g.tensor(dims) for dims in shapes[:2]]
    if heads.half:
        angles = net.rng.uniform(0, 6, (POSITIONS, heads.turned // 2)).astype(np.float32)
        angles = np.concatenate([angles, angles], axis=1)
    else:
        angles = net.rng.uniform(0, 6, (heads.tokens, heads.size // 2)).astype(np.float32)
    tables = [net.constant(np.cos(angles)), net.constant(np.sin(angles))]
    name = "et_vk.apply_rotary_emb_hf.default" if heads.half else "et_vk.apply_rotary_emb.default"
    start = (place,) if heads.half else ()
    g.op(name, q, k, *tables, *start, g.value_list(turned))
    cache = (1, POSITIONS, heads.key_heads, heads.size)
    caches = [net.constant(net.floats(*cache)) for _ in range(2)]
    out = g.tensor(shapes[0])
    rest = (place, g.int(1), g.null(), g.int(0), g.bool_(True), g.null())
    g.op("sdpa_with_kv_cache.default", *turned, v, *caches, *rest, out)
    g.inputs(x, position)
    g.outputs(out)
    return net


def attention_steps(net: Net, heads: Heads) -> list[list[Array]]:
    """Return inputs at several positions; the last tokens attend to the first tokens' keys."""
    x = (1, heads.tokens, INNER)
    places = [0, heads.tokens, max(0, POSITIONS - heads.tokens)]
    return [[net.floats(*x), np.array([place], np.int32)] for place in dict.fromkeys(places)]


class Zeros(Net):
    """A writer with weights of zero, which take no time to generate."""

    def codes(self, *dims: int) -> Array:
        return np.zeros(dims, np.uint8)

    def floats(self, *dims: int) -> Array:
        return np.zeros(dims, np.float32)


def llama_layers(
    count: int,
    *,
    heads: int = 32,
    key_heads: int = 8,
    size: int = 64,
    hidden: int = 8192,
    context: int = 2304,
) -> GraphWriter:
    """Write Llama layers for one token, by default of the 1B model's size, with zero weights."""
    net = Zeros()
    g, inner = net.g, heads * size
    x, place = g.tensor((1, 1, inner)), g.symint()
    tables = [g.tensor((1, size // 2)) for _ in range(2)]
    shapes = [(1, 1, n, size) for n in (heads, key_heads, key_heads)]
    end = x
    for _ in range(count):
        h = net.norm(end)
        q, k, v = (net.view(net.linear(h, dims[2] * size), *dims) for dims in shapes)
        turned = [g.tensor(dims) for dims in shapes[:2]]
        g.op("et_vk.apply_rotary_emb.default", q, k, *tables, g.value_list(turned))
        caches = [net.constant(net.floats(1, context, key_heads, size)) for _ in range(2)]
        rest = (place, g.int(1), g.null(), g.int(0), g.bool_(True), g.null())
        out = g.tensor(shapes[0])
        g.op("sdpa_with_kv_cache.default", *turned, v, *caches, *rest, out)
        y = net.add(end, net.linear(net.view(out, 1, 1, inner), inner))
        end = net.add(y, net.linear(net.swiglu(net.norm(y), hidden), inner))
    g.inputs(x, place, *tables)
    g.outputs(end)
    return g

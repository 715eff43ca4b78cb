"""Graphs of encoders as exporters write them: attention by GEMMs and a softmax, and layers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from support.graphs.fusion_graphs import Net

Array = np.ndarray

SPLIT = "aten.split_with_sizes_copy.default"
BMM, SOFTMAX, PERMUTE = "aten.bmm.default", "aten._softmax.default", "aten.permute_copy.default"


class Encoder(Net):
    """A writer of layers over (1, tokens, heads * size)."""

    def permute(self, x: int, *order: int) -> int:
        dims = self.g.shapes[x][0]
        out = self.g.tensor(tuple(dims[i] for i in order))
        return self.g.op(PERMUTE, x, self.g.int_list(order), out)

    def bmm(self, a: int, b: int) -> int:
        (batch, rows, _), (_, _, columns) = self.g.shapes[a][0], self.g.shapes[b][0]
        return self.g.op(BMM, a, b, self.g.tensor((batch, rows, columns)))

    def softmax(self, x: int, dim: int = -1) -> int:
        return self.g.op(SOFTMAX, x, self.g.int(dim), self.g.bool_(False), self.like(x))

    def number(self, value: float) -> int:
        return self.constant(np.array(value, np.float32).reshape(1))

    def layer_norm(self, x: int) -> int:
        dims = self.g.shapes[x][0]
        outs = [self.g.tensor(dims), *(self.g.tensor((*dims[:-1], 1)) for _ in range(2))]
        affine = [self.constant(self.floats(dims[-1])) for _ in range(2)]
        args = (x, self.g.int_list(dims[-1:]), *affine, self.g.double(1e-5))
        self.g.op("aten.native_layer_norm.default", *args, self.g.value_list(outs))
        return outs[0]

    def gelu(self, x: int) -> int:
        return self.g.op("aten.gelu.default", x, self.g.string("none"), self.like(x))


@dataclass(frozen=True)
class Written:
    """Attention written out: batch, queries, keys, heads, and the sizes of a key and a value."""

    batch: int
    tokens: int
    keys: int
    heads: int
    size: int
    value_size: int
    mask: tuple[int, int, int, int] | None = None  # its dims
    scaled: str = "scores"  # or "divided", "both", ""
    split: bool = False  # q, k and v come from one tensor
    hides: str = ""  # "rows": rows that the mask hides are set to zero; others are near misses

    def __str__(self) -> str:
        sizes = (self.batch, self.tokens, self.keys, self.heads, self.size, self.value_size)
        mask = "" if self.mask is None else "-mask" + "x".join(map(str, self.mask))
        return (
            "x".join(map(str, sizes))
            + mask
            + f"-{self.scaled}"
            + "-split" * self.split
            + f"-{self.hides}" * bool(self.hides)
        )


# One block of keys and several, one row more than a workgroup has, masks of all kinds, heads that
# leave invocations idle; the sizes of the last two are not multiples of 4.
WRITTEN = (
    Written(1, 9, 7, 3, 8, 8, mask=(1, 1, 9, 7)),
    Written(2, 5, 131, 2, 12, 20, mask=(2, 1, 1, 131), scaled="both"),
    Written(1, 17, 260, 2, 32, 32, mask=(1, 2, 17, 1), scaled="divided"),
    Written(3, 8, 128, 1, 4, 64, scaled=""),
    Written(2, 9, 9, 3, 8, 8, split=True),
    Written(2, 9, 130, 2, 8, 12, mask=(2, 1, 9, 130), scaled="both", hides="rows"),
    Written(1, 3, 5, 2, 6, 8),
    Written(1, 3, 5, 2, 8, 3),
)


def written_attention(case: Written) -> tuple[Encoder, list[Array]]:
    """Write attention of queries, keys and values (B, T, H * D) -> (B, T, H * D)."""
    net, batch, heads = Encoder(case.tokens), case.batch, case.heads
    q = net.g.tensor((batch, case.tokens, heads * case.size))
    k = net.g.tensor((batch, case.keys, heads * case.size))
    v = net.g.tensor((batch, case.keys, heads * case.value_size))
    inputs: tuple[int, ...] = (q, k, v)
    if case.split:
        inputs = (net.g.tensor((batch, case.tokens, 3 * heads * case.size)),)
        sizes = net.g.int_list([heads * case.size] * 3)
        net.g.op(SPLIT, *inputs, sizes, net.g.int(-1), net.g.value_list([q, k, v]))
    apart = net.permute(net.view(q, batch, case.tokens, heads, case.size), 0, 2, 1, 3)
    keys = net.permute(net.view(k, batch, case.keys, heads, case.size), 0, 2, 1, 3)
    across = net.permute(keys, 0, 1, 3, 2)
    if case.scaled == "both":
        apart, across = net.mul(apart, net.number(0.6)), net.mul(across, net.number(0.7))
    scores = net.bmm(
        net.view(apart, batch * heads, case.tokens, case.size),
        net.view(across, batch * heads, case.size, case.keys),
    )
    end = net.view(scores, batch, heads, case.tokens, case.keys)
    if case.scaled == "scores":
        end = net.mul(end, net.number(0.3))
    if case.scaled == "divided":
        end = net.g.op("aten.div.Tensor", end, net.number(2.5), net.like(end))
    if case.mask is not None:
        mask = net.g.tensor(case.mask)
        end, inputs = net.add(end, mask), (q, k, v, mask)
    shares = net.softmax(end)
    if case.hides:
        shares = without_hidden_rows(net, end, shares, case.hides)
    weights = net.view(shares, batch * heads, case.tokens, case.keys)
    split = net.permute(net.view(v, batch, case.keys, heads, case.value_size), 0, 2, 1, 3)
    out = net.bmm(weights, net.view(split, batch * heads, case.keys, case.value_size))
    back = net.permute(net.view(out, batch, heads, case.tokens, case.value_size), 0, 2, 1, 3)
    end = net.view(back, batch, case.tokens, heads * case.value_size)
    given = net.finish(inputs, end)
    if case.mask is not None:
        given[3][..., ::3] = -np.inf
        given[3][..., 0] = 0
        if case.hides:
            given[3][:, :, 1::4] = -np.inf
    return net, given


def without_hidden_rows(net: Encoder, scores: int, shares: int, hides: str) -> int:
    """Set rows to zero whose scores are all -inf, as PyTorch does; or nearly so."""
    g, dims = net.g, net.g.shapes[scores][0]
    compared = net.mul(scores, net.number(1.0)) if hides == "other scores" else scores
    lowest = g.double(-3.4e38 if hides == "a number" else -np.inf)
    found = g.op("aten.eq.Scalar", compared, lowest, g.tensor(dims, "bool"))
    seen = g.op("aten.logical_not.default", found, g.tensor(dims, "bool"))
    along, left = (-2, (*dims[:2], 1, dims[3])) if hides == "keys" else (-1, (*dims[:3], 1))
    some = g.op("aten.any.dims", seen, g.int_list([along]), g.bool_(True), g.tensor(left, "bool"))
    none = g.op("aten.logical_not.default", some, g.tensor(left, "bool"))
    value, null = g.int(1 if hides == "ones" else 0), g.null()
    zeros = g.op(
        "aten.full_like.default", shares, value, *[null] * 3, g.bool_(False), null, net.like(shares)
    )
    return g.op("aten.where.self", none, zeros, shares, net.like(shares))


def encoder_layer(net: Encoder, x: int, heads: int, hidden: int) -> int:
    """Write a sentence encoder's layer: attention, residual and norm, two linears with a gelu."""
    _, tokens, inner = net.g.shapes[x][0]
    size = inner // heads
    flat = net.view(x, tokens, inner)
    q, k, v = (net.linear(flat, inner, "float", bias=True) for _ in range(3))
    parts = [net.permute(net.view(i, 1, tokens, heads, size), 0, 2, 1, 3) for i in (q, k, v)]
    across = net.permute(parts[1], 0, 1, 3, 2)
    dims = [(heads, tokens, size), (heads, size, tokens), (heads, tokens, size)]
    a, b, c = (net.view(i, *d) for i, d in zip((parts[0], across, parts[2]), dims, strict=True))
    scores = net.mul(net.view(net.bmm(a, b), 1, heads, tokens, tokens), net.number(size**-0.5))
    weights = net.view(net.softmax(scores), heads, tokens, tokens)
    out = net.permute(net.view(net.bmm(weights, c), 1, heads, tokens, size), 0, 2, 1, 3)
    merged = net.linear(net.view(out, tokens, inner), inner, "float", bias=True)
    y = net.layer_norm(net.add(net.view(merged, 1, tokens, inner), x))
    wide = net.gelu(net.linear(net.view(y, tokens, inner), hidden, "float", bias=True))
    narrow = net.linear(wide, inner, "float", bias=True)
    return net.layer_norm(net.add(net.view(narrow, 1, tokens, inner), y))

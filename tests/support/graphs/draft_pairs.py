"""Pairs of language models with random weights, of which the small one guesses well.

The large model begins with the small one's layers. Its further layers add nothing to the residual
stream, because their output weights are zero: both models then give the same logits. With some
noise in those weights the models agree as often as the noise lets them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from support.graphs.fusion_graphs import write_rounding
from support.write.pte_writer import GraphWriter, write_pte

GROUP = 32  # inputs that share a scale


@dataclass(frozen=True)
class Shape:
    """The sizes of a model. The defaults belong to a model of a billion parameters.

    rotary        queries and keys have a rotary embedding, as in ExecuTorch's Llama
    head          the width of a head; 0: the model's width, divided among the heads
    normed        a norm of each query and key, as in Qwen3
    small_table   the embedding has 4 bits
    rounded       each row of a linear layer's input is rounded to int8, as in 8da4w
    """

    layers: int = 20
    size: int = 2048
    hidden: int = 8192
    heads: int = 32
    kv_heads: int = 8
    vocabulary: int = 32000
    context: int = 1024
    chunk: int = 128
    rotary: bool = False
    head: int = 0
    normed: bool = False
    small_table: bool = False
    rounded: bool = False

    @property
    def head_size(self) -> int:
        return self.head or self.size // self.heads

    def with_layers(self, layers: int) -> Shape:
        """Return the same sizes with another number of layers."""
        return replace(self, layers=layers)


def draft_pair(shape: Shape, draft_layers: int, noise: float) -> tuple[bytes, bytes]:
    """Write the large model and its draft, which has so many layers. `noise` 0: they agree."""
    return _model(shape, shape.layers, draft_layers, noise), _model(
        shape, draft_layers, draft_layers, 0
    )


def decoder_model(shape: Shape, **options: Any) -> bytes:
    """Write a model all of whose layers count; `options` are for `write_pte`."""
    return _model(shape, shape.layers, shape.layers, 0, **options)


def _model(shape: Shape, layers: int, full_layers: int, noise: float, **options: Any) -> bytes:
    """Write a model; layers after the first `full_layers` are scaled by `noise`."""
    g = GraphWriter()
    rows = (1, shape.chunk, shape.size)
    tokens, input_pos = g.tensor((1, shape.chunk), "int64"), g.tensor((1,), "int64")
    position = g.symint(0)
    g.op("et_vk.select_as_symint.default", input_pos, g.int(0), g.int(0), position)
    writer = _Writer(g, shape, position)
    writer.make_angles(tokens)
    x = writer.embedding(tokens, rows)
    for layer in range(layers):
        x = writer.layer(x, layer, 1.0 if layer < full_layers else noise)
    row = g.op("aten.select_copy.int", x, g.int(1), g.int(-1), g.tensor((1, shape.size)))
    head = writer.norm(row, (1, shape.size))
    logits = writer.linear(head, (1,), shape.size, shape.vocabulary, 1, 8.0)
    g.inputs(tokens, input_pos)
    g.outputs(logits)
    g.host(tokens, dynamic=True)
    return write_pte(g, constant_methods={"get_max_context_len": shape.context}, **options)


class _Writer:
    def __init__(self, g: GraphWriter, shape: Shape, position: int) -> None:
        self._g = g
        self._shape = shape
        self._position = position
        self._rows = (1, shape.chunk)
        self._angles: tuple[int, ...] = ()
        self._roundings: dict[int, tuple[int, int]] = {}

    def make_angles(self, tokens: int) -> None:
        """Slice the tables of angles for the positions of a call, if they are needed."""
        g, shape = self._g, self._shape
        if not shape.rotary:
            return
        pairs = shape.head_size // 2
        steps = 500000.0 ** (-np.arange(pairs) / pairs)
        angles = np.arange(shape.context)[:, None] * steps
        length, end = g.symint(1), g.symint(1)
        g.op("sym_size.int", tokens, g.int(1), length)
        g.op("add", self._position, length, end)
        self._angles = tuple(
            g.op(
                "aten.slice_copy.Tensor",
                g.prepack(g.tensor(table.shape, constant=table.astype(np.float32))),
                *(g.int(0), self._position, end, g.int(1)),
                g.tensor((shape.chunk, pairs)),
            )
            for table in (np.cos(angles), np.sin(angles))
        )

    def embedding(self, tokens: int, rows: tuple[int, ...]) -> int:
        g, dims = self._g, (self._shape.vocabulary, self._shape.size)
        if not self._shape.small_table:
            table = _numbers(0, dims).astype(np.float16).astype(np.float32)
            weight = g.prepack(g.tensor(dims, constant=table))
            return g.op("aten.embedding.default", weight, tokens, g.tensor(rows))
        packed = np.random.default_rng(0).integers(0, 256, (dims[0], dims[1] // 2), np.uint8)
        scales = np.full((dims[0], dims[1] // GROUP), 0.2, np.float32)
        weights = (g.tensor(one.shape, str(one.dtype), constant=one) for one in (packed, scales))
        rest = g.int(GROUP), tokens, g.bool_(False), g.tensor(rows)
        return g.op("et_vk.embedding_q4gsw.default", *weights, *rest)

    def norm(self, x: int, dims: tuple[int, ...]) -> int:
        g = self._g
        ones = g.tensor(dims[-1:], constant=np.ones(dims[-1:], np.float32))
        return g.op("et_vk.rms_norm.default", x, ones, g.double(1e-5), g.tensor(dims))

    def linear(
        self, x: int, rows: tuple[int, ...], taken: int, given: int, seed: int, scale: float = 1.0
    ) -> int:
        """Multiply by random weights of 4 bits, whose products are of the order of `scale`."""
        g, rng = self._g, np.random.default_rng(seed)
        packed = rng.integers(0, 256, (given, taken // 2), np.uint8)
        scales = np.full((taken // GROUP, given), scale / (4.6 * np.sqrt(taken)), np.float32)
        weights = (
            g.tensor(packed.shape, "uint8", constant=packed),
            g.tensor(scales.shape, constant=scales),
        )
        out = g.tensor((*rows, given))
        if self._shape.rounded:
            weight, table = weights
            rest = (g.null(), table, g.int(GROUP), g.null(), out)
            return g.op("et_vk.linear_dq8ca_q4gsw.default", x, *self._rounding(x), weight, *rest)
        return g.op("et_vk.linear_q4gsw.default", x, *weights, g.int(GROUP), g.null(), out)

    def _rounding(self, x: int) -> tuple[int, int]:
        if x not in self._roundings:
            self._roundings[x] = write_rounding(self._g, x)
        return self._roundings[x]

    def layer(self, x: int, number: int, scale: float) -> int:
        """Add attention and a gated layer to the residual stream, with outputs of this scale."""
        g, shape, rows, seed = self._g, self._shape, self._rows, 10 * (number + 1)
        dims, kv = (*rows, shape.size), shape.kv_heads * shape.head_size
        wide_heads = shape.heads * shape.head_size
        normed = self.norm(x, dims)
        q, k, v = (
            self._heads(self.linear(normed, rows, shape.size, width, seed + n, 2.0), width)
            for n, width in enumerate((wide_heads, kv, kv))
        )
        if shape.normed:
            q, k = (self.norm(one, self._g.shapes[one][0]) for one in (q, k))
        attended = self._rotated_attention(q, k, v) if shape.rotary else self._attention(q, k, v)
        joined = g.int_list([1, -1, wide_heads])
        flat = g.op("aten.view_copy.default", attended, joined, g.tensor((*rows, wide_heads)))
        x = self._add(x, self.linear(flat, rows, wide_heads, shape.size, seed + 3, scale))
        normed, wide = self.norm(x, dims), (*rows, shape.hidden)
        gate = self.linear(normed, rows, shape.size, shape.hidden, seed + 4)
        up = self.linear(normed, rows, shape.size, shape.hidden, seed + 5)
        open_ = g.op("aten.sigmoid.default", gate, g.tensor(wide))
        silu = g.op("aten.mul.Tensor", gate, open_, g.tensor(wide))
        both = g.op("aten.mul.Tensor", silu, up, g.tensor(wide))
        return self._add(x, self.linear(both, rows, shape.hidden, shape.size, seed + 6, scale))

    def _attention(self, q: int, k: int, v: int) -> int:
        g, shape, rows = self._g, self._shape, self._rows
        caches = [self._cache() for _ in range(2)]
        for new, cache in ((k, caches[0]), (v, caches[1])):
            updated = g.tensor((*rows, shape.kv_heads, shape.head_size))
            g.op("update_cache.default", new, cache, self._position, updated)
        rest = [g.null(), g.int(0), g.bool_(True), g.null()]
        return g.op(
            "custom_sdpa.default",
            *(q, *caches, self._position, *rest),
            g.tensor((*rows, shape.heads, shape.head_size)),
        )

    def _rotated_attention(self, q: int, k: int, v: int) -> int:
        g, shape, rows = self._g, self._shape, self._rows
        turned = [g.tensor((*rows, n, shape.head_size)) for n in (shape.heads, shape.kv_heads)]
        g.op("et_vk.apply_rotary_emb.default", q, k, *self._angles, g.value_list(turned))
        caches = [self._cache() for _ in range(2)]
        rest = [g.int(1), g.null(), g.int(0), g.bool_(True), g.null()]
        return g.op(
            "sdpa_with_kv_cache.default",
            *(*turned, v, *caches, self._position, *rest),
            g.tensor((*rows, shape.heads, shape.head_size)),
        )

    def _heads(self, x: int, width: int) -> int:
        heads, size = width // self._shape.head_size, self._shape.head_size
        dims = self._g.int_list([1, -1, heads, size])
        out = self._g.tensor((*self._rows, heads, size))
        return self._g.op("aten.view_copy.default", x, dims, out)

    def _cache(self) -> int:
        dims = (1, self._shape.context, self._shape.kv_heads, self._shape.head_size)
        return self._g.tensor(dims, constant=np.zeros(dims, np.float32))

    def _add(self, x: int, y: int) -> int:
        dims = (*self._rows, self._shape.size)
        return self._g.op("aten.add.Tensor", x, y, self._g.int(1), self._g.tensor(dims))


def _numbers(seed: int, dims: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(dims, np.float32)

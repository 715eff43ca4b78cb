"""A tiny language model: embeds tokens, attends to a KV cache, returns logits.

`logits_of` computes the logits of a context in NumPy, and shares no code with the runtime.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import cache

import numpy as np

from support.write.pte_writer import GraphWriter, write_pte

VOCABULARY, CONTEXT, SIZE = 12, 32, 4
SCALE = 0.1  # of scores: so small that every token of a context influences the next

_RNG = np.random.default_rng(0)
TABLE = 1.5 * _RNG.normal(size=(VOCABULARY, SIZE)).astype(np.float32)
WEIGHT = 3 * _RNG.normal(size=(VOCABULARY, SIZE)).astype(np.float32)
LAYER, KEY = "model.layers.0.out_proj", hashlib.sha256(WEIGHT.tobytes()).hexdigest()
PLACES = _RNG.normal(size=(CONTEXT, SIZE)).astype(np.float32)
GARBAGE = _RNG.normal(size=(1, CONTEXT, 1, SIZE)).astype(np.float32)  # in caches, at first


def small_llm(
    *,
    rows: int = VOCABULARY,
    at: str = "given",
    mask: bool = False,
    count: bool = False,
    negated: bool = False,
    grows: bool = False,
    places: int | None = None,
    chunk: int = 8,
    context: int | None = None,
    layers: bool = False,
) -> bytes:
    """Write a program with the method `forward(tokens, input_pos)`.

    rows     rows of the embedding table
    at       the cache position: "given", "computed" or "fixed"
    mask     an input that masks positions of the cache
    count    a counter is further state
    negated  tokens are negated twice, so that only the GPU sees the indices
    grows    adds the sum of a table's rows up to the position to the logits
    places   rows of a position embedding table, which is added to tokens
    chunk    tokens per call
    context  the declared context length, up to CONTEXT; None: not declared
    layers   the linear layer of the logits has a name, LAYER, for LoRAs
    """
    g = GraphWriter()
    tokens, input_pos = g.tensor((1, chunk), "int64"), g.tensor((1,), "int64")
    given = place = g.symint(0)
    g.op("et_vk.select_as_symint.default", input_pos, g.int(0), g.int(0), given)
    if at == "computed":
        place = g.symint(0)
        g.op("floordiv", given, g.int(2), place)
    elif at == "fixed":
        place = g.int(0)

    def constant(array: np.ndarray) -> int:
        return g.tensor(array.shape, constant=array)

    dims: tuple[int, ...] = (1, chunk, 1, SIZE)
    table, caches = constant(TABLE[:rows]), [constant(GARBAGE) for _ in range(2)]
    looked_up = tokens
    for _ in range(2 * negated):
        looked_up = g.op("aten.neg.default", looked_up, g.tensor((1, chunk), "int64"))
    found = g.op("aten.embedding.default", table, looked_up, g.tensor((1, chunk, SIZE)))
    if places is not None:
        there = g.op("aten.embedding.default", constant(PLACES[:places]), input_pos, _row(g, SIZE))
        found = g.op("aten.add.Tensor", found, there, g.int(1), g.tensor((1, chunk, SIZE)))
    heads = g.op("aten.view_copy.default", found, g.int_list([1, -1, 1, SIZE]), g.tensor(dims))
    for kept in caches:
        g.op("update_cache.default", heads, kept, place, g.tensor(dims))
    masked = constant(np.zeros((chunk, CONTEXT), np.float32)) if mask else g.null()
    rest = [masked, g.int(0), g.bool_(not mask), g.double(SCALE)]
    out = g.op("custom_sdpa.default", heads, *caches, place, *rest, g.tensor(dims))
    shape = g.tensor((1, chunk, SIZE))
    flat = g.op("aten.view_copy.default", out, g.int_list([1, -1, SIZE]), shape)
    if count:
        total = constant(np.ones((1, chunk, SIZE), np.float32))
        g.op("aten.add.Tensor", total, total, g.int(1), total)
    dims, weight = (1, chunk, VOCABULARY), g.prepack(constant(WEIGHT))
    logits = g.op("aten.linear.default", flat, weight, g.null(), g.tensor(dims))
    if grows:
        logits = g.op("aten.add.Tensor", logits, _sum_so_far(g, given), g.int(1), g.tensor(dims))
    g.inputs(tokens, input_pos)
    g.outputs(logits)
    g.host(tokens, dynamic=True)
    g.host(logits, dynamic=True)
    said: dict[str, int | str] = {} if context is None else {"get_max_context_len": context}
    if layers:
        said["get_linear_layers"] = json.dumps({"layers": {LAYER: [{"weight": KEY}]}})
    return write_pte(g, constant_methods=said)


def _row(g: GraphWriter, size: int) -> int:
    return g.tensor((1, size))


def _sum_so_far(g: GraphWriter, position: int) -> int:
    """Sum a table's rows up to the position (1, V): each position favours another token."""
    likely = 20 * np.eye(VOCABULARY, dtype=np.float32)[5 * np.arange(CONTEXT) % VOCABULARY]
    rows = np.diff(likely, axis=0, prepend=np.zeros_like(likely[:1]))
    end = g.symint(1)
    g.op("add", position, g.int(1), end)
    table = g.prepack(g.tensor(rows.shape, constant=rows))
    ends = (g.int(0), g.int(0), end, g.int(1))
    part = g.op("aten.slice_copy.Tensor", table, *ends, g.tensor(rows.shape))
    over = (g.int_list([0]), g.bool_(True))
    return g.op("aten.sum.dim_IntList", part, *over, _row(g, VOCABULARY))


def logits_of(context: Sequence[int], weight: np.ndarray = WEIGHT) -> np.ndarray:
    """Compute logits for each token of the context (n, VOCABULARY)."""
    logits: np.ndarray = (_mixed(tuple(context)) @ weight.T).astype(np.float32)
    return logits


@cache
def _mixed(context: tuple[int, ...]) -> np.ndarray:
    x = TABLE[list(context)]  # (n, SIZE): queries, keys and values
    scores = SCALE * x @ x.T
    scores[np.triu_indices(len(context), 1)] = -np.inf  # causal mask
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    mixed: np.ndarray = weights @ x
    return mixed

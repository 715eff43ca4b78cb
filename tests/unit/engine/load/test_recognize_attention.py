"""Attention and the writes to its caches become one call, unless a step differs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from support.graphs.graphs import wait
from support.graphs.recognized import recognized
from support.write.pte_writer import GraphWriter

TOKENS, POSITIONS, HEADS, KEY_HEADS, SIZE = 3, 8, 4, 2, 8
QUERY, FRESH = (1, TOKENS, HEADS, SIZE), (1, TOKENS, KEY_HEADS, SIZE)
CACHE = (1, POSITIONS, KEY_HEADS, SIZE)
WITH_CACHE, CACHE_ONLY = "sdpa_with_kv_cache.default", "custom_sdpa.default"
UPDATE, SELECT = "update_cache.default", "aten.select_copy.int"
Arrays = list[list[np.ndarray]]


class Writer(GraphWriter):
    """A writer of attention: a query, new keys and values, a position, and two caches."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.keys, self.values = (self.tensor(dims) for dims in (QUERY, FRESH, FRESH))
        self.start = self.tensor((1,), "int32")
        self.position = self.place(self.start)
        self.caches = [self.tensor(CACHE, constant=np.zeros(CACHE, np.float32)) for _ in "kv"]
        self.given = [self.query, self.keys, self.values, self.start]

    def place(self, start: int) -> int:
        place = self.symint()
        self.op("et_vk.select_as_symint.default", start, self.int(0), self.int(0), place)
        return place

    def update(self, which: int, place: int) -> None:
        fresh = (self.keys, self.values)[which]
        self.op(UPDATE, fresh, self.caches[which], place, self.tensor((1,)))

    def permuted(self, x: int, order: list[int], *dims: int) -> int:
        return self.op("aten.permute_copy.default", x, self.int_list(order), self.tensor(dims))

    def first(self, x: int, *dims: int) -> int:
        return self.op(SELECT, x, self.int(0), self.int(0), self.tensor(dims))

    def scaled(self, x: int, number: float, dims: tuple[int, ...]) -> int:
        factor = self.tensor((), constant=np.array(number, np.float32))
        return self.op("aten.mul.Tensor", x, factor, self.tensor(dims))


def arrays(count: int, starts: tuple[int, ...] = (0, 3, 5, 1), more: int = 0) -> Arrays:
    random = np.random.default_rng(8)
    return [
        [
            *(random.normal(0, 1, dims).astype(np.float32) for dims in (QUERY, FRESH, FRESH)),
            *(np.array([start + i * more], np.int32) for i in range(count)),
        ]
        for start in starts
    ]


# Writes to caches


def attending(which: str) -> Writer:
    """Write two updates and an attention, or a graph that differs from it in a step."""
    g = Writer()
    places = [g.position] * 2
    if which == "changed":
        given, g.keys = g.keys, g.tensor(FRESH, constant=np.ones(FRESH, np.float32))
        g.given[1] = given
    if which == "apart":
        other = g.tensor((1,), "int32")
        g.given.append(other)
        places[1] = g.place(other)
    early = {"late": (), "late values": (0,)}.get(which, (0, 1))
    for cache in early:
        g.update(cache, places[cache])
    if which == "changed":
        g.op("aten.sigmoid.default", given, g.keys)
    read = g.first(g.caches[1], *CACHE[1:]) if which == "read" else None
    more = (g.null(), g.int(0), g.bool_(True), g.null())
    out = g.op(CACHE_ONLY, g.query, *g.caches, g.position, *more, g.tensor(QUERY))
    for cache in {0, 1} - set(early):
        g.update(cache, places[cache])
    if which == "twice":
        g.update(0, places[0])
    g.inputs(*g.given)
    g.outputs(out, *([] if read is None else [read]), *g.caches[: which == "returned"])
    return g


def test_attention_writes_its_caches() -> None:
    found = wait(recognized(attending(""), arrays(1)))
    assert found[WITH_CACHE] == 1
    assert not found[UPDATE] + found[CACHE_ONLY]


@pytest.mark.parametrize(
    "which", ["late", "late values", "apart", "read", "returned", "twice", "changed"]
)
def test_updates_that_are_not_the_attentions_stay(which: str) -> None:
    apart = which == "apart"
    starts = (3, 5, 1) if apart else (0, 3, 5, 1)
    found = wait(recognized(attending(which), arrays(1 + apart, starts, -1)))
    assert found[CACHE_ONLY] == 1
    assert not found[WITH_CACHE]


# Soft caps


@dataclass(frozen=True)
class Parts:
    """The parts of attention with a soft cap; with the defaults, the attention is recognized.

    cap, uncap    the number that the tanh is multiplied with, and its argument is divided by
    hidden        the score of hidden keys
    low           the position of the nearest key that is seen, before the query
    axis          the axis of the softmax
    late          whether the caches are updated after they were read
    square        whether the scores are multiplied with themselves in place of a tanh
    shown         whether the scores are an output, too
    mixed         whether the values that are weighted are the keys
    """

    cap: float = 5.0
    uncap: float = 5.0
    hidden: float = -math.inf
    low: int = 0
    axis: int = -1
    late: bool = False
    square: bool = False
    shown: bool = False
    mixed: bool = False


def seen(g: Writer, low: int) -> int:
    """Write the mask (tokens, positions) of the keys from `low` positions before on."""

    def count(end: int) -> int:
        more = (g.null(), g.null(), g.null(), g.bool_(False))
        made = g.tensor((end,), "int32")
        return g.op("aten.arange.start_step", g.int(0), g.int(end), g.int(1), *more, made)

    def spread(value: int, dim: int, *dims: int) -> int:
        return g.op("aten.unsqueeze_copy.default", value, g.int(dim), g.tensor(dims, "int32"))

    rows = g.op("aten.add.Tensor", g.start, count(TOKENS), g.int(1), g.tensor((TOKENS,), "int32"))
    pair = spread(rows, 1, TOKENS, 1), spread(count(POSITIONS), 0, 1, POSITIONS)
    dims = (TOKENS, POSITIONS)
    ago = g.op("aten.sub.Tensor", *pair, g.int(1), g.tensor(dims, "int32"))
    return g.op("aten.ge.Scalar", ago, g.int(low), g.tensor(dims, "bool"))


def capped(parts: Parts) -> Writer:
    g = Writer()
    mask = seen(g, parts.low)
    if not parts.late:
        g.update(0, g.position)
        g.update(1, g.position)
    scores_dims = (HEADS, TOKENS, POSITIONS)
    turned = g.permuted(g.query, [0, 2, 1, 3], 1, HEADS, TOKENS, SIZE)
    query = g.first(g.scaled(turned, 0.3, (1, HEADS, TOKENS, SIZE)), HEADS, TOKENS, SIZE)

    def heads(cache: int) -> int:
        """Repeat the heads of a cache, as often as heads of queries share each."""
        each = g.permuted(g.first(cache, *CACHE[1:]), [1, 0, 2], KEY_HEADS, POSITIONS, SIZE)
        dims = (KEY_HEADS, 1, POSITIONS, SIZE)
        apart = g.op("aten.unsqueeze_copy.default", each, g.int(1), g.tensor(dims))
        wide = (KEY_HEADS, HEADS // KEY_HEADS, POSITIONS, SIZE)
        more = g.op("aten.expand_copy.default", apart, g.int_list(wide), g.tensor(wide))
        whole = (HEADS, POSITIONS, SIZE)
        return g.op("aten.view_copy.default", more, g.int_list(whole), g.tensor(whole))

    keys = g.permuted(heads(g.caches[0]), [0, 2, 1], HEADS, SIZE, POSITIONS)
    scores = g.op("aten.bmm.default", query, keys, g.tensor(scores_dims))
    inner = g.scaled(scores, 1 / parts.uncap, scores_dims)
    if parts.square:
        bent = g.op("aten.sigmoid.default", inner, g.tensor(scores_dims))
    else:
        bent = g.op("aten.tanh.default", inner, g.tensor(scores_dims))
    cap = g.scaled(bent, parts.cap, scores_dims)
    hidden = g.tensor((), constant=np.array(parts.hidden, np.float32))
    masked = g.op("aten.where.self", mask, cap, hidden, g.tensor(scores_dims))
    softmax = (g.int(parts.axis), g.bool_(False))
    weights = g.op("aten._softmax.default", masked, *softmax, g.tensor(scores_dims))
    values = heads(g.caches[0 if parts.mixed else 1])
    sums = g.op("aten.bmm.default", weights, values, g.tensor((HEADS, TOKENS, SIZE)))
    swapped = g.permuted(sums, [1, 0, 2], TOKENS, HEADS, SIZE)
    out = g.op("aten.unsqueeze_copy.default", swapped, g.int(0), g.tensor(QUERY))
    if parts.late:
        g.update(0, g.position)
        g.update(1, g.position)
    g.inputs(*g.given)
    g.outputs(out, *([scores] if parts.shown else []))
    return g


def test_attention_with_a_soft_cap_is_one_call() -> None:
    found = wait(recognized(capped(Parts()), arrays(1)))
    assert found[WITH_CACHE] == 1
    assert not found["aten.bmm.default"] + found["aten.tanh.default"] + found[UPDATE]


@pytest.mark.parametrize(
    "parts",
    [
        {"cap": 6.0},
        {"uncap": 2.0},
        {"hidden": -3.0},  # keys are only less likely
        {"low": -1},  # the next key is seen, too
        {"axis": 1},
        {"late": True},
        {"square": True},
        {"shown": True},
        {"mixed": True},
    ],
    ids=str,
)
def test_what_is_no_attention_with_a_soft_cap_stays(parts: dict[str, Any]) -> None:
    found = wait(recognized(capped(Parts(**parts)), arrays(1)))
    assert not found[WITH_CACHE]

"""Rotary embeddings that a file writes out become one call, of neighbours and of halves."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from support.graphs.graphs import wait
from support.graphs.recognized import recognized
from support.write.pte_writer import GraphWriter

TOKENS, HEADS, KEY_HEADS, SIZE = 3, 4, 2, 8
HALF = SIZE // 2
NEIGHBOURS, HALVES = "et_vk.apply_rotary_emb.default", "et_vk.apply_rotary_emb_hf.default"
MUL, VIEW, CAT = "aten.mul.Tensor", "aten.view_copy.default", "aten.cat.default"


@dataclass(frozen=True)
class Parts:
    """The parts of a rotation that is written out; with the defaults it is a rotation.

    swapped    whether factors come in the other order
    mixed      whether a is multiplied by the sine where the cosine belongs
    backwards  whether sum and difference (or the signs of the halves) are exchanged
    keyed      whether a key is rotated by the same tables
    early      whether the second source depends on the first result
    used       whether a call between the two rotations reads the first result
    returned   whether the head before its rotation is an output, too
    cut        the place at which a head is cut
    doubled    whether each use of a view has a separate view, as in exports of fixed shapes
    group      neighbours that stand together, of which the first two are rotated
    changed    whether the table of cosines is state that changes after it was read
    crossed    whether neighbours are cut with heads before tokens, and viewed the other way round
    direct     whether sines are given with the dims that cosines are viewed with
    """

    swapped: bool = False
    mixed: bool = False
    backwards: bool = False
    keyed: bool = True
    early: bool = False
    used: bool = False
    returned: bool = False
    cut: int = HALF
    doubled: bool = False
    changed: bool = False
    group: int = 2
    crossed: bool = False
    direct: bool = False


Rotating = Generator[None, None, int]  # a rotation that stops once its source is there


def ended(rotating: Rotating) -> int:
    """Write the rest of a rotation; return its result."""
    try:
        next(rotating)
    except StopIteration as end:
        return int(end.value)
    raise AssertionError("a rotation stops once")


class Writer(GraphWriter):
    """A writer of rotations, by tables that are inputs."""

    def __init__(self, parts: Parts, *tables: tuple[int, ...]) -> None:
        super().__init__()
        self.parts = parts
        self.given = [self.tensor(dims) for dims in tables]
        self.tables = list(self.given)
        if parts.changed:
            self.tables[0] = self.tensor(tables[0], constant=np.ones(tables[0], np.float32))

    def change(self) -> None:
        """Write the next table of cosines, if it is state that changes."""
        if self.parts.changed:
            self.op("aten.sigmoid.default", self.given[0], self.tables[0])

    def times(self, one: int, other: int, dims: tuple[int, ...]) -> int:
        pair = (other, one) if self.parts.swapped else (one, other)
        return self.op(MUL, *pair, self.tensor(dims))

    def sum(self, name: str, one: int, other: int, dims: tuple[int, ...]) -> int:
        return self.op(f"aten.{name}.Tensor", one, other, self.int(1), self.tensor(dims))

    def view(self, x: int, *dims: int) -> int:
        return self.op(VIEW, x, self.int_list(dims), self.tensor(dims))

    def slice(self, x: int, dim: int, begin: int, end: int, dims: tuple[int, ...]) -> int:
        where = (self.int(dim), self.int(begin), self.int(end), self.int(1))
        return self.op("aten.slice_copy.Tensor", x, *where, self.tensor(dims))

    def swap(self, x: int, *dims: int) -> int:
        order = self.int_list([0, 2, 1, 3])
        return self.op("aten.permute_copy.default", x, order, self.tensor(dims))

    def rotate_neighbours(self, x: int, heads: int) -> Rotating:
        """Rotate each pair of neighbours in the heads of x [1, S, heads * D]."""
        dims = (1, TOKENS, heads, HALF)
        apart = (1, heads, TOKENS, HALF) if self.parts.crossed else dims
        pairs = [self.view(x, *apart, self.parts.group)] * 2
        if self.parts.doubled:
            pairs[1] = self.view(x, *apart, self.parts.group)
        yield
        cuts = [self.slice(pairs[at], 4, at, at + 1, (*apart, 1)) for at in range(2)]
        axis = self.int_list([4])
        if self.parts.crossed:
            a, b = (self.view(cut, *dims) for cut in cuts)
        else:
            a, b = (self.op("aten.squeeze_copy.dims", cut, axis, self.tensor(dims)) for cut in cuts)
        cosines, sines = (self.view(table, 1, TOKENS, 1, HALF) for table in self.tables)
        sines = self.tables[1] if self.parts.direct else sines
        again = [cosines, sines]
        if self.parts.doubled:
            again = [self.view(table, 1, TOKENS, 1, HALF) for table in self.tables]
        names = ("add", "sub") if self.parts.backwards else ("sub", "add")
        first = sines if self.parts.mixed else cosines
        real = self.sum(names[0], self.times(a, first, dims), self.times(b, sines, dims), dims)
        products = self.times(a, again[1], dims), self.times(b, again[0], dims)
        more = self.sum(names[1], *products, dims)
        self.change()
        sides = [
            self.op("aten.unsqueeze_copy.default", side, self.int(4), self.tensor((*dims, 1)))
            for side in (real, more)
        ]
        joined = self.op(CAT, self.value_list(sides), self.int(-1), self.tensor((*dims, 2)))
        return self.view(joined, 1, TOKENS, heads, SIZE)

    def rotate_halves(self, x: int, heads: int) -> Rotating:
        """Rotate the halves of the heads of x [1, S, heads * D]."""
        dims, cut = (1, heads, TOKENS, SIZE), self.parts.cut
        x = self.swap(self.view(x, 1, TOKENS, heads, SIZE), *dims)
        yield
        a = self.slice(x, 3, 0, cut, (*dims[:3], cut))
        b = self.slice(x, 3, cut, 2**63 - 1, (*dims[:3], SIZE - cut))
        if self.parts.backwards:
            minus = self.op("aten.neg.default", a, self.tensor((*dims[:3], cut)))
            sides = [b, minus]
        else:
            minus = self.op("aten.neg.default", b, self.tensor((*dims[:3], SIZE - cut)))
            sides = [minus, a]
        turned = self.op(CAT, self.value_list(sides), self.int(3), self.tensor(dims))
        cosines, sines = (
            self.op(
                "aten.unsqueeze_copy.default",
                table,
                self.int(1),
                self.tensor((1, 1, TOKENS, SIZE)),
            )
            for table in self.tables
        )
        first = sines if self.parts.mixed else cosines
        straight = self.times(x, first, dims)
        self.change()
        total = self.sum("add", straight, self.times(turned, sines, dims), dims)
        if self.parts.returned:
            self.outputs(x)
        return self.swap(total, 1, TOKENS, heads, SIZE)


def written(kind: str, parts: Parts) -> GraphWriter:
    """Write the rotation of a query, and of a key."""
    g = Writer(parts, *table_dims(kind, parts.direct))
    rotate = g.rotate_neighbours if kind == "neighbours" else g.rotate_halves
    width = parts.group * HALF
    query, key = (g.tensor((1, TOKENS, heads * width)) for heads in (HEADS, KEY_HEADS))
    g.inputs(query, key, *g.given)
    rotating = [rotate(query, HEADS), rotate(key, KEY_HEADS)]
    for one in rotating[: 1 if parts.early else 2]:
        next(one)
    outs = [ended(rotating[0])]
    if parts.used:
        dims = (1, TOKENS, HEADS, SIZE)
        outs.append(g.op("aten.relu.default", outs[0], g.tensor(dims)))
    if parts.early:
        dims = (1, TOKENS, KEY_HEADS, SIZE)
        some = g.view(g.slice(outs[0], 2, 0, KEY_HEADS, dims), 1, TOKENS, KEY_HEADS * SIZE)
        rotating[1] = rotate(g.sum("add", key, some, (1, TOKENS, KEY_HEADS * SIZE)), KEY_HEADS)
        next(rotating[1])
    if parts.keyed:
        outs.append(ended(rotating[1]))
    g.outputs(*outs)
    return g


def table_dims(kind: str, direct: bool = False) -> list[tuple[int, ...]]:
    cosines = (TOKENS, HALF) if kind == "neighbours" else (1, TOKENS, SIZE)
    return [cosines, (1, TOKENS, 1, HALF) if direct else cosines]


def calls(kind: str, parts: Parts) -> list[list[np.ndarray]]:
    random = np.random.default_rng(6)
    width = parts.group * HALF
    heads = ((1, TOKENS, count * width) for count in (HEADS, KEY_HEADS))
    dims = (*heads, *table_dims(kind, parts.direct))
    return [[random.normal(0, 1, one).astype(np.float32) for one in dims]]


@pytest.mark.parametrize("kind", ["neighbours", "halves"])
@pytest.mark.parametrize("which", ["", "swapped", "doubled", "used"])
def test_a_rotation_of_query_and_key_is_one_call(kind: str, which: str) -> None:
    parts = Parts(**{which: True} if which else {})
    found = wait(recognized(written(kind, parts), calls(kind, parts)))
    assert found[NEIGHBOURS if kind == "neighbours" else HALVES] == 1
    assert not found[MUL] + found[CAT]


@pytest.mark.parametrize(
    ("kind", "parts"),
    [
        ("neighbours", {"mixed": True}),
        ("neighbours", {"group": 3}),
        ("neighbours", {"crossed": True}),
        ("neighbours", {"direct": True}),
        *((kind, {"backwards": True}) for kind in ("neighbours", "halves")),
        *((kind, {"changed": True}) for kind in ("neighbours", "halves")),
        *((kind, {"keyed": False}) for kind in ("neighbours", "halves")),
        *((kind, {"early": True}) for kind in ("neighbours", "halves")),
    ],
    ids=str,
)
def test_what_is_no_rotation_stays(kind: str, parts: dict[str, Any]) -> None:
    made = Parts(**parts)
    found = wait(recognized(written(kind, made), calls(kind, made)))
    assert not found[NEIGHBOURS] + found[HALVES]
    assert found[CAT] == (1 if parts.get("keyed") is False else 2)


@pytest.mark.parametrize("parts", [{"cut": HALF - 1}, {"returned": True}], ids=str)
def test_halves_that_are_none_stay(parts: dict[str, Any]) -> None:
    made = Parts(**parts)
    found = wait(recognized(written("halves", made), calls("halves", made)))
    assert not found[HALVES]
    assert found[CAT] == 2


def test_rotations_that_alternate_may_share_a_table() -> None:
    """The second pair is rotated before the first pair, whose key is there last."""
    g = Writer(Parts(), *table_dims("halves"), *table_dims("halves")[:1])
    heads = [g.tensor((1, TOKENS, HEADS * SIZE)) for _ in range(4)]
    g.inputs(*heads, *g.given)
    first, second = [g.tables[0], g.tables[1]], [g.tables[2], g.tables[1]]
    rotating = [g.rotate_halves(x, HEADS) for x in heads]
    outs = []
    order: tuple[tuple[int, list[Any], list[int]], ...]
    order = ((0, first, [0]), (2, second, [2, 3]), (1, first, [1]), (3, second, []))
    for at, tables, begun in order:
        for other in begun:
            next(rotating[other])
        g.tables = tables
        outs.append(ended(rotating[at]))
    g.outputs(*outs)
    (given,) = calls("halves", Parts())
    found = wait(recognized(g, [[*given[:1] * 4, *given[2:], given[2] + 1]]))
    assert found[HALVES] == 2

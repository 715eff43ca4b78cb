"""Cases of rotary embeddings. Expectations rotate complex numbers in float64."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from support.cases.attention.attention_programs import randoms
from support.cases.cases import Array
from support.write.pte_writer import GraphWriter, write_pte

TOLERANCE = 2e-6

PAIRS = "et_vk.apply_rotary_emb.default"
ROPE_HF = "et_vk.apply_rotary_emb_hf.default"
SINGLE = "et_vk.apply_rotary_emb_hf_single.default"
COMPLEX = "et_vk.apply_rotary_emb_interleaved.default"


def angles(positions: int, pairs: int) -> Array:
    """[positions, pairs], as Llama has them, in float64."""
    frequencies = 10000.0 ** (-np.arange(pairs) / max(pairs, 1))
    return np.asarray(np.arange(positions)[:, None] * frequencies)


def tables(angle: Array) -> tuple[Array, Array]:
    return np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)


def rotate(x: Array, cosines: Array, sines: Array, *, half: bool = False) -> Array:
    """x [.., 2 * pairs] by complex multiplication; the tables are [.., pairs]."""
    wide = x.astype(np.float64)
    pairs = wide.shape[-1] // 2
    a, b = (wide[..., :pairs], wide[..., pairs:]) if half else (wide[..., 0::2], wide[..., 1::2])
    numbers = (a + 1j * b) * (cosines.astype(np.float64) + 1j * sines)
    parts = [numbers.real, numbers.imag]
    joined = np.concatenate(parts, -1) if half else np.stack(parts, -1).reshape(x.shape)
    return np.asarray(joined)


@dataclass(frozen=True)
class RopeCase:
    """Steps (tokens, position) of queries and keys; of a head of `size`, `rotated` are rotated."""

    op: str
    steps: Sequence[tuple[int, int]]
    heads: int = 4
    key_heads: int = 2
    size: int = 16
    rotated: int | None = None
    batch: int = 1
    positions: int = 64
    live: bool = True
    per_head: bool = False  # tables [tokens, heads, pairs]
    uneven: bool = False  # the two places of a pair have different angles

    def __str__(self) -> str:
        words = [self.op.split(".")[1], f"B{self.batch}", f"{self.heads}x{self.key_heads}"]
        words += [f"D{self.size}", *(f"R{self.rotated}" for _ in range(self.rotated is not None))]
        words += [f"{tokens}at{position}" for tokens, position in self.steps[:3]]
        words += ["int"] * (not self.live) + ["per-head"] * self.per_head + ["uneven"] * self.uneven
        return "-".join(words)

    @property
    def half(self) -> bool:
        return self.op == ROPE_HF

    @cached_property
    def rotary(self) -> int:
        return self.size if self.rotated is None else self.rotated

    @cached_property
    def data(self) -> list[tuple[Array, Array]]:
        rng = np.random.default_rng(3)
        return [
            (
                randoms(rng, self.batch, tokens, self.heads, self.size),
                randoms(rng, self.batch, tokens, self.key_heads, self.size),
            )
            for tokens, _ in self.steps
        ]

    def tables(self, index: int) -> tuple[Array, Array]:
        """Return the tables of one step."""
        tokens, position = self.steps[index]
        if self.uneven:
            rng = np.random.default_rng(9)
            shape = (self.positions, self.rotary)
            return randoms(rng, *shape), randoms(rng, *shape)
        angle = angles(self.positions, self.rotary // 2)
        if self.half:
            return tables(np.concatenate([angle, angle], axis=1))
        angle = angle[position : position + tokens]
        if self.per_head:
            angle = angle[:, None] * (1 + np.arange(self.heads))[:, None]
        return tables(angle)

    @cached_property
    def expected(self) -> list[list[Array]]:
        return [self._rotate(index) for index in range(len(self.steps))]

    def _rotate(self, index: int) -> list[Array]:
        tokens, position = self.steps[index]
        cosines, sines = self.tables(index)
        if self.half:
            cosines, sines = (t[position : position + tokens] for t in (cosines, sines))
        cosines, sines = (t if t.ndim == 3 else t[:, None] for t in (cosines, sines))
        results = []
        for x in self.data[index]:
            part, rest = x[..., : self.rotary], x[..., self.rotary :]
            if self.uneven:
                # Each place of a pair is a part of a product with separate numbers.
                middle = self.rotary // 2
                low = rotate(part, cosines[..., :middle], sines[..., :middle], half=True)
                high = rotate(part, cosines[..., middle:], sines[..., middle:], half=True)
                rotated = np.concatenate([low[..., :middle], high[..., middle:]], axis=-1)
            elif self.half:
                middle = self.rotary // 2
                rotated = rotate(part, cosines[..., :middle], sines[..., :middle], half=True)
            else:
                rotated = rotate(part, cosines, sines)
            results.append(np.concatenate([rotated, rest], axis=-1))
        return results

    def program(self) -> bytes:
        g = GraphWriter()
        tokens = max(tokens for tokens, _ in self.steps)
        q = g.tensor((self.batch, tokens, self.heads, self.size))
        k = g.tensor((self.batch, tokens, self.key_heads, self.size))
        largest = max(range(len(self.steps)), key=lambda index: self.steps[index][0])
        outs = [g.tensor(g.shapes[value][0]) for value in (q, k)]
        if self.half:
            cosines, sines = (g.prepack(g.tensor(t.shape, constant=t)) for t in self.tables(0))
            position = g.int(self.steps[0][1])
            inputs = [q, k]
            if self.live:
                source, position = g.tensor((1,), "int32"), g.symint()
                g.op("et_vk.select_as_symint.default", source, g.int(0), g.int(0), position)
                inputs.append(source)
            g.op(self.op, q, k, cosines, sines, position, g.value_list(outs))
        else:
            cosines, sines = (g.tensor(t.shape) for t in self.tables(largest))
            inputs = [q, k, cosines, sines]
            g.op(self.op, q, k, cosines, sines, g.value_list(outs))
            for value in (cosines, sines):
                g.host(value, dynamic=True)
        g.inputs(*inputs)
        g.outputs(*outs)
        for value in (q, k, *outs):
            g.host(value, dynamic=True)
        return write_pte(g)

    def inputs(self, index: int) -> list[Array]:
        arrays = list(self.data[index])
        if not self.half:
            return [*arrays, *self.tables(index)]
        return [*arrays, np.array([self.steps[index][1]], np.int32)] if self.live else arrays

    def check(self, index: int, results: Sequence[Array]) -> None:
        check(str(self), results, self.expected[index])


@dataclass(frozen=True)
class ComplexCase:
    """apply_rotary_emb_interleaved: x [.., N, C] and a table [N, C] or [N, C / 2, 2]."""

    shapes: Sequence[tuple[int, ...]]
    table: tuple[str, ...] = ("N", "C")
    op: str = COMPLEX

    def __str__(self) -> str:
        return f"interleaved-{'x'.join(map(str, self.shapes[0]))}-table-{len(self.table)}d"

    @property
    def steps(self) -> range:
        return range(len(self.shapes))

    @cached_property
    def data(self) -> list[tuple[Array, Array]]:
        rng = np.random.default_rng(4)
        result = []
        for shape in self.shapes:
            letters = {"N": shape[-2], "C": shape[-1], "P": shape[-1] // 2, "1": 1, "2": 2}
            cosines, sines = tables(angles(shape[-2], shape[-1] // 2))
            table = np.stack([cosines, sines], -1).reshape([letters[name] for name in self.table])
            result.append((randoms(rng, *shape), table))
        return result

    @cached_property
    def expected(self) -> list[list[Array]]:
        wanted = []
        for x, table in self.data:
            numbers = table.reshape(x.shape[-2], x.shape[-1] // 2, 2)
            wanted.append([rotate(x, numbers[..., 0], numbers[..., 1])])
        return wanted

    def program(self) -> bytes:
        g = GraphWriter()
        sizes = [
            tuple(max(size) for size in zip(*(step[i].shape for step in self.data), strict=True))
            for i in range(2)
        ]
        x, table, out = g.tensor(sizes[0]), g.tensor(sizes[1]), g.tensor(sizes[0])
        g.op(COMPLEX, x, table, out)
        g.inputs(x, table)
        g.outputs(out)
        for value in (x, table, out):
            g.host(value, dynamic=True)
        return write_pte(g)

    def inputs(self, index: int) -> list[Array]:
        return list(self.data[index])

    def check(self, index: int, results: Sequence[Array]) -> None:
        check(str(self), results, self.expected[index])


@dataclass(frozen=True)
class SingleCase:
    """apply_rotary_emb_hf_single: the rotation of queries as by `both`, in a separate op."""

    both: RopeCase
    op: str = SINGLE

    def __str__(self) -> str:
        return f"single-{self.both}"

    @property
    def steps(self) -> Sequence[tuple[int, int]]:
        return self.both.steps

    def program(self) -> bytes:
        g = GraphWriter()
        tokens = max(tokens for tokens, _ in self.steps)
        x, out = (
            g.tensor((self.both.batch, tokens, self.both.heads, self.both.size)) for _ in range(2)
        )
        cosines, sines = (g.prepack(g.tensor(t.shape, constant=t)) for t in self.both.tables(0))
        inputs, position = [x], g.int(self.steps[0][1])
        if self.both.live:
            source, position = g.tensor((1,), "int32"), g.symint()
            g.op("et_vk.select_as_symint.default", source, g.int(0), g.int(0), position)
            inputs.append(source)
        g.op(SINGLE, x, cosines, sines, position, out)
        g.inputs(*inputs)
        g.outputs(out)
        for value in (x, out):
            g.host(value, dynamic=True)
        return write_pte(g)

    def inputs(self, index: int) -> list[Array]:
        q, _, *position = self.both.inputs(index)
        return [q, *position]

    def check(self, index: int, results: Sequence[Array]) -> None:
        check(str(self), results, self.both.expected[index][:1])


def check(name: str, results: Sequence[Array], wanted: Sequence[Array]) -> None:
    assert len(results) == len(wanted), name
    for result, want in zip(results, wanted, strict=True):
        assert result.dtype == np.float32
        assert result.shape == want.shape, name
        np.testing.assert_allclose(result, want, rtol=TOLERANCE, atol=TOLERANCE, err_msg=name)


# Prefill and decode, shrinking and growing.
WALK = [(31, 0), (1, 31), (7, 5), (1, 63), (64, 0), (2, 17), (13, 51), (1, 0), (3, 3)]

ROPE = [
    *(
        RopeCase(op, WALK, heads, key_heads, size)
        for op in (PAIRS, ROPE_HF)
        for heads, key_heads in ((4, 2), (1, 1), (3, 3), (5, 1))
        for size in (2, 16, 34, 64)
    ),
    *(RopeCase(op, WALK, size=128, batch=2) for op in (PAIRS, ROPE_HF)),
    RopeCase(PAIRS, [(5, 0), (2, 3)], heads=3, key_heads=3, per_head=True),
    RopeCase(PAIRS, [(0, 0), (3, 1)]),
    RopeCase(ROPE_HF, [(5, 7), (5, 7)], live=False),
    RopeCase(ROPE_HF, [(0, 0), (3, 1)]),
    *(
        RopeCase(ROPE_HF, WALK, size=size, rotated=rotated, batch=batch, uneven=uneven)
        for size, rotated in ((16, 8), (16, 14), (33, 24), (7, 2), (5, 4), (16, 16))
        for batch, uneven in ((1, False), (2, True))
    ),
]

ROPE_SINGLE = [
    *(SingleCase(RopeCase(ROPE_HF, WALK, heads, 1, size)) for heads, size in ((4, 2), (3, 34))),
    *(
        SingleCase(RopeCase(ROPE_HF, WALK, size=size, rotated=rotated, batch=2, uneven=True))
        for size, rotated in ((16, 8), (7, 2), (5, 4))
    ),
    SingleCase(RopeCase(ROPE_HF, [(5, 7), (5, 7)], live=False)),
    SingleCase(RopeCase(ROPE_HF, [(0, 0), (3, 1)])),
    SingleCase(RopeCase(ROPE_HF, [(1, 0)], heads=1, key_heads=1, size=1, rotated=0)),
]

INTERLEAVED = [
    ComplexCase([(1, 4, 8)]),
    ComplexCase([(3, 5, 6)]),
    ComplexCase([(2, 7, 2)], table=("1", "N", "P", "2")),
    ComplexCase([(2, 3, 5, 6)]),
    ComplexCase([(5, 6)]),
    ComplexCase([(2, 9, 10), (2, 1, 10), (1, 4, 10), (2, 9, 10)]),
    ComplexCase([(0, 4, 8)]),
]

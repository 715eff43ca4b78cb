"""Cases of attention to keys and values in int8, each row with a zero point and a scale."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from support.cases.attention.attention_cases import TALK
from support.cases.attention.attention_programs import CacheCase
from support.cases.cases import Array
from support.write.pte_writer import GraphWriter, write_pte

OP = "webpte.quantized_sdpa.default"


class Rows(NamedTuple):
    """Rows of int8, with a zero point and a scale for each: [.., 1]."""

    numbers: Array
    zeros: Array
    scales: Array

    @property
    def floats(self) -> Array:
        return (self.numbers.astype(np.float64) - self.zeros) * self.scales.astype(np.float64)


def random_rows(rng: np.random.Generator, *shape: int) -> Rows:
    dims = (*shape[:-1], 1)
    numbers = rng.integers(-128, 128, shape).astype(np.int8)
    zeros = rng.integers(-128, 128, dims).astype(np.int8)
    return Rows(numbers, zeros, rng.uniform(0.002, 0.02, dims).astype(np.float32))


@dataclass(frozen=True)
class QuantizedCase(CacheCase):
    """A CacheCase whose queries and caches are int8; the caches are in the file.

    Positions that no step may read have a scale of NaN. With `heads_before`, heads come before
    tokens in all tensors.
    """

    op: str = OP
    heads_before: bool = False

    def __str__(self) -> str:
        order = ["heads-before-tokens"] if self.heads_before else []
        return "-".join(["quantized_sdpa", super().__str__(), *order])

    @cached_property
    def held(self) -> tuple[Rows, Rows]:
        """Return the rows of the caches."""
        rng = np.random.default_rng(self.seed + 1)
        shape = (self.batch, self.positions, self.key_heads, self.size)
        keys, values = random_rows(rng, *shape), random_rows(rng, *shape)
        if not (self.mask or "").endswith("P"):
            last = max(tokens + position for tokens, position in self.steps)
            keys.scales[:, last:] = values.scales[:, last:] = np.nan
        return keys, values

    @cached_property
    def queries(self) -> list[Rows]:
        rng = np.random.default_rng(self.seed)
        shapes = [(self.batch, tokens, self.heads, self.size) for tokens, _ in self.steps]
        return [random_rows(rng, *shape) for shape in shapes]

    @cached_property
    def caches(self) -> tuple[Array, Array]:
        return self.held[0].floats, self.held[1].floats

    @cached_property
    def data(self) -> list[dict[str, Array]]:
        rng = np.random.default_rng(self.seed + 2)
        steps = [{"q": rows.floats} for rows in self.queries]
        if self.mask is not None:
            for step, (tokens, position) in zip(steps, self.steps, strict=True):
                step["mask"] = self._make_mask(rng, tokens, position)
        return steps

    def ordered(self, array: Array) -> Array:
        return np.ascontiguousarray(array.swapaxes(1, 2)) if self.heads_before else array

    def program(self) -> bytes:
        g = GraphWriter()
        longest = max(self.queries, key=lambda rows: rows.numbers.size)
        given = [g.tensor(self.ordered(x).shape, str(x.dtype)) for x in longest]
        q, *q_rest = given
        (k, *k_rest), (v, *v_rest) = (
            [g.tensor(self.ordered(x).shape, str(x.dtype), constant=self.ordered(x)) for x in rows]
            for rows in self.held
        )
        inputs, position = [*given], g.int(self.steps[0][1])
        if self.live:
            inputs.append(g.tensor((1,), "int32"))
            position = g.symint()
            g.op("et_vk.select_as_symint.default", inputs[-1], g.int(0), g.int(0), position)
        mask = g.null()
        if self.mask is not None:
            shapes = [step["mask"].shape for step in self.data]
            largest = tuple(max(sizes) for sizes in zip(*shapes, strict=True))
            mask = g.tensor(largest, self.mask_type)
            inputs.append(mask)
        scale = g.null() if self.scale is None else g.double(self.scale)
        rest = (mask, g.double(0.0), g.bool_(self.causal), scale, *q_rest, *k_rest, *v_rest)
        out = g.tensor(self.ordered(longest.numbers).shape)
        g.op(self.op, q, k, v, position, *rest, g.bool_(self.heads_before), out)
        g.inputs(*inputs)
        g.outputs(out)
        for value in (*given, out, *([mask] if self.mask is not None else ())):
            g.host(value, dynamic=len({tokens for tokens, _ in self.steps}) > 1 or value == mask)
        return write_pte(g)

    def inputs(self, index: int) -> list[Array]:
        arrays = [self.ordered(array) for array in self.queries[index]]
        arrays += [np.array([self.steps[index][1]], np.int32)] if self.live else []
        return arrays + ([self.data[index]["mask"]] if self.mask is not None else [])

    def check(self, index: int, results: Sequence[Array]) -> None:
        super().check(index, [self.ordered(result) for result in results])


def masked() -> Iterator[QuantizedCase]:
    for tokens, size, before in ((3, 16, False), (17, 6, True)):
        for mask, kind, causal in (
            ("SP", "float32", False),
            ("SN", "float32", False),
            ("SN", "bool", True),
            ("SP", "bool", True),
            ("HSN", "bool", False),
        ):
            steps = [(tokens, 7), (1, 12)]
            how = {"mask": mask, "mask_type": kind, "causal": causal, "heads_before": before}
            yield QuantizedCase(4, 2, size, steps, **how)  # type: ignore[arg-type]


QUANTIZED_ATTENTION_CASES = [
    QuantizedCase(4, 2, 16, TALK, label="talk"),
    QuantizedCase(4, 2, 16, TALK, heads_before=True, label="talk"),
    QuantizedCase(3, 1, 8, TALK, causal=False),
    QuantizedCase(1, 1, 1, [(1, 0), (3, 1), (1, 4)], positions=5, label="all ones"),
    QuantizedCase(1, 1, 1, [(1, 0)], positions=1, live=False, heads_before=True, label="one"),
    QuantizedCase(2, 2, 3, [(3, 2), (1, 5)], batch=3, positions=9),
    QuantizedCase(2, 2, 3, [(3, 2), (1, 5)], batch=3, positions=9, heads_before=True),
    QuantizedCase(6, 3, 7, [(40, 2), (1, 42)], batch=2, positions=50, heads_before=True),
    QuantizedCase(4, 2, 33, [(40, 2), (1, 42)], batch=2, positions=50),
    QuantizedCase(4, 2, 16, [(5, 7), (5, 7)], live=False),
    QuantizedCase(4, 2, 16, [(1, 63), (64, 0), (1, 63)], label="full cache"),
    QuantizedCase(4, 2, 64, [(70, 0), (65, 70), (131, 3)], positions=140, scale=0.3),
    QuantizedCase(2, 1, 128, [(70, 0), (1, 70)], positions=140, heads_before=True),
    QuantizedCase(2, 1, 260, [(1, 30), (20, 31), (1, 51)], positions=70),
    QuantizedCase(4, 2, 16, [(1, 700), (2, 5), (1, 996)], positions=1000, label="many splits"),
    QuantizedCase(8, 1, 8, [(9, 500), (3, 0)], positions=600, label="tiles with splits"),
    *masked(),
]

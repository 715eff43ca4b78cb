"""The parts of the schedules' programs: kinds, the entries of each, and their models.

A model computes a call's new state and result, or raises `RefusedError` for inputs that no program
of the kind accepts. Numbers are small integers, so that floats are exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Any

import numpy as np

from support.write.pte_writer import GraphWriter

ADD, RELU, NEG = "aten.add.Tensor", "aten.relu.default", "aten.neg.default"
EMBEDDING, SYMINT = "aten.embedding.default", "et_vk.select_as_symint.default"
INDEX = "aten.index.Tensor"
VIEW = "aten.view_copy.default"

Arrays = list[np.ndarray]
State = tuple[float, ...]
Spec = tuple[int, ...]

TABLE = np.arange(30, dtype=np.float32).reshape(10, 3) % 7
MOST_ROWS = 8


class RefusedError(Exception):
    """A model's sign that the call has to fail with a typed error."""


@dataclass(frozen=True)
class Entry:
    """A method: how inputs are made from a few integers, and its model.

    `takes` and `gives` are the kinds of its first input and its output that can be passed on as a
    GPU tensor: "rows" are float32 [n, 3], "indices" are int32 [n]; None is anything else. The
    floats of a method that `rounds` are not exact.
    """

    specs: Callable[[Random], Spec]
    make: Callable[[Spec, np.ndarray | None], Arrays]
    model: Callable[[State, Arrays], tuple[State, Arrays]]
    takes: str | None = None
    gives: tuple[str | None, ...] = (None,)
    rounds: bool = False


@dataclass(frozen=True)
class Kind:
    """A program. `initial` is the state that it is loaded with; None: there is no state.

    A program that `talks` has conversations, too: see talk.py.
    """

    name: str
    write: Callable[[], bytes]
    entries: dict[str, Entry]
    initial: State | None = None
    strict: bool = False
    talks: bool = False

    @cached_property
    def file(self) -> bytes:
        return self.write()


def pattern(dims: tuple[int, ...], seed: int) -> np.ndarray:
    """Make small integers of both signs."""
    count = int(np.prod(dims))
    return ((np.arange(count) * 3 + seed) % 7 - 3).astype(np.float32).reshape(dims)


def picked(indices: np.ndarray, least: int = -10) -> np.ndarray:
    if indices.size and (indices.min() < least or indices.max() >= 10):
        raise RefusedError("an index is out of range")
    return TABLE[indices]


def table(g: GraphWriter) -> Any:
    return g.prepack(g.tensor((10, 3), constant=TABLE))


def dynamic(g: GraphWriter, *values: Any) -> GraphWriter:
    for value in values:
        g.host(value, dynamic=True)
    return g


def make_indices(spec: Spec, handed: np.ndarray | None) -> Arrays:
    """Make indices; spec: their number, and the last one, where 10 and 11 are out of range."""
    rows, last = spec
    if handed is not None:
        return [handed]
    indices = np.arange(rows, dtype=np.int32) % 9
    indices[-1] = last
    return [indices]


def index_specs(rng: Random) -> Spec:
    return rng.randint(1, MOST_ROWS), rng.choice([-11, -10, -9, 0, 3, 8, 9, 10, 11, 1, 2, 5, -4])

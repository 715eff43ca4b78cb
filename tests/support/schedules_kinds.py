"""The programs of the schedules: small, each with a way to go wrong, and with its meaning in NumPy.

A model is what a call does to the state of a program and what it returns, or `RefusedError` for
inputs that no program of the kind can take. Numbers are small integers, so that floats are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from random import Random
from typing import Any

import numpy as np

from support.flat_writer import Node, Scalar, Vector
from support.graphs import chain, temporary_op
from support.pte_writer import GraphWriter, MethodWriter, write_pte
from webpte.errors import ExecutionError, UnsupportedError
from webpte.ops.args import Args

ADD, RELU, NEG = "aten.add.Tensor", "aten.relu.default", "aten.neg.default"
EMBEDDING, SYMINT = "aten.embedding.default", "et_vk.select_as_symint.default"
VIEW = "aten.view_copy.default"

Arrays = list[np.ndarray]
State = tuple[float, ...]
Spec = tuple[int, ...]

TABLE = np.arange(30, dtype=np.float32).reshape(10, 3) % 7
MOST_ROWS = 8


class RefusedError(Exception):
    """The model of a call that has to fail with an error of its own."""


@dataclass(frozen=True)
class Entry:
    """One method: how to make inputs from a few integers, and what it means.

    `takes` and `gives` say what of it can be handed on as a GPU tensor: "rows" are float32 [n, 3],
    "indices" are int32 [n]; None is anything else. Only the first input is ever handed on.
    """

    specs: Callable[[Random], Spec]
    make: Callable[[Spec, np.ndarray | None], Arrays]
    model: Callable[[State, Arrays], tuple[State, Arrays]]
    takes: str | None = None
    gives: tuple[str | None, ...] = (None,)


@dataclass(frozen=True)
class Kind:
    """A program. `initial` is the state that it is loaded with; None: it has none."""

    name: str
    write: Callable[[], bytes]
    entries: dict[str, Entry]
    initial: State | None = None
    strict: bool = False
    data: list[bytes] = field(default_factory=list)

    @property
    def file(self) -> bytes:
        return written(self.name)


@cache
def written(name: str) -> bytes:
    return KINDS[name].write()


def pattern(dims: tuple[int, ...], seed: int) -> np.ndarray:
    """Small integers of both signs."""
    count = int(np.prod(dims))
    return ((np.arange(count) * 3 + seed) % 7 - 3).astype(np.float32).reshape(dims)


def picked(indices: np.ndarray) -> np.ndarray:
    if indices.size and (indices.min() < -10 or indices.max() >= 10):
        raise RefusedError("an index is out of range")
    return TABLE[indices]


def table(g: GraphWriter) -> Any:
    return g.prepack(g.tensor((10, 3), constant=TABLE))


def dynamic(g: GraphWriter, *values: Any) -> GraphWriter:
    for value in values:
        g.host(value, dynamic=True)
    return g


# Without state


def write_sum() -> bytes:
    """relu(x) + y, of up to 8 rows."""
    g = GraphWriter()
    x, y, out = (g.tensor((MOST_ROWS, 3)) for _ in range(3))
    a = g.op(RELU, x, g.tensor((MOST_ROWS, 3)))
    g.op(ADD, a, y, g.int(1), out)
    g.inputs(x, y)
    g.outputs(out)
    return write_pte(dynamic(g, x, y, out))


def make_sum(spec: Spec, handed: np.ndarray | None) -> Arrays:
    rows, seed = spec
    x = pattern((rows, 3), seed) if handed is None else handed
    return [x, pattern(x.shape, seed + 1)]


SUM = Kind(
    "sum",
    write_sum,
    {
        "forward": Entry(
            lambda rng: (rng.randint(1, MOST_ROWS), rng.randrange(7)),
            make_sum,
            lambda state, given: (state, [np.maximum(given[0], 0) + given[1]]),
            takes="rows",
            gives=("rows",),
        )
    },
)


def write_embed() -> bytes:
    """table[-x]: only the GPU sees the indices."""
    g = GraphWriter()
    x, out = g.tensor((MOST_ROWS,), "int32"), g.tensor((MOST_ROWS, 3))
    g.op(EMBEDDING, table(g), g.op(NEG, x, g.tensor((MOST_ROWS,), "int32")), out)
    g.inputs(x)
    g.outputs(out)
    return write_pte(dynamic(g, x, out))


def make_indices(spec: Spec, handed: np.ndarray | None) -> Arrays:
    """spec: how many, and the last of them; 10 and 11 are out of range one way or the other."""
    rows, last = spec
    if handed is not None:
        return [handed]
    indices = np.arange(rows, dtype=np.int32) % 9
    indices[-1] = last
    return [indices]


def index_specs(rng: Random) -> Spec:
    return rng.randint(1, MOST_ROWS), rng.choice([-11, -10, -9, 0, 3, 8, 9, 10, 11, 1, 2, 5, -4])


EMBED = Kind(
    "embed",
    write_embed,
    {
        "forward": Entry(
            index_specs,
            make_indices,
            lambda state, given: (state, [picked(-given[0])]),
            takes="indices",
            gives=("rows",),
        )
    },
)


def write_lookup() -> bytes:
    """table[i] and -i: the host sees the indices, unless they are on the GPU."""
    g = GraphWriter()
    i, rows = g.tensor((MOST_ROWS,), "int32"), g.tensor((MOST_ROWS, 3))
    g.op(EMBEDDING, table(g), i, rows)
    g.inputs(i)
    negative = g.op(NEG, i, g.tensor((MOST_ROWS,), "int32"))
    g.outputs(rows, negative)
    return write_pte(dynamic(g, i, rows, negative))


LOOKUP = Kind(
    "lookup",
    write_lookup,
    {
        "forward": Entry(
            index_specs,
            make_indices,
            lambda state, given: (state, [picked(given[0]), -given[0]]),
            takes="indices",
            gives=("rows", "indices"),
        )
    },
)


def write_folds() -> bytes:
    """-relu(x) as [n, -1] and as [m, -1]: nothing is known of the shapes before the first call."""
    g = GraphWriter()
    x, sizes = g.tensor((6, 2)), g.tensor((2,), "int64")
    n, m = g.symint(0), g.symint(0)
    g.op(SYMINT, sizes, g.int(0), g.int(0), n)
    g.op(SYMINT, sizes, g.int(0), g.int(1), m)
    y = g.op(RELU, x, g.tensor((6, 2)))
    folded = [
        g.op(
            NEG,
            g.op(VIEW, y, g.value_list([size, g.int(-1)]), g.tensor((12, 12))),
            g.tensor((12, 12)),
        )
        for size in (n, m)
    ]
    g.inputs(x, sizes)
    g.outputs(*folded)
    return write_pte(dynamic(g, *folded))


def model_folds(state: State, given: Arrays) -> tuple[State, Arrays]:
    x, sizes = given
    if any(size <= 0 or 12 % size for size in sizes):
        raise RefusedError("12 elements in as many rows")
    return state, [-np.maximum(x, 0).reshape(size, -1) for size in sizes.tolist()]


FOLDS = Kind(
    "folds",
    write_folds,
    {
        "forward": Entry(
            lambda rng: (rng.randrange(7), *(rng.choice([0, 1, 2, 3, 4, 5, 6, 12]) for _ in "nm")),
            lambda spec, _: [pattern((6, 2), spec[0]), np.array(spec[1:], np.int64)],
            model_folds,
            gives=(None, None),
        )
    },
)


def write_picky() -> bytes:
    """An op that has a kernel for every number of rows but five."""
    g = GraphWriter()
    x = g.tensor((MOST_ROWS, 3))
    out = g.op(NEG, g.op("test.picky.default", x, g.tensor((MOST_ROWS, 3))), g.tensor((8, 3)))
    g.inputs(x)
    g.outputs(out)
    return write_pte(dynamic(g, x, out))


def model_picky(state: State, given: Arrays) -> tuple[State, Arrays]:
    if given[0].shape[0] == 5:
        raise RefusedError("strict, and there is no kernel for this")
    return state, [-given[0]]


PICKY = Kind(
    "picky",
    write_picky,
    {
        "forward": Entry(
            lambda rng: (rng.choice([1, 4, 5, 8]), rng.randrange(7)),
            lambda spec, handed: make_sum(spec, handed)[:1],
            model_picky,
            takes="rows",
            gives=("rows",),
        )
    },
    strict=True,
)


# With state


def added(state: State, x: np.ndarray) -> np.ndarray:
    return np.array(state, np.float32) + x


def as_state(array: np.ndarray) -> State:
    return tuple(array.reshape(-1).tolist())


def total_of(g: GraphWriter, x: Any) -> Any:
    kept = g.prepack(g.tensor((4,), constant=np.zeros(4, np.float32)))
    return g.op(ADD, kept, x, g.int(1), kept)


def write_total() -> bytes:
    """state += x; -state."""
    g = GraphWriter()
    x = g.tensor((4,))
    g.inputs(x)
    g.outputs(g.op(NEG, total_of(g, x), g.tensor((4,))))
    return write_pte(g)


def model_total(state: State, given: Arrays) -> tuple[State, Arrays]:
    total = added(state, given[0])
    return as_state(total), [-total]


def four_specs(rng: Random) -> Spec:
    return (rng.randrange(7),)


def make_four(spec: Spec, _: np.ndarray | None) -> Arrays:
    return [pattern((4,), spec[0])]


ZEROS = (0.0,) * 4
TOTAL = Kind("total", write_total, {"forward": Entry(four_specs, make_four, model_total)}, ZEROS)


def write_guarded() -> bytes:
    """state += x; -state and table[-i]: an index is found wrong after the state was written."""
    g = GraphWriter()
    x, i, rows = g.tensor((4,)), g.tensor((MOST_ROWS,), "int32"), g.tensor((MOST_ROWS, 3))
    g.inputs(x, i)
    total = g.op(NEG, total_of(g, x), g.tensor((4,)))
    g.op(EMBEDDING, table(g), g.op(NEG, i, g.tensor((MOST_ROWS,), "int32")), rows)
    g.outputs(total, rows)
    return write_pte(dynamic(g, i, rows))


def model_guarded(state: State, given: Arrays) -> tuple[State, Arrays]:
    rows = picked(-given[1])
    after, outputs = model_total(state, given)
    return after, [*outputs, rows]


GUARDED = Kind(
    "guarded",
    write_guarded,
    {
        "forward": Entry(
            lambda rng: (*four_specs(rng), *index_specs(rng)),
            lambda spec, _: [*make_four(spec, None), *make_indices(spec[1:], None)],
            model_guarded,
            gives=(None, "rows"),
        )
    },
    ZEROS,
)


def write_cache() -> bytes:
    """cache[position] = value; cache as [n, -1]."""
    g = GraphWriter()
    value, at = g.tensor((1, 1, 1, 3)), g.tensor((2,), "int64")
    position, n = g.symint(0), g.symint(0)
    g.op(SYMINT, at, g.int(0), g.int(0), position)
    g.op(SYMINT, at, g.int(0), g.int(1), n)
    kept = g.prepack(g.tensor((1, 4, 1, 3), constant=np.zeros((1, 4, 1, 3), np.float32)))
    g.op("llama.update_cache.default", value, kept, position, g.tensor((1,)))
    out = g.op(VIEW, kept, g.value_list([n, g.int(-1)]), g.tensor((12, 12)))
    g.inputs(value, at)
    g.outputs(out)
    return write_pte(dynamic(g, out))


def model_cache(state: State, given: Arrays) -> tuple[State, Arrays]:
    value, (position, n) = given
    if not 0 <= position < 4 or n <= 0 or 12 % n:
        raise RefusedError("no such position or shape")
    cache_array = np.array(state, np.float32).reshape(4, 3)
    cache_array[position] = value.reshape(3)
    return as_state(cache_array), [cache_array.reshape(n, -1)]


CACHE = Kind(
    "cache",
    write_cache,
    {
        "forward": Entry(
            lambda rng: (
                rng.randrange(7),
                rng.choice([0, 1, 2, 3, 3, 4]),
                rng.choice([0, 1, 2, 4, 5, 12]),
            ),
            lambda spec, _: [pattern((1, 1, 1, 3), spec[0]), np.array(spec[1:], np.int64)],
            model_cache,
        )
    },
    (0.0,) * 12,
)


def write_hosted() -> bytes:
    """state += x; state + host(x): an op in the middle runs on the host, and may fail there."""
    g = GraphWriter()
    x = g.tensor((4,))
    total = total_of(g, x)
    middle = g.op("test.host.default", g.op(NEG, x, g.tensor((4,))), g.tensor((4,)))
    g.inputs(x)
    g.outputs(g.op(ADD, total, middle, g.int(1), g.tensor((4,))))
    return write_pte(g)


def model_hosted(state: State, given: Arrays) -> tuple[State, Arrays]:
    if given[0].max() > 1000:
        raise RefusedError("too large for the op on the host")
    total = added(state, given[0])
    return as_state(total), [total - given[0] + 7]


def make_hosted(spec: Spec, _: np.ndarray | None) -> Arrays:
    seed, large = spec
    x = pattern((4,), seed)
    x[2] += 2000 * large
    return [x]


HOSTED = Kind(
    "hosted",
    write_hosted,
    {
        "forward": Entry(
            lambda rng: (rng.randrange(7), int(rng.random() < 0.2)), make_hosted, model_hosted
        )
    },
    ZEROS,
)


def write_tally() -> bytes:
    """state += relu(x) on the host; -state: two delegates, and kernels of the host between."""
    m = MethodWriter()
    x, y, a, out = (m.tensor((4,)) for _ in range(4))
    state = m.tensor((4,), data=np.zeros(4, np.float32), mutable=True)
    m.inputs(x)
    m.delegate(chain(1), [x, y])
    m.kernel("aten::add.out", state, y, 1, a, a)
    m.kernel("aten::copy_", state, a, False, state)
    m.delegate(chain(1, op=NEG), [a, out])
    m.outputs(out)
    return write_pte(m)


def model_tally(state: State, given: Arrays) -> tuple[State, Arrays]:
    return model_total(state, [np.maximum(given[0], 0)])


TALLY = Kind(
    "tally",
    write_tally,
    {"forward": Entry(four_specs, make_four, model_tally)},
    ZEROS,
)


def _shared_tensor(m: MethodWriter) -> Any:
    """In the part of memory that the exporter gives to state which methods share."""
    host = m.tensor((4,))
    (inner,) = [v for v in m.values[host.index].slots.values() if isinstance(v, Node)]
    inner.slots[6] = Node({0: Scalar("u32", 2), 1: Scalar("u32", 0), 2: Scalar("u32", 0)})
    return host


def write_shared() -> bytes:
    """put(x): state = x. get(): relu(state). Methods of one program with one state."""
    get, put = MethodWriter(), MethodWriter()
    state, y = _shared_tensor(get), get.tensor((4,))
    get.delegate(chain(1), [state, y])
    get.outputs(y)
    x = put.tensor((4,))
    put.inputs(x)
    state = _shared_tensor(put)
    put.kernel("aten::copy_", state, x, False, state)
    put.outputs(state)

    def edit(root: Node) -> None:
        for plan in root.slots[1]:  # type: ignore[union-attr]
            plan.slots[8] = Vector("i64", [0, 1024, 16])  # type: ignore[union-attr]

    return write_pte(methods={"get": get, "put": put}, edit=edit)


SHARED = Kind(
    "shared",
    write_shared,
    {
        "get": Entry(
            lambda rng: (),
            lambda spec, _: [],
            lambda state, given: (state, [np.maximum(np.array(state, np.float32), 0)]),
        ),
        "put": Entry(four_specs, make_four, lambda _, given: (as_state(given[0]), [given[0]])),
    },
    ZEROS,
)

KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        *(SUM, EMBED, LOOKUP, FOLDS, PICKY),
        *(TOTAL, GUARDED, CACHE, HOSTED, TALLY, SHARED),
    )
}


# Ops without kernels


def _same_shape(args: Args) -> Sequence[tuple[int, ...]]:
    return [args.tensor("self").dims]


def _no_kernel(args: Args) -> Any:
    raise UnsupportedError("this op has no kernel")


def _host_reference(args: Args) -> np.ndarray:
    x = args.array("self")
    if x.min() < -1000:
        raise ExecutionError("too large for the op on the host")
    return x + 7


def _picky_lowering(args: Args) -> Any:
    if args.tensor("self").dims[0] == 5:
        raise UnsupportedError("five rows have no kernel")
    from webpte.ops import lookup

    relu = lookup("aten.alias_copy.default")
    assert relu is not None
    return relu.lower(args)


@contextmanager
def ops_of_kinds() -> Iterator[None]:
    """The ops that only these programs have."""
    with ExitStack() as stack:
        for name, lower, reference in (
            ("test.host.default", _no_kernel, _host_reference),
            ("test.picky.default", _picky_lowering, lambda args: args.array("self")),
        ):
            stack.enter_context(
                temporary_op(
                    name,
                    "self: tensor -> tensor",
                    shape=_same_shape,
                    lower=lower,
                    reference=reference,
                )
            )
        yield

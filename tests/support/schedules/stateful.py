"""The programs of the schedules that have state."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np

from support.graphs.graphs import chain
from support.schedules.base import (
    ADD,
    INDEX,
    MOST_ROWS,
    NEG,
    SYMINT,
    VIEW,
    Arrays,
    Entry,
    Kind,
    RefusedError,
    Spec,
    State,
    dynamic,
    index_specs,
    make_indices,
    pattern,
    picked,
    table,
)
from support.write.flat_writer import Node, Scalar, Vector
from support.write.pte_writer import GraphWriter, MethodWriter, write_pte


def added(state: State, x: np.ndarray) -> np.ndarray:
    return np.array(state, np.float32) + x


def as_state(array: np.ndarray) -> State:
    return tuple(array.reshape(-1).tolist())


def total_of(g: GraphWriter, x: Any) -> Any:
    kept = g.prepack(g.tensor((4,), constant=np.zeros(4, np.float32)))
    return g.op(ADD, kept, x, g.int(1), kept)


def write_total() -> bytes:
    """Write state += x; -state."""
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


def write_cut() -> bytes:
    """Write state += x; -state, where x comes from a kernel with several tile configs."""
    g = GraphWriter()
    x, rows, out = g.tensor((4,)), g.tensor((MOST_ROWS, 3)), g.tensor((MOST_ROWS, 3))
    g.op("test.cut.default", rows, out)
    g.inputs(x, rows)
    g.outputs(g.op(NEG, total_of(g, x), g.tensor((4,))), out)
    return write_pte(dynamic(g, rows, out))


def model_cut(state: State, given: Arrays) -> tuple[State, Arrays]:
    after, outputs = model_total(state, given)
    return after, [*outputs, given[1]]


CUT = Kind(
    "cut",
    write_cut,
    {
        "forward": Entry(
            lambda rng: (rng.randrange(7), rng.choice([1, 2, 2, 8])),
            lambda spec, _: [pattern((4,), spec[0]), pattern((spec[1], 3), spec[0])],
            model_cut,
            gives=(None, "rows"),
        )
    },
    ZEROS,
)


def write_guarded() -> bytes:
    """Write state += x; -state and table[-i]: a wrong index is found after state is written."""
    g = GraphWriter()
    x, i, rows = g.tensor((4,)), g.tensor((MOST_ROWS,), "int32"), g.tensor((MOST_ROWS, 3))
    g.inputs(x, i)
    total = g.op(NEG, total_of(g, x), g.tensor((4,)))
    negative = g.op(NEG, i, g.tensor((MOST_ROWS,), "int32"))
    g.op(INDEX, table(g), g.value_list([negative]), rows)
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
    """Write cache[position] = value; cache as [n, -1]."""
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
    """Write state += x; state + host(x): an op in the middle runs on the host, and may fail."""
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
    """Write state += relu(x) on the host; -state: two delegates with host kernels between."""
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
    """Add a tensor in the memory that the exporter uses for state shared by methods."""
    host = m.tensor((4,))
    (inner,) = [v for v in m.values[host.index].slots.values() if isinstance(v, Node)]
    inner.slots[6] = Node({0: Scalar("u32", 2), 1: Scalar("u32", 0), 2: Scalar("u32", 0)})
    return host


def write_shared() -> bytes:
    """Write put(x): state = x and get(): relu(state), two methods that share state."""
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

"""The programs of the schedules: small, each with a way to fail, and its model in NumPy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

from support.graphs import small_llm
from support.graphs.graphs import temporary_op
from support.schedules.base import (
    ADD,
    EMBEDDING,
    INDEX,
    MOST_ROWS,
    NEG,
    RELU,
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
from support.schedules.stateful import CACHE, CUT, GUARDED, HOSTED, SHARED, TALLY, TOTAL
from support.write.pte_writer import GraphWriter, write_pte
from webpte.engine.ops.core.args import Args
from webpte.errors import ExecutionError, UnsupportedError

# Without state


def write_sum() -> bytes:
    """Write relu(x) + y, of up to 8 rows."""
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
    """Write table[-x]: only the GPU sees the indices."""
    g = GraphWriter()
    x, out = g.tensor((MOST_ROWS,), "int32"), g.tensor((MOST_ROWS, 3))
    negative = g.op(NEG, x, g.tensor((MOST_ROWS,), "int32"))
    g.op(INDEX, table(g), g.value_list([negative]), out)
    g.inputs(x)
    g.outputs(out)
    return write_pte(dynamic(g, x, out))


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
    """Write table[i] and -i: the host sees the indices, unless they are on the GPU.

    An embedding refuses negative indices.
    """
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
            lambda state, given: (state, [picked(given[0], least=0), -given[0]]),
            takes="indices",
            gives=("rows", "indices"),
        )
    },
)


def write_folds() -> bytes:
    """Write -relu(x) as [n, -1] and as [m, -1]: shapes are unknown before the first call."""
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
        raise RefusedError("12 elements do not fit that many rows")
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
    """Write an op that has a kernel for every number of rows but five."""
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


def make_tokens(spec: Spec, _: np.ndarray | None) -> Arrays:
    """Make tokens at position 0, where earlier cache content does not matter."""
    count, first = spec
    tokens = (first + 5 * np.arange(count)) % small_llm.VOCABULARY
    return [tokens.reshape(1, -1), np.zeros(1, np.int64)]


TALK_CHUNK, TALK_CONTEXT = 4, 16

TALK = Kind(
    "talk",
    lambda: small_llm.small_llm(chunk=TALK_CHUNK, context=TALK_CONTEXT),
    {
        "forward": Entry(
            lambda rng: (rng.randint(1, TALK_CHUNK), rng.randrange(small_llm.VOCABULARY)),
            make_tokens,
            lambda state, given: (state, [small_llm.logits_of(given[0][0].tolist())[None]]),
            rounds=True,
        )
    },
    talks=True,
)


KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        *(SUM, EMBED, LOOKUP, FOLDS, PICKY, TALK),
        *(TOTAL, GUARDED, CACHE, HOSTED, TALLY, SHARED, CUT),
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
    from webpte.engine.ops import lookup

    relu = lookup("aten.alias_copy.default")
    assert relu is not None
    return relu.lower(args)


def _cut_lowering(args: Args) -> Any:
    """Lower to a kernel with two tile configs, each of a different size; the other is wrong."""
    from webpte.engine.ops import lookup

    names = {"right": "aten.alias_copy.default", "other": NEG}
    (rows, *_) = args.tensor("self").dims
    op = lookup(args.target.choice("cut", f"n{rows}", "right", names))
    assert op is not None
    return op.lower(args)


@contextmanager
def ops_of_kinds() -> Iterator[None]:
    """Registration of the ops that only these programs use."""
    with ExitStack() as stack:
        for name, lower, reference in (
            ("test.host.default", _no_kernel, _host_reference),
            ("test.picky.default", _picky_lowering, lambda args: args.array("self")),
            ("test.cut.default", _cut_lowering, lambda args: args.array("self")),
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

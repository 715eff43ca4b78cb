"""The NumPy reference of every operator against the expectations in the rows of its table.

Expectations are written with loops, float64 and `math`, and share no code with the references. A
usual run takes a third of the rows of each operator, and `--all` takes all.
"""

from __future__ import annotations

import asyncio
from functools import cache
from itertools import groupby

import numpy as np
import pytest

import webpte
from support.cases.cases import Case
from support.cases.live_cases import family_ops
from support.cases.row_cases import RowCase
from support.cases.tables import Row, every_row
from support.graphs.graphs import read_graph
from support.harness import extent
from webpte.engine.ops import lookup, registered_names

# Its numbers are packed as bits, which sampling/test_top_logprobs.py takes apart.
PACKED = {"top_logprobs"}
# It changes an input, which attention/test_attention.py looks at.
WITHOUT_ROWS = {"update_cache.default"}


def title(row: Row) -> str:
    return f"{row.family} {getattr(row.case, 'op', '')}".strip()


# Rows of an operator are one test: there are thousands, and each takes a few milliseconds.
GROUPS = {
    name: list(rows) for name, rows in groupby(sorted(every_row(), key=title), title)
}  # fmt: skip


async def check(row: Row) -> None:
    async with await webpte.load(row.program(), device="numpy") as program:
        for index, inputs in enumerate(row.steps):
            results = await program.forward(*inputs)
            if isinstance(row.case, Case):
                row.case.check(*results)
            elif isinstance(row.case, RowCase):
                row.case.check(results, tuple(inputs))
            else:
                row.case.check(index, results)


async def failures(rows: list[Row]) -> list[str]:
    found = []
    for row in rows:
        try:
            await check(row)
        except (AssertionError, webpte.WebpteError) as error:
            found.append(f"{row}: {type(error).__name__}: {error}")
    return found


@pytest.mark.parametrize(
    "name", [name for name, rows in GROUPS.items() if rows[0].family not in PACKED]
)
def test_reference(name: str) -> None:
    found = asyncio.run(failures(extent.share(GROUPS[name])))
    assert not found, "\n\n".join(found)


def families() -> list[str]:
    """Name the modules of operators, without the registry, which has the operators of SymInts."""
    modules = {op.lower.__module__ for name in registered_names() if (op := lookup(name))}
    return sorted({module.rpartition(".")[2] for module in modules} - {"registry"})


@cache
def ops_of_rows() -> set[str]:
    """Name the operators that rows call. Most rows say so; of the others, the programs do."""
    rows = [row for group in GROUPS.values() for row in group]
    written = [row for row in rows if row.family in ("attention", "rope")]
    called = {call.name for row in written for call in read_graph(row.program()).calls}
    return called | {row.case.op for row in rows if hasattr(row.case, "op")}


def test_every_op_of_a_family_has_rows() -> None:
    missing = {family: family_ops(family) - ops_of_rows() - WITHOUT_ROWS for family in families()}
    assert {family: ops for family, ops in missing.items() if ops} == {}


def test_a_wrong_result_is_told() -> None:
    class Wrong(Case):
        @property
        def expected(self) -> np.ndarray:
            return super().expected + 1

    x = np.zeros(3, np.float32)
    row = Row("unary", Wrong("aten.relu.default", (x,), lambda x: x))
    (found,) = asyncio.run(failures([row]))
    assert "Not equal to tolerance" in found

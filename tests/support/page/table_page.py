"""Runs rows of the operators' tables in the page, as they are or with forced settings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import webpte
from support.cases.cases import Array, Case
from support.cases.row_cases import RowCase
from support.cases.tables import Row, agree
from support.harness.reading import run_apart
from support.page.page import Run, python, run_all
from webpte_host.harness.browser import Harness

BATCH = 12  # programs in one call: each call has to end within its time

_FORCE = """
from webpte.engine.ops.core import records
from webpte.engine.ops.gemm.lib import gemm
from webpte.engine.ops.int8 import int8

records.unforced = gemm.choose_tile_config, int8.FULL, records.MAX_WORKGROUPS
if tiling is not None:
    gemm.choose_tile_config = lambda *_: (gemm.TILE_CONFIGS[tiling], k_parts)
int8.FULL = full or int8.FULL
records.MAX_WORKGROUPS = max_workgroups or records.MAX_WORKGROUPS
"""

_RESTORE = """
from webpte.engine.ops.core import records
from webpte.engine.ops.gemm.lib import gemm
from webpte.engine.ops.int8 import int8

gemm.choose_tile_config, int8.FULL, records.MAX_WORKGROUPS = records.unforced
"""


@contextmanager
def forced(
    harness: Harness,
    *,
    tiling: int | None = None,
    k_parts: int = 1,
    full: int = 0,
    max_workgroups: int = 0,
) -> Iterator[None]:
    """Force settings in the page.

    `tiling` is an index of TILE_CONFIGS, `k_parts` the parts along k to aim at. `full` is how many
    tiles of int8 are enough for large ones, `max_workgroups` where grids are folded.
    """
    given = {"tiling": tiling, "k_parts": k_parts, "full": full, "max_workgroups": max_workgroups}
    python(harness, _FORCE, **given)
    try:
        yield
    finally:
        if not harness.lost:
            python(harness, _RESTORE)


def check_rows(harness: Harness, cases: Sequence[Any], *, strict: bool = True) -> None:
    """Check that kernels give a case's expected output, and agree with the references.

    A case without a tolerance is compared bit by bit. With `strict` nothing may run on the host,
    where it would be compared with itself.
    """
    rows = [Row("", case) for case in cases]
    for first in range(0, len(rows), BATCH):
        batch = rows[first : first + BATCH]
        runs = [Run(row.program(), row.steps, strict) for row in batch]
        for row, run, outcome in zip(batch, runs, run_all(harness, runs), strict=True):
            assert outcome.error is None, f"{row}: {outcome.error}"
            assert len(outcome.outputs) == len(run.steps)
            references = run_apart(_references(run))
            for step, (got, wanted) in enumerate(zip(outcome.outputs, references, strict=True)):
                _check_expected(row.case, step, got)
                for result, reference in zip(got, wanted, strict=True):
                    message = f"{row}, step {step}: {result} is not {reference}"
                    assert _is_same(row.case, result, reference), message


async def _references(run: Run) -> list[list[Array]]:
    async with await webpte.load(run.program, device="numpy") as program:
        return [list(await program.forward(*inputs)) for inputs in run.steps]


def _check_expected(case: Any, step: int, results: list[Array]) -> None:
    if isinstance(case, Case):
        (result,) = results
        case.check(result)
    elif not isinstance(case, RowCase):  # of which sums in another order may be further off
        case.check(step, results)


def _is_same(case: Any, result: Array, reference: Array) -> bool:
    if getattr(case, "rtol", None) == 0:
        return result.dtype == reference.dtype and result.tobytes() == reference.tobytes()
    return agree(case, result, reference)

"""Runs GEMM cases in the page, by default or with a given tile config."""

from __future__ import annotations

from textwrap import indent
from typing import Any

from support.cases.row_cases import COMPARE, RowCase, as_json
from support.harness import limits
from webpte_host.harness.browser import Harness

_FORCED = f"""
from webpte.ops.core import records
from webpte.ops.gemm import gemm

async def compare(cases):
{indent(COMPARE, "    ")}

old = gemm.choose_tile_config, records.MAX_WORKGROUPS
if tiling is not None:
    gemm.choose_tile_config = lambda *_: (gemm.TILE_CONFIGS[tiling], k_parts)
records.MAX_WORKGROUPS = max_workgroups or old[1]
try:
    return await compare(cases)
finally:
    gemm.choose_tile_config, records.MAX_WORKGROUPS = old
"""


def differences(
    harness: Harness,
    cases: list[RowCase],
    *,
    tiling: int | None = None,
    k_parts: int = 1,
    max_workgroups: int = 0,
) -> Any:
    """Return where WebGPU and the references disagree.

    `tiling` is an index of TILE_CONFIGS, `k_parts` the parts along k to aim at.
    """
    return harness.python(
        _FORCED,
        cases=as_json(cases),
        tiling=tiling,
        k_parts=k_parts,
        max_workgroups=max_workgroups,
        timeout=limits.CALL_SECONDS,
    )

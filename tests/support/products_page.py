"""Runs cases of the families around matrix products in the page, as they are or forced to tiles."""

from __future__ import annotations

from textwrap import indent
from typing import Any

from support.row_cases import COMPARE, RowCase, as_json
from webpte_host.browser import Harness

_FORCED = f"""
from webpte.ops import products, records

async def compare(cases):
{indent(COMPARE, "    ")}

old = products.choose_tiling, products.split_k, records.MAX_WORKGROUPS
if tiling is not None:
    products.choose_tiling = lambda product: products.TILINGS[tiling]
    products.split_k = lambda product, tiling: (
        (max(1, -(-product.k // k_part)), k_part) if k_part else (1, product.k)
    )
records.MAX_WORKGROUPS = max_workgroups or old[2]
try:
    return await compare(cases)
finally:
    products.choose_tiling, products.split_k, records.MAX_WORKGROUPS = old
"""


def differences(
    harness: Harness,
    cases: list[RowCase],
    *,
    tiling: int | None = None,
    k_part: int = 0,
    max_workgroups: int = 0,
) -> Any:
    """Where WebGPU and the references disagree.

    `tiling` is an index of TILINGS, `k_part` then the length of each part along k.
    """
    return harness.python(
        _FORCED,
        cases=as_json(cases),
        tiling=tiling,
        k_part=k_part,
        max_workgroups=max_workgroups,
        timeout=600,
    )

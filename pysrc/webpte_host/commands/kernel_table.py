"""`serve.py bench --kernels`: times a list of kernels and compares them with the GPU's limits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from webpte_host.base.errors import HostError
from webpte_host.base.json_files import read_json

BUILT_IN = Path(__file__).with_name("kernel_list.json")
DASH = "-"

_HEADINGS = (
    *("kernel", "time", "MB", "GB/s", "of copy", "MFLOP", "GFLOP/s", "of GEMM", "dispatches"),
)


def read_list(path: Path) -> Any:
    """Read the entries unchecked: they are checked where calls are built."""
    return read_json(path, HostError)


def run(
    path: Path, pattern: str | None, refuse_cpu: Callable[[Any], None], name: str = "native"
) -> dict[str, Any]:
    """Time the kernels on a device; `refuse_cpu` raises for the info of a software device."""
    import webpte
    from webpte_export.suites import kernel_bench

    entries = read_list(path)

    async def timed() -> dict[str, Any]:
        calls = kernel_bench.read_calls(entries, pattern)
        device = await webpte.shared_device(name)
        refuse_cpu(device.info)
        return await kernel_bench.figures_of(device, calls)

    try:
        return asyncio.run(timed())
    except webpte.WebpteError as error:
        raise HostError(str(error)) from error


def show(figures: dict[str, Any]) -> None:
    adapter, limits = figures["adapter"], figures["limits"]
    print(f"adapter: {adapter['vendor']} {adapter['architecture']} {adapter['description']}")
    copy, gemm = limits["copy_gbps"], limits["gflops"]
    print(f"limits: copy {_number(copy)} GB/s, GEMM {_number(gemm)} GFLOP/s")
    rows = [_cells(row, limits) for row in figures["rows"]]
    columns = list(zip(*[_HEADINGS, *(row for row in rows if len(row) > 2)], strict=True))
    widths = [max(map(len, column)) for column in columns]
    for row in (_HEADINGS, *rows):
        first, *rest = row
        if len(rest) == 1:
            print(f"{first.ljust(widths[0])}  {rest[0]}")
        else:
            cells = (cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True))
            print("  ".join([first.ljust(widths[0]), *cells]))


def _cells(row: dict[str, Any], limits: dict[str, Any]) -> tuple[str, ...]:
    """Return a cell per heading, or the name and the reason for a missing time."""
    if "error" in row:
        return row["name"], row["error"]
    return (
        row["name"],
        f"{row['us']:.1f} us" if row["us"] else DASH,
        _number(row["bytes"] / 1e6),
        _number(row["gbps"]),
        _share(row["gbps"], limits["copy_gbps"]),
        _number(row["flops"] and row["flops"] / 1e6),
        _number(row["gflops"]),
        _share(row["gflops"], limits["gflops"]),
        str(row["dispatches"]),
    )


def _number(value: float | None) -> str:
    if not value:
        return DASH
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _share(value: float | None, limit: float | None) -> str:
    return f"{value / limit:.1%}" if value and limit else DASH

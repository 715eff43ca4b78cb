"""A table of kernel times: a list of calls with shapes in, times and rates out.

A call of the list is a JSON object:

    {"op": "aten.mm.default", "args": [{"tensor": [1, 2048]}, {"tensor": [2048, 2048]}]}

args    tensors, ints, floats, bools, strings, null, lists of ints. A tensor has a `dtype` (float32
        by default), and with `"constant": true` it is on the GPU, like weights
out     a tensor or a list of tensors; only for operators that cannot derive it
name    for the table; by default the operator and its shapes
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from fnmatch import fnmatchcase
from typing import Any

from webpte import Device
from webpte.engine.ops import lookup
from webpte.errors import GraphError, OutOfMemoryError, UnsupportedOpError, WebpteError
from webpte.inspection.kernel_rates import (
    FOR_CPUS,
    BenchCall,
    Limits,
    TimeBudget,
    call_graph,
    is_tensor,
    measure,
    rates_of,
)

# Reading the list


def read_calls(entries: Any, pattern: str | None = None) -> list[BenchCall]:
    """Read the calls of a list; a pattern selects calls by name."""
    if not isinstance(entries, list):
        raise GraphError("a list of kernels is a JSON array of objects with an op and its args")
    calls = [_read_call(index, entry) for index, entry in enumerate(entries)]
    return [call for call in calls if pattern is None or fnmatchcase(call.name, pattern)]


def _read_call(index: int, entry: Any) -> BenchCall:
    if not isinstance(entry, dict) or not isinstance(entry.get("op"), str):
        raise GraphError(f'kernel {index}: not an object with an "op", but {entry!r}')
    name = str(entry.get("name") or _default_name(entry))
    where = f"kernel {index} ({name})"
    unknown = entry.keys() - {"op", "args", "out", "name"}
    if unknown:
        raise GraphError(f"{where}: what is {', '.join(sorted(unknown))}?")
    op = lookup(entry["op"])
    if op is None:
        raise UnsupportedOpError(where, {entry["op"]: 1})
    try:
        return BenchCall(name, op, call_graph(op, entry.get("args", []), entry.get("out")))
    except WebpteError as error:
        raise GraphError(f"{where}: {error}") from error


def _default_name(entry: dict[str, Any]) -> str:
    args = entry.get("args")
    tensors = [arg for arg in args if is_tensor(arg)] if isinstance(args, list) else []
    return " ".join([entry["op"], *("x".join(map(str, arg["tensor"])) for arg in tensors)])


# Timing


async def figures_of(
    device: Device,
    calls: Sequence[BenchCall],
    budget: TimeBudget | None = None,
    limits: Limits | None = None,
) -> dict[str, Any]:
    """Measure the calls; returns the adapter, its best rates, and a row per call."""
    budget = budget or TimeBudget()
    sizes = limits or (FOR_CPUS if device.info.software else Limits())
    found = await rates_of(device, budget, sizes)
    best = {"copy_gbps": found.gigabytes_per_second, "gflops": found.gigaflops}
    rows = [await _row(device, call, budget) for call in calls]
    return {"adapter": asdict(device.info), "limits": best, "rows": rows}


async def _row(device: Device, call: BenchCall, budget: TimeBudget) -> dict[str, Any]:
    """Measure a call; return a row, with an error if the call is too large for the device."""
    try:
        return await measure(device, call, budget)
    except OutOfMemoryError as error:
        return {"name": call.name, "op": call.op.name, "error": str(error)}

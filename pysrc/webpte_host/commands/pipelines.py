"""`serve.py bench --pipelines`: times a browser's compilation of each kernel of programs.

The simulated device collects the kernels; the browser compiles the distinct kernels in turn. A
software adapter compiles slowly, so the times show kernels that are too large for it (see
`webpte.engine.ops.core.target`).
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from webpte_host.commands.suites import read_manifest
from webpte_host.commands.verify import check_entries, select

if TYPE_CHECKING:
    from webpte.engine.gpu.device import PipelineSpec
    from webpte_export.suites.suite import SuiteEntry

TARGETS = ("adapter", "software", "gpu")
_SHOWN = 40
_PER_CALL = 20  # pipelines, because a call has a time limit

_FACTS = """
import webpte

info = (await webpte.shared_device()).info
names = f"{info.vendor} {info.architecture} {info.description}"
return {"adapter": names, "software": info.software, "features": list(info.features)}
"""

_COMPILE = """
from time import perf_counter
import webpte
from webpte.engine.gpu.device import (PipelineSpec)

device, times = await webpte.shared_device(), []
for spec in specs:
    bindings, overrides = tuple(spec["bindings"]), tuple(map(tuple, spec["overrides"]))
    started = perf_counter()
    await device.create_pipelines([PipelineSpec(spec["label"], spec["code"], bindings, overrides)])
    times.append((perf_counter() - started) * 1000)
return times
"""


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Return the figures: a row per pipeline, slowest first."""
    from webpte_host.harness.browser import Harness, open_browser
    from webpte_host.serving.server import Site

    with Site() as site, open_browser(options.adapter) as browser:
        harness = Harness.open(browser, site)
        facts: dict[str, Any] = harness.python(_FACTS)
        software = facts["software"] if options.target == "adapter" else options.target != "gpu"
        specs = collect(options.program, software, tuple(facts["features"]), options.filter)
        times: list[float] = []
        for at in range(0, len(specs), _PER_CALL):
            part = [asdict(spec) for spec in specs[at : at + _PER_CALL]]
            times += harness.python(_COMPILE, timeout=3600, specs=part)
    rows = [
        asdict(spec) | {"ms": ms, "lines": spec.code.count("\n")}
        for spec, ms in zip(specs, times, strict=True)
    ]
    rows.sort(key=lambda row: -float(row["ms"]))
    return {"adapter": facts["adapter"], "software_kernels": software, "pipelines": rows}


def show(figures: dict[str, Any]) -> None:
    rows = figures["pipelines"]
    kind = "a software adapter" if figures["software_kernels"] else "a GPU"
    print(f"adapter: {figures['adapter']}; kernels for {kind}")
    print(f"{'ms':>9}  {'lines':>5}  kernel")
    for row in rows[:_SHOWN]:
        overrides = " ".join(f"{name}={value:g}" for name, value in row["overrides"])
        print(f"{row['ms']:9,.1f}  {row['lines']:5,d}  {row['label']}  {overrides}")
    if len(rows) > _SHOWN:
        print(f"{'':9}  {'':5}  ... and {len(rows) - _SHOWN:,} more")
    print(f"{len(rows):,} pipelines, {sum(row['ms'] for row in rows):,.0f} ms in all")


def collect(
    path: Path, software: bool, features: tuple[str, ...] = (), pattern: str | None = None
) -> list[PipelineSpec]:
    """Return the distinct pipelines of a program, or of a suite's programs at its shapes."""
    with ThreadPoolExecutor(1) as thread:  # the current thread may run Playwright's event loop
        found = thread.submit(lambda: asyncio.run(_collect(path, software, features, pattern)))
        return found.result()


async def _collect(
    path: Path, software: bool, features: tuple[str, ...], pattern: str | None
) -> list[PipelineSpec]:
    import webpte
    from webpte.engine.gpu.simulated.device import SimulatedDevice

    device = SimulatedDevice(features=features)
    device.info = replace(device.info, software=software)
    if path.is_file():
        async with await webpte.load(path, device=device):
            return sorted_specs(device.pipelines)
    for entry in _entries(path, pattern):
        async with await webpte.load(path / entry.pte, device=device) as program:
            for step in entry.steps:
                inputs = [file.decode((path / file.path).read_bytes()) for file in step.inputs]
                await program.run(entry.method, *inputs)
        device.log.clear()
    return sorted_specs(device.pipelines)


def _entries(suite: Path, pattern: str | None) -> Iterator[SuiteEntry]:
    from webpte_export.suites.suite import parse_entry

    for entry in select(check_entries(read_manifest(suite), suite), pattern):
        yield parse_entry(entry)


def sorted_specs(specs: Iterable[PipelineSpec]) -> list[PipelineSpec]:
    return sorted(specs, key=lambda spec: (spec.label, spec.code, spec.overrides))

"""The kernels that the families' tables ask for compile on WebGPU.

Every variant does where no driver compiles it natively (tests/native/test_tables.py), on a GPU and
if everything is to run; otherwise the variants of a row of each operator do. A CPU adapter needs
about a second for a whole pipeline, and the families' own tests make and run each; there, this
test compiles the shaders alone. A GPU makes all pipelines.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict

import pytest

from support.cases.software import waits
from support.cases.tables import Row, every_row, rows_of_every_kernel
from support.devices.native import why_not
from support.devices.variants import SOFTWARE, collect, collect_fused, lower, without_results
from support.harness.extent import everything
from support.page.page import HarnessSource, python
from webpte.engine.gpu.device import PipelineSpec
from webpte.engine.ops.core.target import GPU
from webpte.engine.plan.shaders import kernel_files, shader_folder
from webpte_host.setup import chromium

PER_CALL = 100
MATRIX_FEATURE = "enable chromium_experimental_subgroup_matrix;"

FACTS = """
info = (await shared_device()).info
return [info.software, "shader-f16" in info.features, info.has_subgroup_matrices]
"""

SHADERS = """
from js import navigator
from pyodide.ffi import to_js

adapter = await navigator.gpu.requestAdapter()
features = [name for name in ("shader-f16",) if adapter.features.has(name)]
device = await adapter.requestDevice(requiredFeatures=to_js(features))
failed = []
for spec in specs:
    module = device.createShaderModule(code=spec["code"])
    for message in (await module.getCompilationInfo()).messages:
        if message.type == "error":
            failed.append(f"{spec['label']}, line {message.lineNum}: {message.message}")
device.destroy()
return failed
"""

PIPELINES = """
from webpte.engine.gpu.device import (PipelineSpec)

device, failed = await shared_device(), []
for spec in specs:
    bindings, overrides = tuple(spec["bindings"]), tuple(map(tuple, spec["overrides"]))
    try:
        await device.create_pipelines(
            [PipelineSpec(spec["label"], spec["code"], bindings, overrides)]
        )
    except webpte.WebpteError as error:
        failed.append(f"{spec['label']}: {error}")
return failed
"""


async def collect_for_gpu(halves: bool, rows: Sequence[Row]) -> set[PipelineSpec]:
    return await collect(halves, False, rows) | await collect_fused()


def of_every_row() -> bool:
    return everything() or why_not() is not None or chromium.chosen_adapter() == "hardware"


def collect_all(halves: bool) -> set[PipelineSpec]:
    """Collect the pipelines of a GPU, and of a software adapter."""
    rows = list(every_row()) if of_every_row() else rows_of_every_kernel()
    fixed = [row for row in rows if len(row.steps) == 1]
    alone = set() if halves else lower(fixed, [GPU, SOFTWARE])
    loaded = rows if halves else [row for row in rows if len(row.steps) > 1]
    with without_results():
        in_software = asyncio.run(collect(halves, True, loaded))
        on_gpu = asyncio.run(collect_for_gpu(halves, loaded))
    assert [spec.label for spec in in_software if waits(spec)] == []  # compiled for minutes there
    return alone | in_software | on_gpu


def variants(halves: bool) -> list[PipelineSpec]:
    with ThreadPoolExecutor(1) as thread:  # the main thread has Playwright's event loop
        found = thread.submit(collect_all, halves).result()
    return sorted(found, key=lambda spec: (spec.label, spec.code, spec.overrides))


@pytest.fixture(scope="module")
def plain_variants() -> list[PipelineSpec]:
    return variants(halves=False)


@pytest.mark.thorough
def test_every_kernel_has_a_variant(plain_variants: list[PipelineSpec]) -> None:
    kernels = set(kernel_files(shader_folder()))
    assert kernels == {spec.label.partition(" ")[0].partition(":")[0] for spec in plain_variants}


@pytest.mark.thorough
def test_every_variant_compiles(
    plain_variants: list[PipelineSpec], shared_harness: HarnessSource
) -> None:
    software, native_halves, matrices = python(shared_harness.get(), FACTS)
    found = [spec for spec in plain_variants if matrices or MATRIX_FEATURE not in spec.code]
    if native_halves:
        found = [*found, *variants(halves=True)]
    if software:
        found = list({spec.code: spec for spec in found}.values())
    for at in range(0, len(found), PER_CALL):
        specs = [asdict(spec) for spec in found[at : at + PER_CALL]]
        code = SHADERS if software else PIPELINES
        assert python(shared_harness.get(), code, specs=specs) == []

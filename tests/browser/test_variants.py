"""Every kernel in every variant that the families' tables ask for compiles on WebGPU.

A CPU adapter needs about a second for a whole pipeline, and the families' own tests make each one
and run it; there, this test compiles the shaders alone. A GPU makes all pipelines.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace

import numpy as np
import pytest

import webpte
from support.graphs import chain
from support.page import HarnessSource, python
from support.pte_writer import write_pte
from support.tables import every_row
from webpte.gpu.device import PipelineSpec
from webpte.gpu.recording import RecordingDevice
from webpte.shaders import shader_folder
from webpte_host.layout import ROOT

PER_CALL = 100
LLAMA = ROOT / "tests" / "data" / "llm" / "llama_tiny_q4.pte"

FACTS = """
info = (await shared_device()).info
return [info.software, "shader-f16" in info.features]
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
from webpte.gpu.device import PipelineSpec

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


async def collect(halves: bool, software: bool) -> set[PipelineSpec]:
    """What the tables' rows compile at every size that they run, as they are or as halves."""
    device = RecordingDevice(features=("shader-f16",) if halves else ())
    device.info = replace(device.info, software=software)
    for row in every_row():
        program = row.half_program() if halves else row.program()
        async with await webpte.load(program, device=device) as loaded:
            # Loading has lowered for the largest sizes, which are the first step's.
            for inputs in row.steps if len(row.steps) > 1 else ():
                await loaded.forward(*inputs)
        device.log.clear()
    return set(device.pipelines)


async def collect_fused() -> set[PipelineSpec]:
    """What stands for several calls: rows are one call each."""
    device = RecordingDevice()
    device.info = replace(device.info, limits={"maxStorageBuffersPerShaderStage": 10})
    async with await webpte.load(LLAMA, device=device) as program:
        await program.forward(np.zeros((1, 1), np.int64), np.zeros(1, np.int64))
    async with await webpte.load(write_pte(chain(3)), device=device) as program:
        await program.forward(np.zeros(4, np.float32))
    return set(device.pipelines)


async def collect_all(halves: bool) -> set[PipelineSpec]:
    """For a GPU and for a software adapter."""
    alone = await collect(halves, software=False) | await collect(halves, software=True)
    return alone | await collect_fused()


def variants(halves: bool) -> list[PipelineSpec]:
    with ThreadPoolExecutor(1) as thread:  # this one has Playwright's event loop
        found = thread.submit(lambda: asyncio.run(collect_all(halves))).result()
    return sorted(found, key=lambda spec: (spec.label, spec.code, spec.overrides))


@pytest.fixture(scope="module")
def plain_variants() -> list[PipelineSpec]:
    return variants(halves=False)


def test_every_kernel_has_a_variant(plain_variants: list[PipelineSpec]) -> None:
    kernels = {path.stem for path in shader_folder().glob("*.wgsl")}
    assert kernels == {spec.label.partition(" ")[0].partition(":")[0] for spec in plain_variants}


def test_every_variant_compiles(
    plain_variants: list[PipelineSpec], shared_harness: HarnessSource
) -> None:
    software, native_halves = python(shared_harness.get(), FACTS)
    found: Sequence[PipelineSpec] = plain_variants
    if native_halves:
        found = [*found, *variants(halves=True)]
    if software:
        found = list({spec.code: spec for spec in found}.values())
    for at in range(0, len(found), PER_CALL):
        specs = [asdict(spec) for spec in found[at : at + PER_CALL]]
        code = SHADERS if software else PIPELINES
        assert python(shared_harness.get(), code, specs=specs) == []

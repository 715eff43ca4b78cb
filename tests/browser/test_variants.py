"""Every kernel in every variant that the families' tables ask for compiles on WebGPU.

A CPU adapter needs about a second for a whole pipeline, and the families' own tests make each one
and run it; there, this test compiles the shaders alone. A GPU makes all pipelines.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, replace
from unittest.mock import patch

import numpy as np
import pytest

import webpte
from support import linear_q4_cases, matmul_cases, winograd
from support.conv_graphs import conv_block
from support.encoder_graphs import Encoder, encoder_layer
from support.graphs import build_graph, chain, make_planner, read_graph
from support.page import HarnessSource, python
from support.pte_writer import write_pte
from support.software import waits
from support.tables import Row, every_row
from webpte.fusion import fuse
from webpte.gpu.device import PipelineSpec
from webpte.gpu.emulation import EmulatedCall
from webpte.gpu.recording import RecordingDevice
from webpte.ops.matrix_tiles import SHARED_BYTES
from webpte.ops.target import GPU, Target
from webpte.shaders import ShaderLibrary, shader_folder
from webpte_host.layout import ROOT

PER_CALL = 100
MATRICES = Target(shared_bytes=SHARED_BYTES, matrices=True)
MATRIX_FEATURE = "enable chromium_experimental_subgroup_matrix;"
LLAMAS = tuple(
    ROOT / "tests" / "data" / "llm" / f"llama_tiny_{weights}.pte" for weights in ("q4", "fp32")
)

FACTS = """
info = (await shared_device()).info
return [info.software, "shader-f16" in info.features, info.has_matrices]
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


@contextmanager
def without_results() -> Iterator[None]:
    """Nothing is computed: that would take most of the time, and nobody looks at it."""
    with patch.object(EmulatedCall, "run", lambda call, memory: None):
        yield


async def collect(halves: bool, software: bool, rows: Sequence[Row]) -> set[PipelineSpec]:
    """What rows compile at every size that they run, as they are or as halves."""
    device = RecordingDevice(features=("shader-f16",) if halves else ())
    device.info = replace(device.info, software=software)
    for row in rows:
        program = row.half_program() if halves else row.program()
        async with await webpte.load(program, device=device) as loaded:
            # Loading has lowered for the largest sizes, which are the first step's.
            for inputs in row.steps if len(row.steps) > 1 else ():
                await loaded.forward(*inputs)
        device.log.clear()
    return set(device.pipelines)


def lower(rows: Sequence[Row]) -> set[PipelineSpec]:
    """What rows of one size compile, for both targets: much quicker than loading them."""
    graphs = [read_graph(row.program()) for row in rows]
    tuned = [fuse(build_graph(conv_block(block)[0])) for block in winograd.BLOCKS]
    pairs = [(graph, target) for graph in graphs for target in (GPU, Target(software=True))]
    # No default, but what tuning may choose.
    pairs += [(graph, winograd.choosing(graph, n)) for graph in tuned for n in winograd.LABELS]
    # Nor is this: for those who ask for subgroup matrices.
    cases = (*linear_q4_cases.MATRIX_CASES, *matmul_cases.MATRIX_CASES)
    pairs += [(read_graph(case.program()), MATRICES) for case in cases]
    found: set[tuple[str, tuple[tuple[str, str], ...], tuple[tuple[str, float], ...]]] = set()
    for graph, target in pairs:
        planner, _ = make_planner(graph, target)
        planner.lower_all()
        found |= {(one.kernel, one.types, one.overrides) for one in planner.dispatches()}
    library, specs = ShaderLibrary(), set()
    for kernel, types, overrides in found:
        shader = library.assemble(kernel, types)
        specs.add(PipelineSpec(kernel, shader.code, shader.bindings, overrides))
    return specs


async def collect_for_gpu(halves: bool, rows: Sequence[Row]) -> set[PipelineSpec]:
    return await collect(halves, False, rows) | await collect_fused()


async def collect_fused() -> set[PipelineSpec]:
    """What stands for several calls: rows are one call each."""
    device = RecordingDevice()
    limits = {"maxStorageBuffersPerShaderStage": 10, "maxComputeWorkgroupStorageSize": 32768}
    device.info = replace(device.info, limits=limits)
    for llama in LLAMAS:
        async with await webpte.load(llama, device=device) as program:
            for tokens in (1, 2, 40):  # one row, a few, and many
                await program.forward(np.zeros((1, tokens), np.int64), np.zeros(1, np.int64))
    async with await webpte.load(write_pte(chain(3)), device=device) as program:
        await program.forward(np.zeros(4, np.float32))
    net = Encoder()
    x = net.g.tensor((1, 20, 32))
    inputs = net.finish((x,), encoder_layer(net, x, 4, 64))
    async with await webpte.load(write_pte(net.g), device=device) as program:
        await program.forward(*inputs)
    return set(device.pipelines)


def collect_all(halves: bool) -> set[PipelineSpec]:
    """For a GPU and for a software adapter."""
    rows = list(every_row())
    alone = set() if halves else lower([row for row in rows if len(row.steps) == 1])
    loaded = rows if halves else [row for row in rows if len(row.steps) > 1]
    with without_results():
        in_software = asyncio.run(collect(halves, True, loaded))
        on_gpu = asyncio.run(collect_for_gpu(halves, loaded))
    assert [spec.label for spec in in_software if waits(spec)] == []  # compiled for minutes there
    return alone | in_software | on_gpu


def variants(halves: bool) -> list[PipelineSpec]:
    with ThreadPoolExecutor(1) as thread:  # this one has Playwright's event loop
        found = thread.submit(collect_all, halves).result()
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

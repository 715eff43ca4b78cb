"""Every kernel variant that tables, suites, samples and answers need.

Nothing is computed and nothing is compiled here: a recording device takes down the pipelines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import webpte
from support.cases.attention import attention_cases
from support.cases.attention.attention_programs import CacheCase
from support.cases.gemm import linear_q4_cases, matmul_cases
from support.cases.tables import Row
from support.decoders.decoder_graphs import FAMILIES, decoder_layers
from support.decoders.epilogue_graphs import EPILOGUES, normed_sum, with_epilogue
from support.decoders.head_graphs import CHANGED, changed_attention, changed_steps
from support.decoders.row_graphs import ROWS, computed_row
from support.graphs.encoder_graphs import Encoder, encoder_layer
from support.graphs.graphs import build_graph, chain, make_planner, read_graph
from support.harness import extent
from support.write import pack_suite
from support.write.pte_writer import write_pte
from webpte.engine.call.options import DeveloperOptions
from webpte.engine.gpu.device import PipelineSpec
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.engine.gpu.simulated.emulation import EmulatedCall
from webpte.engine.ops.attention.cache_packing import PACKINGS
from webpte.engine.ops.core.target import Target
from webpte.engine.ops.gemm.subgroup_matrix.tiles import SHARED_BYTES
from webpte.engine.plan.shaders import ShaderLibrary
from webpte.engine.rewrite.fusion import fuse
from webpte.llm import Generator, OneOf, Scheduler
from webpte_export.suites.suite import run_entry
from webpte_host.base.layout import ROOT

SOFTWARE = Target(software=True)
INTEGERS = Target(int8_products=True)
MATRICES = Target(storage_buffers=10, shared_bytes=SHARED_BYTES, subgroup_matrices=True)
LLAMAS = tuple(
    ROOT / "tests" / "data" / "llm" / f"llama_tiny_{weights}.pte" for weights in ("q4", "fp32")
)
SUITES = sorted((ROOT / "tests" / "suites").glob("*.zip"))
SAMPLES = sorted((ROOT / "web" / "samples").glob("*.pte"))

PROMPT = [5, 9, 33, 7]
CHOICES = OneOf([[0, 0, 0], [0, 81]])  # token 0 is the result if nothing is computed
ASKED: tuple[dict[str, Any], ...] = (
    {},
    {"logprobs": True, "top": 3},
    {"constraint": CHOICES},
    {"temperature": 0.9},
    {"temperature": 0.9, "top_k": 20, "top_p": 0.9, "constraint": CHOICES},
    {"temperature": 1.1, "min_p": 0.05, "repetition_penalty": 1.3},
)


@contextmanager
def without_results() -> Iterator[None]:
    """Skip all computing inside: it would take most of the time, and is not checked."""
    with patch.object(EmulatedCall, "run", lambda call, memory: None):
        yield


def make_device() -> SimulatedDevice:
    """A device with the features of most GPUs."""
    device = SimulatedDevice()
    limits = {"maxStorageBuffersPerShaderStage": 10, "maxComputeWorkgroupStorageSize": 32768}
    device.info = replace(device.info, limits=limits)
    return device


async def collect(halves: bool, software: bool, rows: Iterable[Row]) -> set[PipelineSpec]:
    """Load rows, and run rows of several sizes at each, unchanged or as f16."""
    device = SimulatedDevice(features=("shader-f16",) if halves else ())
    device.info = replace(device.info, software=software)
    for row in rows:
        program = row.half_program() if halves else row.program()
        async with await webpte.load(program, device=device) as loaded:
            # Loading has lowered for the largest sizes, which are the first step's.
            for inputs in row.steps if len(row.steps) > 1 else ():
                await loaded.forward(*inputs)
        device.log.clear()
    return set(device.pipelines)


def lower(
    rows: Iterable[Row], targets: Sequence[Target], matrices: Target = MATRICES
) -> set[PipelineSpec]:
    """Lower rows of one size: much quicker than loading them."""
    graphs = [read_graph(row.program()) for row in rows]
    pairs = [(graph, target) for graph in graphs for target in targets]
    # Prompts in integers and subgroup matrices are no default: programs have to request them.
    cases: list[Any] = linear_q4_cases.MATRIX_CASES
    pairs += [(read_graph(case.program()), INTEGERS) for case in cases]
    cases = [*cases, *matmul_cases.MATRIX_CASES]
    cases += attention_cases.MATRIX_CASES
    pairs += [(read_graph(case.program()), matrices) for case in cases]
    layer = decoder_layers(FAMILIES["llama"], 40, 1)
    pairs.append((fuse(build_graph(layer)), matrices))
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


async def collect_fused() -> set[PipelineSpec]:
    """Run models whose kernels stand for several calls: rows are one call each."""
    device = make_device()
    for llama in LLAMAS:
        async with await webpte.load(llama, device=device) as program:
            for tokens in (1, 2, 40):  # one row, a few, and many
                await program.forward(np.zeros((1, tokens), np.int64), np.zeros(1, np.int64))
    await collect_packed(device)
    await collect_batches(device)
    await collect_decoders(device)
    async with await webpte.load(write_pte(chain(3)), device=device) as program:
        await program.forward(np.zeros(4, np.float32))
    net = Encoder()
    x = net.g.tensor((1, 20, 32))
    inputs = net.finish((x,), encoder_layer(net, x, 4, 64))
    async with await webpte.load(write_pte(net.g), device=device) as program:
        await program.forward(*inputs)
    return set(device.pipelines)


async def collect_decoders(device: SimulatedDevice) -> None:
    """Run the fused calls of decoders of other families than Llama's."""
    nets = [(changed_attention(case), case) for case in CHANGED]
    programs = [(net.g, changed_steps(net, case)) for net, case in nets]
    programs += [(graph, [inputs]) for graph, inputs in (with_epilogue(case) for case in EPILOGUES)]
    programs += [computed_row(case) for case in ROWS]
    summed, inputs = normed_sum((3, 64))
    for graph, steps in [*programs, (summed, [inputs])]:
        async with await webpte.load(write_pte(graph), device=device) as program:
            for given in steps:
                await program.forward(*given)


async def collect_packed(device: SimulatedDevice) -> None:
    """Run attention with packed KV caches: fused, with small and large heads, and plain."""
    large = CacheCase(4, 2, 128, [(40, 0), (1, 40)], positions=64).program()
    for kind in PACKINGS:
        for plain in (False, True):
            how = DeveloperOptions(plain=plain)
            loading: dict[str, Any] = {"device": device, "options": how, "kv_cache": kind}
            async with await webpte.llm.load(LLAMAS[0], **loading) as program:
                for tokens in (1, 40):
                    await program.forward(np.zeros((1, tokens), np.int64), np.zeros(1, np.int64))
            async with await webpte.llm.load(large, **loading):
                pass


async def collect_batches(device: SimulatedDevice) -> None:
    """Run steps of several answers at once, with every kind of KV cache."""
    for kind in (None, *PACKINGS):
        async with (
            await webpte.llm.load(LLAMAS[0], device=device, kv_cache=kind) as program,
            Scheduler(program, slots=2, chunk=32) as scheduler,
        ):
            for answer in [scheduler.submit(PROMPT * length, 3) for length in (1, 5)]:
                async for _ in answer:
                    pass


async def collect_programs() -> set[PipelineSpec]:
    """Run suites, samples and answers of language models, fused; with `--all` call by call, too."""
    device = make_device()
    for fused in extent.some([True], False):
        await collect_suites(device, fused)
        await collect_samples(device, fused)
    return set(device.pipelines) | await collect_fused()


async def collect_suites(device: SimulatedDevice, fused: bool) -> None:
    """Run every case of the packed suites."""
    with ExitStack() as stack:
        for path in SUITES:
            folder = stack.enter_context(pack_suite.unpacked(path))
            for entry in pack_suite.read_entries(path):
                await _run_case(device, folder, entry, fused)
                device.log.clear()


async def _run_case(device: Any, folder: Path, entry: pack_suite.Entry, fused: bool) -> None:
    async def fetch_bytes(path: str) -> bytes:
        return (folder / path).read_bytes()

    how = DeveloperOptions(fuse=fused, plain=False)
    report = await run_entry(entry, fetch_bytes, device, options=how)
    # Nothing was computed, so outputs are wrong. But there are some.
    assert report["outputs"], report["error"]


async def collect_samples(device: SimulatedDevice, fused: bool) -> None:
    """Load all that ships: for the largest sizes, and language models for others, too."""
    for path in (*SAMPLES, *LLAMAS):
        async with await webpte.load(
            path, device=device, options=DeveloperOptions(fuse=fused, plain=False)
        ) as program:
            if path.stem == "stories" or path in LLAMAS:
                await collect_answers(program)


async def collect_answers(program: webpte.Program) -> None:
    """Answer prompts of two lengths in all ways to choose tokens: one by one, several ahead."""
    for asked in ASKED:
        for steps in (1,) if "constraint" in asked else (1, 4):
            generator = Generator(program)
            answer = generator.generate(PROMPT, 9, steps_ahead=steps, **asked)
            async for _ in answer:
                pass
    async for _ in Generator(program).generate(PROMPT * 10, 2):
        pass

"""Times decode on this machine's GPU: layers of the 1B Llama, with several GEMV configs.

    PYTHONPATH=pysrc:tests python -m bench.row_bench [--layers 8] [--steps 200] [--position 512]

Steps are queued and waited for once: a figure is the time of a step without the host. The layers'
weights together exceed the GPU's caches, so they are read from memory. A GEMV config is the threads
of a workgroup and the slices along k.
"""

from __future__ import annotations

import argparse
import asyncio
from contextlib import ExitStack
from dataclasses import replace
from statistics import median
from time import perf_counter
from unittest.mock import patch

import numpy as np

from support.graphs.fusion_graphs import llama_layers
from support.write.pte_writer import write_pte
from webpte.engine.files.source import BytesSource
from webpte.engine.gpu.native.device import NativeDevice
from webpte.engine.graph.graph import Graph
from webpte.engine.load.program_file import read_contents
from webpte.engine.ops.gemm import fused_linear_q4, linear_q4
from webpte.engine.ops.gemm.gemv_q4 import GemvConfig
from webpte.engine.plan.shaders import ShaderLibrary
from webpte.engine.run.delegate import GpuDelegate
from webpte.engine.run.io import Input, OutputPlacement
from webpte.engine.run.request import RunRequest

SIZES = ((64, 32), (128, 16), (128, 32), (128, 64), (256, 64))
CONFIGS = tuple(GemvConfig(threads, slices) for threads, slices in SIZES)


async def show(
    graph: Graph, device: NativeDevice, steps: int, position: int, fuse: bool = True
) -> None:
    """Print the milliseconds of a step: the median of five rounds after a warm-up."""
    delegate = await GpuDelegate.create(graph, device, ShaderLibrary(), fused=fuse)
    shapes = [graph.tensor(i).dims for i in graph.inputs if not graph.is_symint(i)]
    x, *tables = (np.zeros(dims, np.float32) for dims in shapes)
    inputs: list[Input] = [x, position, *tables]
    rounds = []
    for _ in range(6):
        started = perf_counter()
        runs = [
            delegate.run(RunRequest(inputs, OutputPlacement.BORROWED)) for _ in range(steps - 1)
        ]
        await asyncio.gather(*runs, delegate.run(RunRequest(inputs)))
        rounds.append((perf_counter() - started) * 1000 / steps)
    dispatches = delegate.dispatches
    delegate.close()
    times = f"{median(rounds[1:]):8.3f} ms, best {min(rounds):8.3f}"
    print(f"    {times}, {dispatches} dispatches", flush=True)


async def compare(options: argparse.Namespace) -> None:
    device = await NativeDevice.create()
    plain = replace(device.info, software=False)
    print(plain.description)
    sizes = {"heads": 4, "key_heads": 2, "hidden": 256, "context": 64} if options.small else {}
    contents = await read_contents(BytesSource(write_pte(llama_layers(options.layers, **sizes))))
    (graph,) = contents.methods["forward"].graphs
    assert graph is not None
    given = (options.steps, min(options.position, 63 if options.small else 2303))
    device.info = plain
    print("not fused")
    await show(graph, device, *given, fuse=False)
    print("fused, as chosen now")
    await show(graph, device, *given)
    for config in CONFIGS:
        with ExitStack() as patches:
            for module in (linear_q4, fused_linear_q4):
                patches.enter_context(
                    patch.object(module, "choose_gemv_config", lambda *_, c=config: c)
                )
            print(f"fused, {config.threads} threads, {config.slices} slices")
            await show(graph, device, *given)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--position", type=int, default=512)
    parser.add_argument("--small", action="store_true", help="tiny layers, to see that it runs")
    asyncio.run(compare(parser.parse_args()))

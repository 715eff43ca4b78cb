"""Builds graphs, planners and programs from a `GraphWriter`, and temporary operators."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

import webpte
from support.write.pte_writer import GraphWriter, MethodWriter, write_pte
from webpte import Options
from webpte.engine.files.source import BytesSource
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.engine.graph.graph import Graph
from webpte.engine.graph.live_state import LiveState
from webpte.engine.load.program_file import read_contents
from webpte.engine.ops.core import registry
from webpte.engine.ops.core.target import GPU, Target
from webpte.engine.plan.memory_plan import plan_memory
from webpte.engine.plan.planner import Planner
from webpte.engine.plan.shaders import ShaderLibrary
from webpte.engine.rewrite.validate import resolve_ops
from webpte.engine.run.delegate import GpuDelegate

T = TypeVar("T")


def wait(coroutine: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(coroutine)


def read_graph(data: bytes) -> Graph:
    """Read the graph of a file's only delegate."""
    contents = wait(read_contents(BytesSource(data)))
    (graph,) = contents.methods["forward"].graphs
    assert graph is not None
    return graph


def build_graph(writer: GraphWriter, **options: Any) -> Graph:
    return read_graph(write_pte(writer, **options))


def make_planner(graph: Graph, target: Target = GPU) -> tuple[Planner, LiveState]:
    """Build a planner before its first lowering."""
    ops, live = resolve_ops(graph), LiveState(graph)
    return Planner(graph, live, ops, plan_memory(graph, ops), target), live


async def make_delegate(
    writer: GraphWriter | Graph, device: SimulatedDevice | None = None
) -> tuple[GpuDelegate, SimulatedDevice]:
    device = device or SimulatedDevice()
    graph = writer
    if isinstance(graph, GraphWriter):
        contents = await read_contents(BytesSource(write_pte(graph)))
        (found,) = contents.methods["forward"].graphs
        assert found is not None
        graph = found
    # Tests of the execution use calls made for them, which must not be fused.
    return await GpuDelegate.create(graph, device, ShaderLibrary(), fused=False), device


async def load(writer: GraphWriter | MethodWriter, **options: Any) -> webpte.Program:
    """Load a program without fusion, by default on NumPy."""
    given = {"device": "numpy", "options": Options(fuse=False), **options}
    return await webpte.load(write_pte(writer), **given)


async def run_once(
    writer: GraphWriter | MethodWriter, *inputs: Any, device: Any = "numpy", fuse: bool = False
) -> tuple[Any, ...]:
    async with await load(writer, device=device, options=Options(fuse=fuse)) as program:
        return await program.forward(*inputs)


@contextmanager
def temporary_op(name: str, signature: str, **definition: Any) -> Iterator[None]:
    """An operator that exists only inside of the `with` block."""
    needed: dict[str, Any] = dict.fromkeys(("shape", "lower", "reference"), _unused)
    registry.register(name, signature, **(needed | definition))
    try:
        yield
    finally:
        del registry._REGISTRY[name]


def _unused(_args: Any) -> Any:
    raise AssertionError("this test does not expect the op to get here")


def chain(
    length: int,
    *,
    dims: tuple[int, ...] = (4,),
    op: str = "aten.relu.default",
    dtype: str = "float32",
) -> GraphWriter:
    """Write input -> op -> op -> ... -> output."""
    g = GraphWriter()
    value = x = g.tensor(dims, dtype)
    for _ in range(length):
        value = g.op(op, value, g.tensor(dims, dtype))
    g.inputs(x)
    g.outputs(value)
    return g


def remembering(positions: int = 4) -> bytes:
    """Write a program: writes (1, 1, 1, 2) to a cache of ones; returns cache + weights."""
    g = GraphWriter()
    shape = (1, positions, 1, 2)
    x, position, pos = g.tensor((1, 1, 1, 2)), g.tensor((1,), "int64"), g.symint(0)
    g.op("et_vk.select_as_symint.default", position, g.int(0), g.int(0), pos)
    cache = g.prepack(g.tensor(shape, constant=np.ones(shape, np.float32)))
    weights = g.prepack(g.tensor((2,), constant=np.array([10, 20], np.float32)))
    g.op("llama.update_cache.default", x, cache, pos, g.tensor((1,)))
    g.inputs(x, position)
    g.outputs(g.op("aten.add.Tensor", cache, weights, g.int(1), g.tensor(shape)))
    return write_pte(g)

"""Counts of dispatches in decode of real exports, and of dispatches that wait for another."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import webpte
from support.graphs.fusion_graphs import llama_layers
from support.graphs.graphs import build_graph, make_planner, wait
from support.graphs.step_chains import longest_chain
from support.write import pack_suite
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.engine.ops.core.target import Target
from webpte.engine.rewrite.fusion import fuse
from webpte_host.base.layout import ROOT


async def decode(program: bytes, fuse: bool) -> tuple[int, int]:
    """Dispatches of one step, and the longest chain of them."""
    device = SimulatedDevice()
    device.info = replace(device.info, limits={"maxStorageBuffersPerShaderStage": 10})
    async with await webpte.load(
        program, device=device, options=webpte.Options(fuse=fuse)
    ) as loaded:
        await loaded.forward(np.zeros((1, 1), np.int64), np.zeros(1, np.int64))
        (commands,) = [c for c in device.plans.values() if len(c.dispatches) > 1][-1:]
        assert len(commands.dispatches) == loaded.stats.dispatches
        return len(commands.dispatches), longest_chain(commands, device.pipelines)


@pytest.mark.parametrize(
    ("name", "plain", "fused"),
    [
        ("llama_tiny_q4", (40, 34), (15, 13)),
        ("llama_tiny_fp32", (40, 34), (17, 15)),
        ("llama_tiny_8da4w", (49, 43), (17, 15)),
    ],
)
def test_llamas(name: str, plain: tuple[int, int], fused: tuple[int, int]) -> None:
    with pack_suite.unpacked(ROOT / "tests" / "suites" / "models.zip") as folder:
        program = (folder / f"{name}.pte").read_bytes()
    assert (wait(decode(program, fuse=False)), wait(decode(program, fuse=True))) == (plain, fused)


def test_a_layer_of_a_billion_parameters() -> None:
    """Graph with the sizes of the 1B Llama: six dispatches, each waiting for its predecessor."""
    graph = fuse(build_graph(llama_layers(1)))
    planner, _ = make_planner(graph, Target(storage_buffers=10))
    planner.lower_all()
    assert [dispatch.kernel for dispatch in planner.dispatches()] == [
        *("gemv_q4_qkv", "attention_flash_split_rope", "attention_flash_reduce"),
        *("gemv_q4", "gemv_q4_gated", "gemv_q4"),
    ]

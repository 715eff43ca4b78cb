"""How many dispatches real exports come to in decode, and how many of them wait for each other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import webpte
from support import pack_suite
from support.chains import longest_chain
from support.fusion_graphs import Net
from support.graphs import build_graph, make_planner, wait
from webpte.fusion import fuse
from webpte.gpu.recording import RecordingDevice
from webpte.ops.target import Target
from webpte_host.layout import ROOT


async def decode(program: bytes, fuse: bool) -> tuple[int, int]:
    """Dispatches of one step, and the longest chain of them."""
    device = RecordingDevice()
    device.info = replace(device.info, limits={"maxStorageBuffersPerShaderStage": 10})
    async with await webpte.load(program, device=device, fuse=fuse) as loaded:
        await loaded.forward(np.zeros((1, 1), np.int64), np.zeros(1, np.int64))
        (commands,) = [c for c in device.plans.values() if len(c.dispatches) > 1][-1:]
        assert len(commands.dispatches) == loaded.stats.dispatches
        return len(commands.dispatches), longest_chain(commands, device.pipelines)


@pytest.mark.parametrize(
    ("name", "plain", "fused"),
    [
        ("llama_tiny_q4", (40, 34), (17, 15)),
        ("llama_tiny_fp32", (40, 34), (36, 30)),
        ("llama_tiny_8da4w", (49, 43), (45, 37)),
    ],
)
def test_llamas(name: str, plain: tuple[int, int], fused: tuple[int, int]) -> None:
    with pack_suite.unpacked(ROOT / "tests" / "suites" / "models.zip") as folder:
        program = (folder / f"{name}.pte").read_bytes()
    assert (wait(decode(program, fuse=False)), wait(decode(program, fuse=True))) == (plain, fused)


class Zeros(Net):
    """Weights that take no time to make."""

    def codes(self, *dims: int) -> np.ndarray:
        return np.zeros(dims, np.uint8)

    def floats(self, *dims: int) -> np.ndarray:
        return np.zeros(dims, np.float32)


def test_a_layer_of_a_billion_parameters() -> None:
    """Sizes alone, as the 1B Llama has them: six dispatches, each waiting for the one before."""
    heads, key_heads, size, inner, hidden = 32, 8, 64, 2048, 8192
    net = Zeros()
    g = net.g
    x, place = g.tensor((1, 1, inner)), g.symint()
    h = net.norm(x)
    shapes = [(1, 1, n, size) for n in (heads, key_heads, key_heads)]
    q, k, v = (net.view(net.linear(h, dims[2] * size), *dims) for dims in shapes)
    turned = [g.tensor(dims) for dims in shapes[:2]]
    tables = [g.tensor((1, size // 2)) for _ in range(2)]
    g.op("et_vk.apply_rotary_emb.default", q, k, *tables, g.value_list(turned))
    caches = [net.constant(net.floats(1, 2304, key_heads, size)) for _ in range(2)]
    rest = (place, g.int(1), g.null(), g.int(0), g.bool_(True), g.null())
    out = g.tensor(shapes[0])
    g.op("sdpa_with_kv_cache.default", *turned, v, *caches, *rest, out)
    y = net.add(x, net.linear(net.view(out, 1, 1, inner), inner))
    g.inputs(x, place, *tables)
    g.outputs(net.add(y, net.linear(net.swiglu(net.norm(y), hidden), inner)))
    graph = fuse(build_graph(g))
    planner, _ = make_planner(graph, Target(storage_buffers=10))
    planner.lower_all()
    assert [dispatch.kernel for dispatch in planner.dispatches()] == [
        *("linear_q4_joined", "attention_rope", "attention_merge"),
        *("linear_q4_vector", "linear_q4_gated", "linear_q4_vector"),
    ]

"""The integers of fixed_point.wgsl and threefry.wgsl equal Python's, bit by bit."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import numpy as np
import pytest

from support.cases.cases import Array
from support.devices.native import need_native
from support.graphs.graphs import build_graph, temporary_op
from support.write.pte_writer import GraphWriter
from webpte.engine.gpu.native.device import NativeDevice
from webpte.engine.ops.core.args import Args
from webpte.engine.ops.core.fixed_point import (
    log2_of_wait,
    mul_hi,
    negative_log2,
    negative_power,
    threefry,
)
from webpte.engine.ops.core.records import Dispatch, ceil_div, pack
from webpte.engine.plan.shaders import ShaderLibrary, shader_folder
from webpte.engine.run.delegate import GpuDelegate
from webpte.engine.run.request import RunRequest

KERNEL = """
// use lib/fixed_point.wgsl
// use lib/sampling/threefry.wgsl

@group(0) @binding(0) var<storage, read> words: array<u32>;
@group(0) @binding(1) var<storage, read_write> results: array<u32>;
@group(0) @binding(2) var<uniform> params: vec4u;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) invocation: vec3u) {
    let i = invocation.x;
    if (i >= params.x) {
        return;
    }
    let n = words[i];
    results[i] = mul_hi(n, words[params.x - 1u - i]);
    results[params.x + i] = negative_log2(max(n, 1u));
    results[2u * params.x + i] = bitcast<u32>(log2_of_wait(n | 1u));
    results[3u * params.x + i] = negative_power(n >> 1u);
    results[4u * params.x + i] = threefry(vec2u(n, 7u), vec2u(5u, i)).x;
}
"""


def words() -> Array:
    powers = 2 ** np.arange(33)
    around = np.concatenate([powers - 1, powers, powers + 1, 2**32 - powers, np.arange(2000)])
    some = np.random.default_rng(2).integers(0, 2**32, 50_000)
    every = np.concatenate([around, 2**32 - 1 - around, some])
    return every[(every >= 0) & (every < 2**32)].astype(np.uint64)


def lower(args: Args) -> list[Dispatch]:
    n = args.tensor("x")
    grid = (ceil_div(n.numel, 64), 1, 1)
    return [Dispatch("probe", (n.id, args.out.id), pack("4I", n.numel, 0, 0, 0), grid)]


async def computed(folder: Path, n: Array) -> Array:
    g = GraphWriter()
    x, out = g.tensor(n.shape, "int32"), g.tensor((5, n.size), "int32")
    g.op("test.probe", x, out)
    g.inputs(x)
    g.outputs(out)
    graph = await asyncio.to_thread(build_graph, g)
    device = await NativeDevice.create()
    delegate = await GpuDelegate.create(graph, device, ShaderLibrary(folder))
    (results,) = await delegate.run(RunRequest([n.astype(np.uint32).view(np.int32)]))
    return np.asarray(results)


@pytest.fixture
def library(tmp_path: Path) -> Path:
    need_native()
    shutil.copytree(shader_folder() / "lib", tmp_path / "lib")
    (tmp_path / "probe.wgsl").write_text(KERNEL, encoding="utf-8")
    return tmp_path


def test_every_bit(library: Path) -> None:
    n = words()
    with temporary_op(
        "test.probe",
        "x: tensor -> tensor",
        shape=lambda args: ((5, args.tensor("x").numel),),
        lower=lower,
    ):
        products, logs, waits, powers, chances = asyncio.run(computed(library, n))
    assert np.array_equal(products.view(np.uint32), mul_hi(n, n[::-1]))
    assert np.array_equal(logs.view(np.uint32), negative_log2(np.maximum(n, np.uint64(1))))
    assert np.array_equal(waits, log2_of_wait(n))
    assert np.array_equal(powers.view(np.uint32), negative_power(n >> np.uint64(1)))
    alone = [int(threefry((int(w), 7), 5, np.array([i]))[0]) for i, w in enumerate(n[:3000])]
    assert chances.view(np.uint32)[:3000].tolist() == alone

"""Classes of adapters: which row an adapter falls into, and what kernels make of it."""

from __future__ import annotations

import pytest

from support.cases.attention.attention_programs import CacheCase
from support.cases.conv.conv_cases import conv
from support.cases.reduce.reduce_cases import REDUCE_CASES
from support.graphs.graphs import make_planner, read_graph
from webpte.engine.gpu.device_info import DeviceInfo
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.engine.ops.core.adapter_classes import CLASSES, LARGE, UNKNOWN
from webpte.engine.ops.core.records import Dispatch
from webpte.engine.ops.core.target import GPU, Target
from webpte.engine.ops.gemm.gemm_small import default_small_tile
from webpte.engine.ops.gemm.lib.gemm import Gemm, config_label, tuned_tile_config

H200 = DeviceInfo("webgpu", "nvidia", "hopper", "NVIDIA H200")
MANY_BYTES = {"maxBufferSize": 2 << 30}
VULKAN_NVIDIA = {"maxComputeWorkgroupStorageSize": 49152}


@pytest.mark.parametrize(
    ("names", "limits", "wanted"),
    [
        (("nvidia", "hopper", "NVIDIA H200"), MANY_BYTES, "NVIDIA"),
        (("nvidia", "", ""), {}, "NVIDIA"),
        (("nvidia", "lovelace", ""), {}, "NVIDIA GeForce"),
        (("nvidia", "", "NVIDIA GeForce RTX 5070"), {}, "NVIDIA GeForce"),
        (("amd", "rdna-3", ""), {}, "AMD"),
        (("amd", "gcn-5", "AMD Radeon(TM) Graphics"), {}, "AMD integrated"),
        (("intel", "xe-2-hpg", ""), {}, "Intel Arc"),
        (("intel", "", "Intel(R) Arc(TM) A770 Graphics"), {}, "Intel Arc"),
        (("intel", "", "Intel(R) Arc(TM) Graphics"), {}, "Intel integrated"),
        (("Apple", "metal-3", ""), {}, "Apple"),
        (("qualcomm", "adreno-7xx", ""), {}, "Qualcomm Adreno"),
        (("arm", "valhall", ""), {}, "Arm Mali"),
        (("samsung", "rdna-2", ""), {}, "Samsung Xclipse"),
        (("img-tec", "", ""), {}, "Imagination"),
        (("google", "swiftshader", ""), MANY_BYTES, "CPU"),
        (("mesa", "", "llvmpipe (LLVM 15.0.6, 128 bits)"), MANY_BYTES, "CPU"),
        (("", "", ""), {"maxBufferSize": 256 << 20}, "Phone"),
        (("", "", ""), MANY_BYTES, "Unknown"),
        (("novel", "first", "Novel GPU"), {}, "Unknown"),
        # Firefox names no vendor; the description is then what WebGL calls the GPU.
        (("", "", "NVIDIA GeForce GTX 980, or similar"), MANY_BYTES, "NVIDIA GeForce"),
        (("", "", "ANGLE (AMD, Radeon R9 200 Series Direct3D11), or similar"), {}, "AMD"),
        (("", "", "Intel(R) HD Graphics, or similar"), MANY_BYTES, "Intel integrated"),
        (("", "", "Apple M1, or similar"), MANY_BYTES, "Apple"),
        (("", "", "Adreno (TM) 650, or similar"), MANY_BYTES, "Qualcomm Adreno"),
        (("", "", "Mali-G78, or similar"), MANY_BYTES, "Arm Mali"),
        (("", "", ""), MANY_BYTES | VULKAN_NVIDIA, "NVIDIA, by its limits"),
        (("amd", "", ""), MANY_BYTES | VULKAN_NVIDIA, "AMD"),
    ],
)
def test_an_adapter_falls_into_a_class(
    names: tuple[str, str, str], limits: dict[str, int], wanted: str
) -> None:
    assert DeviceInfo("webgpu", *names, limits=limits).target.adapter.name == wanted


def test_a_stand_in_plans_like_the_measured_gpu() -> None:
    assert SimulatedDevice().info.adapter_class.cores == LARGE.cores


def test_every_row_can_be_reached() -> None:
    for row in CLASSES:
        words = row.words or ("",)
        assert all(DeviceInfo("webgpu", row.vendor, w).adapter_class is row for w in words)


def test_numbers_on_the_measured_gpu_are_as_measured() -> None:
    adapter = H200.target.adapter
    assert (adapter.cores, adapter.threads, adapter.speed) == (132, 40000, 1.0)
    assert (adapter.bandwidth, adapter.dispatch, adapter.measured) == (3000, 3.0, True)
    assert [adapter.workgroups(count) for count in range(1, 40000)] == [*range(1, 40000)]
    assert adapter is LARGE is GPU.adapter


@pytest.mark.parametrize(
    ("m", "n", "k", "tiles", "small"),
    [
        (17, 64, 2048, "32x32/64 k/16", "16x16/1"),
        (64, 333, 8192, "64x64/64 k/64", "16x16/1"),
        (128, 2048, 2048, "128x128/256 k/8", "32x32/2"),
        (128, 1024, 1024, "64x64/64 k/8", "16x16/1"),
        (512, 512, 4096, "128x128/256 k/16", "32x32/2"),
        (2047, 8192, 2048, "128x128/256 k/1", "32x32/2"),
        (64, 2048, 512, "32x32/64 k/4", "16x16/1"),
    ],
)
def test_products_on_the_measured_gpu_have_the_tiles_that_were_measured(
    m: int, n: int, k: int, tiles: str, small: str
) -> None:
    gemm = Gemm(m, n, k)
    assert config_label(tuned_tile_config("matmul", gemm, H200.target)) == tiles
    assert default_small_tile(gemm, True, H200.target).label == small


def lowered(program: bytes, target: Target) -> list[Dispatch]:
    planner, _ = make_planner(read_graph(program), target)
    planner.lower_all()
    return list(planner.dispatches())


PROGRAMS = {
    "attention": CacheCase(32, 8, 64, [(1, 2000)], positions=2304).program(),
    "conv": conv((1, 64, 14, 14), (64, 64, 3, 3)).program(),
    "reduce": max(REDUCE_CASES, key=lambda case: case.steps[0][0].size).program(),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_plans_for_the_measured_gpu_are_the_default(name: str) -> None:
    assert lowered(PROGRAMS[name], H200.target) == lowered(PROGRAMS[name], GPU)


def splits(adapter_vendor: str) -> int:
    target = DeviceInfo("webgpu", adapter_vendor).target
    first, *_ = lowered(PROGRAMS["attention"], target)
    return first.grid[0] * first.grid[1]


def test_a_small_gpu_gets_fewer_and_larger_parts() -> None:
    assert splits("arm") < splits("unheard of") < splits("nvidia")
    phone = DeviceInfo("webgpu", "arm").target
    for gemm in (Gemm(128, 1024, 1024), Gemm(64, 333, 8192)):
        (small, few), (_, many) = (
            tuned_tile_config("matmul", gemm, target) for target in (phone, GPU)
        )
        assert few < many
        assert small.rows >= 64
    windows = lowered(PROGRAMS["conv"], phone)
    assert [each.kernel for each in windows] == ["conv_window"]
    assert lowered(PROGRAMS["conv"], GPU)[0].kernel != "conv_window"


def test_numbers_of_an_unknown_gpu_are_in_the_middle() -> None:
    counts = sorted(row.cores for row in CLASSES)
    assert counts[0] < UNKNOWN.cores < counts[-1]

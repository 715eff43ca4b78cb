"""Timing of kernels: reading the list, bytes and FLOPs, and nothing left on the device."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from support.graphs.graphs import make_planner, wait
from support.harness.every import check_every
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.engine.ops.core.target import Target
from webpte.errors import DeviceError, GraphError, UnsupportedOpError, WebpteError
from webpte.inspection import kernel_rates
from webpte.inspection.kernel_rates import BenchCall, Limits, TimeBudget
from webpte_export.suites import kernel_bench
from webpte_host.base.errors import HostError
from webpte_host.commands import bench, kernel_table

# Three runs, each after a few others, also on a slow machine.
QUICK = TimeBudget(warm_ms=0, runs=3, most_ms=math.inf, busy_ms=0.005)
SMALL = Limits(64, 8)
BUILT_IN = kernel_bench.read_calls(kernel_table.read_list(kernel_table.BUILT_IN))


def tensor(*dims: int, **more: Any) -> dict[str, Any]:
    return {"tensor": list(dims), **more}


def call(op: str, *args: Any, **more: Any) -> BenchCall:
    (found,) = kernel_bench.read_calls([{"op": op, "args": list(args), **more}])
    return found


def mm(m: int = 2, k: int = 3, n: int = 5) -> BenchCall:
    return call("aten.mm.default", tensor(m, k), tensor(k, n, constant=True))


def recording(**options: Any) -> SimulatedDevice:
    return SimulatedDevice(features=("timestamp-query",), **options)


@pytest.mark.parametrize("software", [False, True])
def test_every_kernel_of_the_built_in_list_lowers(software: bool) -> None:
    def check(kernel: BenchCall) -> None:
        planner, _ = make_planner(kernel.graph, Target(software))
        planner.lower_all()
        assert planner.dispatches()
        assert kernel_rates.flops_of(kernel)

    check_every(BUILT_IN, check, lambda kernel: kernel.name)


def test_names_of_the_built_in_list_are_unique() -> None:
    assert len({kernel.name for kernel in BUILT_IN}) == len(BUILT_IN) > 20


def test_a_filter_keeps_what_matches() -> None:
    entries = kernel_table.read_list(kernel_table.BUILT_IN)
    found = [kernel.name for kernel in kernel_bench.read_calls(entries, "conv*")]
    assert found == [kernel.name for kernel in BUILT_IN if kernel.name.startswith("conv")]


def test_a_name_tells_the_shapes() -> None:
    assert mm().name == "aten.mm.default 2x3 3x5"


def attention(op: str, tokens: int, positions: int, at: int) -> BenchCall:
    caches = [tensor(1, positions, 2, 8, constant=True)] * 2
    return call(op, tensor(1, tokens, 4, 8), *caches, at, None, 0, True, None)


CONV = ([2, 2], [1, 1], [1, 1])

COUNTS = [
    (mm(), 4 * (6 + 15 + 10), 2 * 2 * 3 * 5),
    (call("aten.relu.default", tensor(7)), 2 * 4 * 7, 7),
    (call("aten.view_copy.default", tensor(6), [2, 3]), 2 * 4 * 6, None),
    (
        call(
            "aten.convolution.default",
            *(tensor(1, 4, 8, 8), tensor(6, 2, 3, 3), None, *CONV, False, [0, 0], 2),
        ),
        4 * (256 + 108 + 96),
        2 * 96 * 2 * 9,
    ),
    (
        call(
            "aten.convolution.default",
            *(tensor(1, 4, 8, 8), tensor(4, 6, 3, 3), None, *CONV, True, [0, 0], 1),
        ),
        4 * (256 + 216 + 6 * 15 * 15),
        2 * 256 * 6 * 9,
    ),
    (
        attention("custom_sdpa.default", 3, 16, 10),
        4 * (2 * 96 + 2 * 256),
        4 * 3 * 13 * 8 * 4,
    ),
    (
        call("et_vk.sdpa.default", tensor(4, 3, 8), tensor(2, 5, 8), tensor(2, 5, 8)),
        4 * (2 * 96 + 2 * 80),
        4 * 3 * 5 * 8 * 4,
    ),
    (
        call(  # the sums of the weights are not read
            "et_vk.q8ta_linear.default",
            *(tensor(2, 8, dtype="int8"), 0.1, 0, tensor(4, 8, dtype="int8"), tensor(4), tensor(4)),
            *(0.1, 0, None, "none"),
        ),
        16 + 32 + 16 + 8,
        2 * 2 * 8 * 4,
    ),
]


@pytest.mark.parametrize(("kernel", "nbytes", "flops"), COUNTS, ids=lambda x: getattr(x, "name", x))
def test_what_is_counted(kernel: BenchCall, nbytes: int, flops: int | None) -> None:
    assert kernel_rates.bytes_of(kernel) == nbytes
    assert kernel_rates.flops_of(kernel) == flops


def test_half_floats_have_the_size_that_the_gpu_stores() -> None:
    kernel = call("aten.relu.default", tensor(8, dtype="float16"))
    assert kernel_rates.bytes_of(kernel) == 2 * 8 * 4
    assert kernel_rates.bytes_of(kernel, halves=True) == 2 * 8 * 2


def test_figures() -> None:
    device = recording()
    norm = call("aten.native_layer_norm.default", tensor(2, 4), [4], None, None, 1e-5)
    figures = wait(kernel_bench.figures_of(device, [mm(), norm], QUICK, SMALL))
    assert figures["limits"] == {"copy_gbps": 2 * 4 * 64 / 1e3, "gflops": 2 * 8**3 / 1e3}
    product, layer_norm = figures["rows"]
    assert product["us"] == product["dispatches"] == 1  # a microsecond per dispatch
    assert product["gbps"] == product["bytes"] / 1e3
    assert product["gflops"] == product["flops"] / 1e3
    assert layer_norm["us"] == 1
    assert sum(name == "profile" for name, _ in device.log) == 4 * (1 + QUICK.runs)
    assert not device.buffers
    assert not device.plans


def test_a_cache_is_put_back_after_every_run() -> None:
    caches = [tensor(1, 4, 2, 8, constant=True)] * 2
    fresh = [tensor(1, 1, 2, 8)] * 2
    kernel = call(
        "sdpa_with_kv_cache.default",
        *(tensor(1, 1, 4, 8), *fresh, *caches, 3, 1, None, 0, True, None),
    )
    device = recording()
    row = wait(kernel_rates.measure(device, kernel, QUICK))
    assert row["us"] == row["dispatches"] > 0
    steps = [name for name, _ in device.log if name in ("profile", "copy")]
    assert steps == ["copy", "profile", "copy"] * (1 + QUICK.runs)


def test_what_is_too_large_is_a_row() -> None:
    device = recording(memory_limit=80_000)
    rows = wait(kernel_bench.figures_of(device, [mm(64, 64, 64), mm()], QUICK, SMALL))["rows"]
    assert "error" in rows[0]
    assert rows[1]["us"] == 1


def test_a_gpu_without_a_clock() -> None:
    with pytest.raises(DeviceError, match="timestamps"):
        wait(kernel_bench.figures_of(SimulatedDevice(), [mm()], QUICK, SMALL))


BAD = [
    ({}, GraphError, "a JSON array"),
    ([5], GraphError, "kernel 0: .*5"),
    ([{"op": "aten.nothing.default", "name": "it"}], UnsupportedOpError, r"kernel 0 \(it\)"),
    ([{"op": "aten.relu.default", "name": "it", "arg": []}], GraphError, r"\(it\): what is arg"),
    ([{"op": "aten.relu.default", "name": "it", "args": 3}], GraphError, r"\(it\): .*args"),
    ([{"op": "aten.relu.default", "name": "it"}], GraphError, r"\(it\)"),
    ([{"op": "aten.relu.default", "args": [{"tensor": [-1]}]}], GraphError, "not a shape"),
    ([{"op": "aten.relu.default", "args": [{"tensor": [1.5]}]}], GraphError, "not a shape"),
    ([{"op": "aten.relu.default", "args": [{"shape": [1]}]}], GraphError, "not a tensor"),
    ([{"op": "aten.relu.default", "args": [tensor(1, dtype="f8")]}], GraphError, "'f8'"),
    ([{"op": "aten.relu.default", "args": [[{}]]}], GraphError, "kernel 0"),
    ([{"op": "aten.mm.default", "args": [tensor(2, 3)] * 2}], GraphError, "cannot be multiplied"),
    ([{"op": "sym_size.int", "args": [tensor(2), 0]}], GraphError, "runs no kernel"),
    (
        [
            {
                "op": "et_vk.embedding_q4gsw.default",
                "args": [tensor(4, 2, dtype="uint8"), tensor(4, 1), 4, tensor(3, dtype="int32")],
            }
        ],
        GraphError,
        'kernel 0 .*say "out"',
    ),
]


@pytest.mark.parametrize(("entries", "error", "message"), BAD)
def test_a_bad_list_says_where(entries: Any, error: type[WebpteError], message: str) -> None:
    with pytest.raises(error, match=message):
        kernel_bench.read_calls(entries)


def test_outputs_that_no_argument_tells() -> None:
    entry = {"op": "aten.argmax.default", "args": [tensor(4, 2), -1, False]}
    with pytest.raises(GraphError, match="indices are int32"):
        kernel_bench.read_calls([entry])
    (kernel,) = kernel_bench.read_calls([{**entry, "out": tensor(4, dtype="int32")}])
    assert wait(kernel_rates.measure(recording(), kernel, QUICK))["us"] >= 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--kernels", "--device", "webgpu"], "runs natively"),
        (["--kernels", "--pipelines"], "no --pipelines"),
        ([], "or --kernels"),
    ],
)
def test_a_command_that_means_nothing(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        bench.main(arguments)
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("text", [None, "[1,"])
def test_a_file_that_is_no_list(text: str | None, tmp_path: Path) -> None:
    path = tmp_path / "list.json"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(HostError, match=r"list\.json"):
        kernel_table.read_list(path)


def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    device = recording(memory_limit=80_000)
    alias = call("aten.view_copy.default", tensor(6), [2, 3], name="alias")
    kernels = [mm(), alias, mm(64, 64, 64)]
    kernel_table.show(wait(kernel_bench.figures_of(device, kernels, QUICK, SMALL)))
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "limits: copy 0.512 GB/s, GEMM 1.02 GFLOP/s"
    assert lines[2].split()[:4] == ["kernel", "time", "MB", "GB/s"]
    assert "24.2%" in lines[3]  # 124 of 512 bytes
    assert "5.9%" in lines[3]  # 60 of 1,024 FLOPs
    assert lines[4].startswith("alias")
    assert lines[5].startswith("aten.mm.default 64x64 64x64  ")
    assert "80000" in lines[5]

"""`serve.py bench`: its output, and the arguments that it refuses."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import webpte
from support.graphs.graphs import chain
from support.write.pte_writer import write_pte
from webpte.engine.gpu.device_info import DeviceInfo
from webpte.errors import InputError
from webpte.llm.bench import figures_of
from webpte_host.base.errors import HostError
from webpte_host.commands import bench
from webpte_host.setup import environment


def figures(info: DeviceInfo) -> dict[str, Any]:
    row = {"ms": 1.5, "first_ms": 20.0, "parts": {"wait": 1.0}, "gpu_ms": None, "kernels": []}
    return {"adapter": vars(info), "load_ms": {"read": 3.0}, "forward": row}


@pytest.mark.parametrize(
    ("info", "line"),
    [
        (
            DeviceInfo("webgpu", waiting="scope", waiting_ms={"plain": 2.98, "scope": 0.7}),
            "waiting: scope (plain 2.98 ms, scope 0.70 ms)",
        ),
        (DeviceInfo("webgpu", software=True), "waiting: plain (not measured)"),
        (DeviceInfo("native"), None),
    ],
)
def test_how_results_are_waited_for(
    info: DeviceInfo, line: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    bench._show(figures(info))
    shown = capsys.readouterr().out.splitlines()
    assert [row for row in shown if row.startswith("waiting")] == ([line] if line else [])


@pytest.mark.parametrize("other", [["--kernels"], ["--pipelines"], ["--device", "native"]])
def test_waiting_is_for_browsers(
    other: list[str], root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = [] if other == ["--kernels"] else [str(root / "web" / "samples" / "add.pte")]
    with pytest.raises(SystemExit):
        bench.main([*program, *other, "--waiting", "plain"])
    assert "--waiting is for programs that run in a browser" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("variant", "message"),
    [
        ("fuse,f16", "only one variant at a time"),
        ("all", "only one variant at a time"),
        ("speed", "there is no variant 'speed'"),
        ("fuse", "--options is for programs that run"),
    ],
)
def test_variants_that_cannot_be_timed(
    variant: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        bench.main(["--kernels", "--options", variant])
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("asked", [["--kv-cache", "int8"], ["--max-context", "64"]])
@pytest.mark.parametrize("other", [["--kernels"], ["--pipelines"]])
def test_the_cache_is_for_programs_that_run(
    other: list[str], asked: list[str], root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = [] if other == ["--kernels"] else [str(root / "web" / "samples" / "add.pte")]
    with pytest.raises(SystemExit):
        bench.main([*program, *other, *asked])
    assert "are for programs that run" in capsys.readouterr().err


@pytest.mark.parametrize("given", ["many", "128,x", "0", "-3"])
def test_lengths_of_prompts_are_numbers(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        bench.main(["model.pte", f"--prefill={given}"])
    assert "is not a list of lengths such as 128,512" in capsys.readouterr().err
    assert bench._lengths("128,512,") == [128, 512]


def test_figures_that_cannot_be_written(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "inside", lambda: True)
    monkeypatch.setattr(bench, "_run_native", lambda _: figures(DeviceInfo("native")))
    program = str(root / "web" / "samples" / "add.pte")
    with pytest.raises(HostError, match="cannot be written to"):
        bench.main([program, "--device", "native", "--json", str(tmp_path / "no" / "file.json")])


def test_methods_that_a_program_lacks_are_named() -> None:
    async def run() -> None:
        methods = {"encoder": chain(2), "decoder": chain(3)}
        async with await webpte.load(write_pte(methods=methods), device="numpy") as program:
            with pytest.raises(InputError, match="'forward': name one of encoder, decoder"):
                await figures_of(program, "forward", 1, [], 1)

    asyncio.run(run())

"""`verify --options`: the variants for an adapter, and the options that each variant changes."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.devices.plain_matrices import with_matrices
from support.devices.recorded import ADD, RELU
from support.graphs.graphs import wait
from support.write.pte_writer import GraphWriter, write_pte
from webpte import DeviceInfo
from webpte.engine.call.options import DeveloperOptions
from webpte.engine.gpu.device import PlanRun
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte_export.suites.variants import (
    AS_CHOSEN,
    NAMES,
    Variant,
    VariantRuns,
    unknown_names,
    variants_of,
)
from webpte_host.commands import bench, verify
from webpte_host.setup import environment

FULL = replace(with_matrices(DeviceInfo("webgpu")), prefers_subgroup_matrices=False)
FULL = replace(FULL, choices=(("a question", "a label"),))
BARE = DeviceInfo("webgpu", software=True)


def test_every_variant_of_a_gpu_that_has_everything() -> None:
    assert variants_of(["all"], FULL) == [
        Variant(AS_CHOSEN),
        Variant("without fusion", DeveloperOptions(fuse=False)),
        Variant("without f16", DeveloperOptions(f16=False)),
        Variant("with subgroup matrices", DeveloperOptions(subgroup_matrices=True)),
        Variant("plain kernels", DeveloperOptions(plain=True)),
        Variant("without tuning", DeveloperOptions(tuned=False)),
        Variant("as on a phone", DeveloperOptions(phone=True)),
    ]


def test_what_an_adapter_does_not_have_is_said() -> None:
    missing = {path.label: path.missing for path in variants_of(["all"], BARE)}
    assert missing == {
        AS_CHOSEN: "",
        "without fusion": "",
        "without f16": "not there: this adapter has no shader-f16",
        "with subgroup matrices": "not there: this adapter has no subgroup matrices of f16",
        "a GPU's kernels": "left out: they can take minutes to compile here; "
        "ask for it by name: plain",
        "without tuning": "not there: nothing was tuned on this adapter",
        "as on a phone": "",
    }
    assert variants_of(["plain"], BARE)[1].missing == ""


def test_several_variants_at_once() -> None:
    (_, both) = variants_of(["plain+subgroup_matrices"], FULL)
    options = DeveloperOptions(subgroup_matrices=True, plain=True)
    assert both == Variant("plain kernels, with subgroup matrices", options)
    for name in ("subgroup_matrices+f16", "f16+subgroup_matrices"):  # matrices need f16
        assert "no subgroup matrices" in variants_of([name], FULL)[1].missing
    assert variants_of(["fuse+f16"], BARE)[1].missing.startswith("not there")
    assert unknown_names([*NAMES, "all", "fuse+speed"]) == ["speed"]


def chain_suite(tmp_path: Path, golden: Sequence[float] = (-1, 4)) -> dict[str, Any]:
    """relu(x) + x of two floats, which is fused."""
    g = GraphWriter()
    x = g.tensor((2,))
    out = g.op(ADD, g.op(RELU, x, g.tensor((2,))), x, g.int(1), g.tensor((2,)))
    g.inputs(x)
    g.outputs(out)
    (tmp_path / "chain.pte").write_bytes(write_pte(g))
    for name, values in (("x", (-1, 2)), ("y", golden)):
        (tmp_path / name).write_bytes(np.array(values, np.float32).tobytes())
    tensor = {"shape": [2], "dtype": "float32"}
    raw = {"op": "chain", "case": "a", "pte": "chain.pte", "atol": 1e-3, "rtol": 1e-3}
    return {**raw, "inputs": [{"path": "x", **tensor}], "golden": {"path": "y", **tensor}}


class OffByALittle(SimulatedDevice):
    """A device whose results depend on the number of pipelines of a plan."""

    async def create_plan(self, commands: Any) -> int:
        plan = await super().create_plan(commands)
        self.many = len(commands.dispatches) > 1
        return plan

    def run(self, run: PlanRun) -> Any:
        running, many = super().run(run), self.many

        async def changed() -> bytes:
            result = np.frombuffer(await running, np.float32)
            return (result * np.float32(1.0005 if many else 1)).tobytes()

        return changed()


@pytest.mark.parametrize(
    ("device", "low", "high"), [(SimulatedDevice, 0, 0), (OffByALittle, 0.4, 0.6)]
)
def test_variants_are_compared_with_what_was_chosen(
    device: type[SimulatedDevice], low: float, high: float, tmp_path: Path
) -> None:
    async def fetch_bytes(path: str) -> bytes:
        return (tmp_path / path).read_bytes()

    entry = chain_suite(tmp_path)
    runs = VariantRuns(fetch_bytes, device())  # type: ignore[arg-type]
    chosen = wait(runs.run(entry, {"label": AS_CHOSEN, "options": {}}))
    single = wait(runs.run(entry, {"label": "without fusion", "options": {"fuse": False}}))
    floats = wait(runs.run(entry, {"label": "without f16", "options": {"f16": False}}))
    assert (chosen["verdict"], chosen["difference"], chosen["other_kernels"]) == (
        "passed",
        None,
        None,
    )
    assert single["error"] is None
    assert low <= single["difference"] <= high
    assert single["other_kernels"] is True
    assert (floats["difference"], floats["other_kernels"]) == (0.0, False)


def test_an_output_may_have_a_tolerance_for_itself(tmp_path: Path) -> None:
    async def fetch_bytes(path: str) -> bytes:
        return (tmp_path / path).read_bytes()

    entry = chain_suite(tmp_path)
    entry["golden"]["atol"] = 1.0
    runs = VariantRuns(fetch_bytes, OffByALittle())  # type: ignore[arg-type]
    wait(runs.run(entry, {"label": AS_CHOSEN, "options": {}}))
    single = wait(runs.run(entry, {"label": "without fusion", "options": {"fuse": False}}))
    assert 0 < single["difference"] < 0.01


class FakeRunner:
    """Two variants, and a third that is missing."""

    def __init__(self, failing: str) -> None:
        self._failing = failing

    def variants(self, asked: Sequence[str]) -> list[dict[str, Any]]:
        assert asked == ("fuse", "f16", "subgroup_matrices")
        missing = {"without f16": "not there: why"}
        labels = (AS_CHOSEN, "without fusion", "without f16")
        return [{"label": x, "options": {}, "missing": missing.get(x, "")} for x in labels]

    def run(self, entry: dict[str, Any], _show: object, variant: dict[str, Any]) -> dict[str, Any]:
        passed, fused = variant["label"] != self._failing, variant["label"] == AS_CHOSEN
        row = {"op": entry["op"], "case": entry["case"], "variant": variant["label"]}
        row |= {"verdict": "passed" if passed else "failed", "error": None if passed else "off"}
        compared = {"difference": None if fused else 0.25, "other_kernels": not fused}
        return {**row, **compared, "outputs": [{"used": 0.5 if fused else 0.75}]}


@pytest.mark.parametrize("failing", ["", "without fusion"])
def test_table(
    failing: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "manifest.json").write_text(json.dumps([chain_suite(tmp_path)]))
    monkeypatch.setattr(environment, "inside", lambda: True)
    monkeypatch.setattr(verify, "PageRunner", lambda *_: FakeContext(FakeRunner(failing)))
    code = verify.main([str(tmp_path), "--options", "fuse,f16,subgroup_matrices"])
    table = [
        "variant         passed  failed    largest error      from chosen  other kernels in",
        "as chosen            1       0  50.00% chain__a",
        "without fusion       1       0  75.00% chain__a  25.00% chain__a      1 of 1 cases",
        "without f16     not there: why",
        "2 passed, 0 failed",
    ]
    if failing:
        table.insert(0, "FAILED chain__a (without fusion): off")
        table[3] = table[3].replace("1       0", "0       1")
        table.insert(5, "DIFFERS chain__a: passed as chosen; failed without fusion")
        table[-1] = "1 passed, 1 failed"
    assert capsys.readouterr().out.splitlines() == table
    assert code == bool(failing)


class FakeContext:
    def __init__(self, runner: FakeRunner) -> None:
        self._runner = runner

    def __enter__(self) -> FakeRunner:
        return self._runner

    def __exit__(self, *_: object) -> None:
        pass


def test_names_are_looked_up_where_there_is_numpy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Start the command with another Python: it restarts itself in its own environment."""
    (tmp_path / "manifest.json").write_text(json.dumps([chain_suite(tmp_path)]))
    monkeypatch.setattr(environment, "inside", lambda: False)
    rerun: list[list[str]] = []
    monkeypatch.setattr(environment, "rerun_inside", lambda given, **_: rerun.append(given))
    monkeypatch.setitem(sys.modules, "webpte_export.suites.variants", None)  # cannot be imported
    of_verify = [str(tmp_path), "--options", "fuse,f16"]
    of_bench = [str(tmp_path / "chain.pte"), "--options", "fuse"]
    verify.main(of_verify)
    bench.main(of_bench)
    assert rerun == [["verify", *of_verify], ["bench", *of_bench]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--options", "speed"], "there is no variant 'speed'; there are fuse, f16"),
        (["--options", "--device", "numpy"], "NumPy has no variants"),
    ],
)
def test_variants_that_cannot_be_asked_for(
    options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        verify.main([str(tmp_path), *options])
    assert message in capsys.readouterr().err

"""The kernels that a GPU gets compile in Firefox, too: naga compiles the pipelines of all programs.

It makes pipelines of the suites, samples and answers, and of a row of each operator: each shader
with one set of constants. With `--all` it makes pipelines of every row, also of half floats, of
programs call by call, and with all constants. A compiler that panics or hangs fails here; in a
browser it takes the tab along, or all tabs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from multiprocessing import get_context

import pytest

from support.cases.tables import every_row, one_row_per_op, usual_rows
from support.devices.naga import NoAdapterError, Spec, make_all
from support.devices.variants import collect, collect_programs, lower, without_results
from support.harness.extent import everything
from webpte.engine.gpu.device import PipelineSpec
from webpte.engine.ops.core.target import GPU
from webpte.engine.plan.shaders import kernel_files, shader_folder

PARTS = ("rows 0", "rows 1", "programs", "others")

MAIN = """
@group(0) @binding(0) var<storage, read_write> output: array<u32>;
@compute @workgroup_size(4)
fn main(@builtin(local_invocation_index) i: u32) {
    HELD away = vec2<u32>(4u, 8u);
    let place = i + away.x;
    words[i] = place;
    workgroupBarrier();
    if (FLAG) { output[i] = words[i]; }
}
"""
SIZED = "override N: u32;\nvar<workgroup> words: array<u32, 2u * N>;\noverride FLAG: bool;\n"
FIXED = "const N = 4u;\nvar<workgroup> words: array<u32, 2u * N>;\noverride FLAG: bool;\n"
WELL = FIXED + MAIN.replace("HELD", "const")
PANICS = SIZED + MAIN.replace("HELD", "const")
REFUSED = FIXED + MAIN.replace("HELD", "let")


def spec_of(label: str, code: str, **overrides: float) -> Spec:
    return {"label": label, "code": code, "bindings": ["write"], "overrides": [*overrides.items()]}


def collect_part(part: str) -> set[PipelineSpec]:
    """Collect the pipelines of a part of all programs on a GPU, in some seconds.

    "others": rows of several sizes, and of each operator one as a software adapter gets it; with
    `--all` also one as half floats.
    """
    with without_results():
        if part == "programs":
            return asyncio.run(collect_programs())
        rows = list(every_row()) if everything() else usual_rows()
        if part.startswith("rows"):
            alone = [row for row in rows if len(row.steps) == 1]
            return lower(alone[int(part[-1]) :: 2], [GPU])
        several = asyncio.run(collect(False, False, [row for row in rows if len(row.steps) > 1]))
        halves = asyncio.run(collect(True, False, one_row_per_op() if everything() else []))
        return several | halves | asyncio.run(collect(False, True, one_row_per_op()))


def distinct(specs: Collection[PipelineSpec]) -> list[Spec]:
    """Keep a pipeline of each code: a compiler ignores labels, and constants seldom matter."""
    ordered = sorted(specs, key=lambda spec: (spec.label, spec.code, spec.overrides))
    found = {(spec.code, spec.overrides if everything() else ()): spec for spec in ordered}
    return [asdict(spec) for spec in found.values()]


def test_naga_takes_every_pipeline() -> None:
    with ProcessPoolExecutor(2, get_context("spawn")) as processes:
        specs = distinct(set[PipelineSpec]().union(*processes.map(collect_part, PARTS)))
    kernels = set(kernel_files(shader_folder()))
    asked = {spec["label"].partition(" ")[0].partition(":")[0] for spec in specs}
    assert kernels == asked
    outcome = make_all(specs)
    print(f"{outcome.made} pipelines made, left out: {dict(outcome.left_out)}")
    assert outcome.failed == []
    assert outcome.made + outcome.left_out.total() == len(specs)
    assert outcome.left_out["naga has no subgroups"] < 20


def test_one_that_panics_or_is_refused_is_told_and_the_others_are_made() -> None:
    specs = [spec_of("well", WELL, FLAG=1), spec_of("panics", PANICS, N=2, FLAG=1)]
    specs += [spec_of("refused", REFUSED, FLAG=1), spec_of("well", WELL, FLAG=0)]
    outcome = make_all(specs)
    assert outcome.made == 2
    panics, refused = sorted(outcome.failed)
    assert panics.startswith("panics with {'N': 2, 'FLAG': 1}: the compiler gave up")
    assert "assertion `left == right` failed" in panics
    assert refused.startswith("refused with {'FLAG': 1}: ")
    assert "Pipeline constant error" in refused


def test_one_that_is_late_is_told() -> None:
    """Here everything is: nobody finds an adapter in so short a time."""
    outcome = make_all([spec_of("well", WELL, FLAG=1)], seconds=0.001)
    assert outcome.failed == ["well with {'FLAG': 1}: not made within 0 s"]


def test_without_an_adapter_nothing_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("VK_DRIVER_FILES", "VK_ICD_FILENAMES"):
        monkeypatch.setenv(name, "/none.json")
    with pytest.raises(NoAdapterError, match="adapter"):
        make_all([spec_of("well", WELL, FLAG=1)])

"""The report of an export: suite, verdict, placement and text."""

from __future__ import annotations

import json
from math import erf
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.harness.samples import add_graph, numbers
from support.write.pte_writer import GraphWriter, MethodWriter, write_pte
from webpte_export.check_export import check_on_numpy, place
from webpte_export.report import HostOp, Report
from webpte_export.suite_writer import Call, Tolerance, write_suite
from webpte_host.commands.suites import read_manifest
from webpte_host.commands.verify import check_entries


def adding_suite(folder: Path, *, wrong: float = 0.0) -> tuple[Path, dict[str, Any]]:
    """Write erf(x + (0, 1, 2)): the sum in a delegate, erf outside of it."""
    method = MethodWriter.of(add_graph())
    out = method.tensor((2, 3))
    method.kernel("aten::erf.out", method.output(0), out, out)
    method.output_values[:] = [out]
    program = folder / "add.pte"
    program.write_bytes(write_pte(method))
    calls = []
    for seed in range(2):
        x = numbers(2, 3) + np.float32(seed)
        y = np.vectorize(erf)(x + np.arange(3)).astype(np.float32) + np.float32(wrong)
        calls.append(Call((x,), (y,)))
    tolerance = Tolerance(1e-4, 1e-4)
    (entry,) = write_suite(folder / "add.suite", program, "add", {"forward": calls}, tolerance)
    return folder / "add.suite", entry


def test_the_suite_is_one_that_verify_takes(tmp_path: Path) -> None:
    suite, entry = adding_suite(tmp_path)
    (read,) = check_entries(read_manifest(suite), suite)
    assert read == entry
    assert (suite / "add.pte").read_bytes() == (tmp_path / "add.pte").read_bytes()
    verdict = check_on_numpy(suite, entry)
    assert verdict.passed, verdict.problem
    assert verdict.max_abs is not None
    assert verdict.max_abs < 1e-5


def test_results_that_are_none_or_nan_keep_their_places(tmp_path: Path) -> None:
    method = MethodWriter.of(add_graph())
    method.output_values[:] = [method.value(None), *method.output_values]
    program = tmp_path / "add.pte"
    program.write_bytes(write_pte(method))
    x = numbers(2, 3)
    x[0, 1] = np.nan
    call = Call((x,), (None, x + np.arange(3, dtype=np.float32)))
    rule = Tolerance(1e-4, 1e-4)
    (entry,) = write_suite(tmp_path / "add.suite", program, "add", {"forward": [call]}, rule)
    assert [golden["output_index"] for golden in entry["steps"][0]["goldens"]] == [1]
    assert entry["equal_nan"] is True
    verdict = check_on_numpy(tmp_path / "add.suite", entry)
    assert verdict.passed, verdict.problem


def test_nan_is_a_difference_where_pytorch_has_none(tmp_path: Path) -> None:
    _, entry = adding_suite(tmp_path)
    assert "equal_nan" not in entry


def test_a_suite_is_made_anew(tmp_path: Path) -> None:
    suite, _ = adding_suite(tmp_path)
    (suite / "left_over.bin").write_bytes(b"old")
    adding_suite(tmp_path)
    assert not (suite / "left_over.bin").exists()


def test_a_difference_is_found_and_reported(tmp_path: Path) -> None:
    suite, entry = adding_suite(tmp_path, wrong=0.25)
    verdict = check_on_numpy(suite, entry)
    assert not verdict.passed
    assert verdict.max_abs == pytest.approx(0.25, abs=1e-4)
    assert "elements differ" in (verdict.problem or "")


def test_where_operators_run_and_why(tmp_path: Path) -> None:
    suite, entry = adding_suite(tmp_path)
    placed = place(suite, entry, {"aten.erf": ("no operator implementation",)})
    assert placed.delegates == 1
    assert placed.gpu_ops["aten.add.Tensor"] == 1
    (op,) = placed.host_ops
    assert (op.op, op.count, op.where) == ("aten::erf.out", 1, "gpu")
    assert op.reasons == ("no operator implementation",)
    assert placed.submissions == 1


def test_a_program_that_no_gpu_would_run_is_reported(tmp_path: Path) -> None:
    """An unknown operator is reported, for NumPy and for a GPU."""
    graph = GraphWriter()
    x = graph.tensor((2, 3))
    graph.inputs(x)
    graph.outputs(graph.op("aten.unheard_of.default", x, graph.tensor((2, 3))))
    program = tmp_path / "m.pte"
    program.write_bytes(write_pte(graph))
    call = Call((numbers(2, 3),), (numbers(2, 3),))
    calls, tolerance = {"forward": [call]}, Tolerance(1e-4, 1e-4)
    (entry,) = write_suite(tmp_path / "m.suite", program, "m", calls, tolerance)
    assert "aten.unheard_of.default" in (check_on_numpy(tmp_path / "m.suite", entry).problem or "")
    placed = place(tmp_path / "m.suite", entry, {})
    assert "UnsupportedOpError" in (placed.problem or "")
    assert (placed.delegates, placed.submissions) == (1, None)


def report(**changes: Any) -> Report:
    facts: dict[str, Any] = {
        "name": "m",
        "program": Path("out/m.pte"),
        "suite": Path("out/m.suite"),
        "program_bytes": 1_500_000,
        "constant_bytes": 1_250_000,
        "seconds": {"torch.export": 1.25, "lowering": 3.0},
        "quantize": "8w",
        "half": True,
        "delegates": 2,
        "gpu_ops": {"aten.mul.Tensor": 1, "aten.add.Tensor": 3},
        "host_ops": (
            HostOp("aten::erf.out", 1, "gpu", ("no operator implementation",)),
            HostOp("aten::topk.values", 2, "host"),
            HostOp("aten::full.out", 1, "load"),
        ),
        "submissions": 1,
        "passed": True,
        "max_abs": 1.5e-6,
        "max_rel": 2.5e-5,
        "problem": None,
        "extra": {"perplexity_8w": 18.02},
    }
    return Report(**{**facts, **changes})


def test_the_text() -> None:
    assert report().text().splitlines() == [
        "out/m.pte: 1.50 MB, of which weights 1.25 MB (8w half)",
        "  in 2 delegates: 4 calls of 2 operators",
        "        3 aten.add.Tensor",
        "        1 aten.mul.Tensor",
        "  outside of delegates:",
        "        1 aten::erf.out (offloaded to the GPU): no operator implementation",
        "        2 aten::topk.values (on the host)",
        "        1 aten::full.out (computed at load)",
        "  submissions to the GPU per call: 1",
        "  on NumPy against PyTorch: largest error 1.50e-06, relative 2.50e-05",
        "  perplexity 8w: 18.02",
        "  torch.export 1.2 s, lowering 3.0 s",
    ]


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"passed": False, "problem": "2 differ"}, "relative 2.50e-05, FAILED: 2 differ"),
        ({"max_abs": None, "problem": "no kernel"}, "against PyTorch: failed: no kernel"),
        ({"delegates": 1}, "  in 1 delegate: 4 calls"),
        ({"quantize": None, "half": False}, "weights 1.25 MB\n"),
    ],
)
def test_lines_that_depend(changes: dict[str, Any], line: str) -> None:
    assert line in report(**changes).text()


def test_the_json_is_written_beside(tmp_path: Path) -> None:
    path = report(program=tmp_path / "m.pte").write()
    assert path == tmp_path / "m.report.json"
    raw = json.loads(path.read_text(encoding="utf-8"))
    assert raw["program"] == "m.pte"
    assert raw["host_ops"][0]["reasons"] == ["no operator implementation"]
    assert raw["extra"] == {"perplexity_8w": 18.02}

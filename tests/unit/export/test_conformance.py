"""The driver of ExecuTorch's tests: the parts that need neither PyTorch nor a checkout."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from webpte_export.conformance.__main__ import main
from webpte_export.conformance.checkout import _TestFinder, modules_under, use_checkout
from webpte_export.conformance.parts import Case
from webpte_export.conformance.runner import Folder, _refuse
from webpte_export.conformance.sample import CaseSelection
from webpte_export.conformance.table import failures, table
from webpte_export.errors import ExportError
from webpte_export.suite_writer import Call, entry_of
from webpte_export.suites.suite import parse_entry


def write(path: Path, content: Any = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = content if isinstance(content, str) else json.dumps(content)
    path.write_text(text, encoding="utf-8")


# The checkout


def test_a_folder_that_is_no_checkout_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"has no backends/test/suite; name a source tree"):
        use_checkout(tmp_path, "test/suite")


def test_tests_come_from_the_checkout_and_the_exporter_does_not(tmp_path: Path) -> None:
    for name in ("test/suite/runner.py", "vulkan/test/tester.py", "vulkan/partitioner/x.py"):
        write(tmp_path / name)
    finder = _TestFinder(tmp_path)

    def origin(name: str) -> str | None:
        found = finder.find_spec(f"executorch.backends.{name}")
        return None if found is None else found.origin

    assert origin("test.suite.runner") == str(tmp_path / "test/suite/runner.py")
    assert origin("vulkan.test.tester") == str(tmp_path / "vulkan/test/tester.py")
    assert origin("vulkan.partitioner.x") is None
    assert origin("testing") is None
    assert finder.find_spec("executorch.exir") is None


def test_modules_are_found_in_folders_too(tmp_path: Path) -> None:
    for name in ("test_b.py", "index/test_a.py", "helper.py"):
        write(tmp_path / "webgpu" / "test" / "ops" / name)
    start = "executorch.backends.webgpu.test.ops"
    assert modules_under(tmp_path, "webgpu.test.ops") == [
        f"{start}.index.test_a",
        f"{start}.test_b",
    ]


# Cases and records


def case(op: str, name: str) -> Case:
    return Case(op, name, lambda: None)


def test_the_id_of_a_case_is_a_file_name() -> None:
    assert case("add", "TestAdd_x[float32-(1, 2)]").id == "add__TestAdd_x_float32_1_2"


def chosen_of(cases: list[Case], *args: Any) -> list[str]:
    return [f"{each.op}{each.name}" for each in CaseSelection(*args).of(cases)]


def test_every_operator_has_its_turn_early() -> None:
    cases = [case("a", "1"), case("a", "2"), case("a", "3"), case("b", "1"), case("b", "2")]
    ordered = chosen_of(cases)
    assert ordered[:2] == ["a1", "b1"]
    assert [name[0] for name in ordered] == ["a", "b", "a", "b", "a"]
    assert sorted(ordered) == ["a1", "a2", "a3", "b1", "b2"]


@pytest.mark.parametrize("flows", [2, 3, 4, 8])
def test_a_part_of_the_cases_is_spread_over_files_and_flows(flows: int) -> None:
    """Each operator has 40 models, and each model stands there in every flow."""
    cases = [case(op, f"{i // flows}_{i % flows}") for op in "abc" for i in range(40 * flows)]
    found = chosen_of(cases, "*", 3 * 3 * flows)
    for op in "abc":
        mine = [name[1:].split("_") for name in found if name[0] == op]
        assert len(mine) == 3 * flows
        assert {flow for _, flow in mine} == {str(flow) for flow in range(flows)}
        models = sorted(int(model) for model, _ in mine)
        assert max(b - a for a, b in itertools.pairwise(models)) <= 40 // flows + 2
    assert chosen_of(cases, "*", 9) == found[:9]
    assert chosen_of(cases, "b__*", 3) == [name for name in found if name[0] == "b"][:3]


def test_a_manifest_has_the_programs_and_a_list_what_was_refused(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    write(folder.record(case("a", "x")), {"entries": [{"op": "a"}, {"op": "a2"}], "refused": None})
    write(folder.record(case("b", "x")), {"entries": [], "refused": "ValueError: no"})
    write(folder.record(case("c", "x")), {"entries": [{"op": "c"}], "refused": "one of two"})
    assert folder.write_manifest() == (3, 1)
    manifest = json.loads((tmp_path / "manifest.json").read_text("utf-8"))
    assert [entry["op"] for entry in manifest] == ["a", "a2", "c"]
    refused = json.loads((tmp_path / "refused.json").read_text("utf-8"))
    assert refused == [{"case": "b__x", "why": "ValueError: no"}]


def test_a_case_that_is_stopped_leaves_the_files_of_other_cases(tmp_path: Path) -> None:
    others = ["add__x_low.0.input0.bin", "add__x_low_1.0.output0.bin", "add__x.pte"]
    for name in (*others, "add__x.0.input0.bin", "add__x_1.12.output3.bin"):
        (tmp_path / name).write_bytes(b"")
    folder, slow = Folder(tmp_path), case("add", "x")
    folder.record(slow).parent.mkdir()
    _refuse(folder, slow, "took longer than 1 s")
    assert sorted(path.name for path in tmp_path.glob("add*")) == sorted(others)
    assert folder.write_manifest() == (0, 1)


def test_an_entry_has_a_tolerance_per_output(tmp_path: Path) -> None:
    outputs = (
        np.array([-200.0, 1.0, np.inf, np.nan], np.float32),
        np.zeros(2, np.float32),
        np.array(3),
    )
    call = Call((np.ones((2, 2), np.float16), 3, 0.5, True), outputs)
    raw = entry_of(tmp_path, "add__x.pte", "add", "x", [call, call], 1e-3)
    entry = parse_entry(raw)
    assert [golden.atol for golden in entry.steps[1].goldens] == [pytest.approx(0.2), 1e-6, 1e-6]
    assert [golden.output_index for golden in entry.steps[0].goldens] == [0, 1, 2]
    given, *numbers = entry.steps[1].inputs
    assert not given.scalar
    assert all(number.scalar for number in numbers)
    assert [number.dtype for number in numbers] == ["int64", "float64", "bool"]
    assert given.decode((tmp_path / given.path).read_bytes()).shape == (2, 2)
    assert len({file.path for step in entry.steps for file in (*step.inputs, *step.goldens)}) == 14


def test_a_difference_passes_by_its_own_share(tmp_path: Path) -> None:
    """For this number, the quotient times the number is less than the difference."""
    largest, difference = 1.8388671875, 0.001953125
    assert difference / largest * largest < difference
    call = Call((), (np.array([largest]),))
    raw = entry_of(tmp_path, "x.pte", "x", "x", [call], difference / largest)
    assert raw["steps"][0]["goldens"][0]["atol"] >= difference


# The table


def result(op: str, error: str | None = None, **ran: Any) -> dict[str, Any]:
    where = {"dispatches": 0, "gpu": 0, "alias": 0, "host": {}} | ran
    return {
        "op": op,
        "case": "x",
        "verdict": "failed" if error else "passed",
        "error": error,
        "ran": None if error else where,
    }


@pytest.fixture
def out(tmp_path: Path) -> Path:
    write(tmp_path / "suite" / "manifest.json", [{}] * 4)
    write(tmp_path / "suite" / "refused.json", [{}])
    write(tmp_path / "suite.numpy.json", [result("a"), result("b"), result("c"), result("d")])
    ran = [
        result("a", dispatches=2, gpu=2),
        result("b", dispatches=1, host={"aten::amax.out": 2}),
        result("c", alias=1),
        result("d", "no kernel"),
    ]
    write(tmp_path / "suite.native.json", ran)
    write(tmp_path / "vulkan" / "manifest.json", [{}] * 2)
    write(tmp_path / "vulkan.native.json", [result("a", dispatches=1), result("b", dispatches=1)])
    return tmp_path


def test_the_table_counts_programs_and_where_they_ran(out: Path) -> None:
    lines = table(out, ("suite", "vulkan", "facto")).splitlines()
    assert lines[0].startswith("| part | programs | refused | NumPy | natively | Chromium |")
    assert lines[2] == "| `suite` | 4 | 1 | 4 | 3 | – | – | 2 | 1 | 1 |"
    assert lines[3] == "| `vulkan` | 2 | 0 | – | 2 | – | – | 2 | 0 | 0 |"
    assert lines[4] == "| all | 6 | 1 | 4 | 5 | – | – | 4 | 1 | 1 |"
    assert len(lines) == 5


def test_failures_are_listed(out: Path) -> None:
    assert failures(out, ("suite", "vulkan")) == ["suite: d__x, natively: no kernel"]


def test_the_table_needs_no_checkout(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--table", str(out)]) == 0
    assert "| `suite` | 4 | 1 |" in capsys.readouterr().out


def test_exports_need_a_checkout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([str(tmp_path)])
    assert "name a source tree of ExecuTorch" in capsys.readouterr().err

"""`serve.py verify`: manifest, filter, output, exit code."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.harness import limits
from support.harness.streams import Log, Terminal
from support.write import pack_suite
from webpte_host.base.errors import HostError
from webpte_host.commands import verify
from webpte_host.commands.bundles import unpack
from webpte_host.commands.suites import read_manifest
from webpte_host.harness import report as report_module
from webpte_host.harness.report import Report, describe
from webpte_host.setup import environment


def entry(op: str, case: str, pte: str | None = None) -> dict[str, Any]:
    tensor = {"path": "a.bin", "shape": [1], "dtype": "float32", "output_index": 0}
    base = {"op": op, "case": case, "pte": pte or f"{op}__{case}.pte", "atol": 0, "rtol": 0}
    return {**base, "inputs": [], "golden": tensor}


ENTRIES = [entry("add", "vec"), entry("addmm", "small"), entry("model", "tiny", "llama_tiny.pte")]


def result(raw: dict[str, Any], error: str | None = None) -> dict[str, Any]:
    verdict = "passed" if error is None else "failed"
    row = {"op": raw["op"], "case": raw["case"], "verdict": verdict, "error": error}
    return {**row, "outputs": [], "ops": [], "ms": 1.0}


@pytest.mark.parametrize(
    ("pattern", "cases"),
    [
        (None, ["add__vec", "addmm__small", "model__tiny"]),
        ("add*", ["add__vec", "addmm__small"]),
        ("add__*", ["add__vec"]),
        ("llama*", ["model__tiny"]),
        ("model__tiny", ["model__tiny"]),
        ("*__small", ["addmm__small"]),
    ],
)
def test_filter(pattern: str | None, cases: list[str]) -> None:
    assert [verify.case_id(chosen) for chosen in verify.select(ENTRIES, pattern)] == cases


def test_filter_that_matches_nothing() -> None:
    with pytest.raises(HostError, match=r"no case matches --filter 'sub\*'.* 3, such as add__vec"):
        verify.select(ENTRIES, "sub*")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot be read: no such file"),
        ("{", "is not JSON"),
        ("{}", "must be a list of entries, not dict"),
        ("[]", "has no entries"),
    ],
)
def test_bad_manifests(tmp_path: Path, text: str | None, message: str) -> None:
    if text is not None:
        (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(HostError, match=message):
        read_manifest(tmp_path)


def test_invalid_entry_is_named(tmp_path: Path) -> None:
    broken = entry("add", "x")
    del broken["atol"]
    with pytest.raises(HostError, match=r"entry 1 .*: entry add__x lacks 'atol'"):
        verify.check_entries([ENTRIES[0], broken], tmp_path)


@pytest.mark.parametrize("stream", [Log(), Terminal()])
def test_report_has_one_line_per_failure(stream: Log) -> None:
    with Report(2, stream) as report:
        for raw, error in zip(ENTRIES, (None, "ValueError: two\nlines"), strict=False):
            report.begin(verify.case_id(raw))
            report.add(result(raw, error))
    assert (report.passed, report.failed) == (1, 1)
    assert "FAILED addmm__small: ValueError: two lines\n" in stream.getvalue()


def test_progress_line_says_what_a_slow_case_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_module, "_PLAIN_SECONDS", 0.0)
    stream = Log()
    with Report(2, stream) as report:
        report.begin("add__vec")
        report.show("compile 3 of 8")
        stream.wait_for(r"0/2  0 failed  \d+ s  add__vec: compile 3 of 8, \d+ s\n")
        report.add(result(ENTRIES[0]))
        report.begin("addmm__small")
        stream.wait_for(r"1/2  0 failed  \d+ s  addmm__small\n")


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (("compile", 3, 8), "compile 3 of 8"),
        (("fetch", 1 << 20, 3 << 20), "fetch 33%"),
        (("step", 1, 1), "step 1 of 1"),
        (("fetch", 0, 0), "fetch 0 of 0"),
    ],
)
def test_progress_in_words(state: tuple[str, int, int], words: str) -> None:
    assert describe(*state) == words


@pytest.mark.parametrize("wrong", ["0", "-1", "inf", "nan", "soon"])
def test_timeouts_that_make_no_sense(
    wrong: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        verify.main([str(tmp_path), f"--timeout={wrong}"])
    assert "argument --timeout" in capsys.readouterr().err


@pytest.mark.parametrize("options", [["--adapter", "hardware"], ["--device", "numpy"]], ids=str)
def test_firefox_has_neither_adapters_nor_other_devices(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        verify.main([str(tmp_path), "--browser", "firefox", *options])
    assert "--browser firefox goes with neither" in capsys.readouterr().err


def test_numpy_tells_what_it_does(root: Path) -> None:
    folder = root / "tests" / "suites"
    told: list[str] = []
    with pack_suite.unpacked(next(iter(sorted(folder.glob("*.zip"))))) as suite:
        first = json.loads((suite / "manifest.json").read_text("utf-8"))[0]
        assert verify.run_here(suite, first, told.append)["verdict"] == "passed"
    assert "read 1 of 1" in told
    assert any(text.startswith("step 1 of ") for text in told)


@pytest.fixture
def run_main(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run `main` on the three entries with given outcomes."""
    (tmp_path / "manifest.json").write_text(json.dumps(ENTRIES))
    monkeypatch.setattr(environment, "inside", lambda: True)

    def run(errors: dict[str, str], *options: str) -> int:
        def run_here(
            _suite: Path, raw: dict[str, Any], _show: object, _device: str
        ) -> dict[str, Any]:
            return result(raw, errors.get(raw["op"]))

        monkeypatch.setattr(verify, "run_here", run_here)
        return verify.main([str(tmp_path), "--device", "numpy", *options])

    return run


def test_all_passed(run_main: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    assert run_main({}, "--json", str(path)) == 0
    assert capsys.readouterr().out == "3 passed, 0 failed\n"
    rows = json.loads(path.read_text())
    assert [row["case"] for row in rows] == ["vec", "small", "tiny"]
    assert set(rows[0]) == {"op", "case", "verdict", "error", "outputs", "ops", "ms"}


def test_one_failed(run_main: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_main({"add": "output 0: max abs 1"}, "--filter", "add*") == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["FAILED add__vec: output 0: max abs 1", "1 passed, 1 failed"]


def test_results_that_cannot_be_written(run_main: Any, tmp_path: Path) -> None:
    with pytest.raises(HostError, match="cannot be written to"):
        run_main({}, "--json", str(tmp_path / "no" / "folder.json"))


def test_command_line_without_a_suite(root: Path, tmp_path: Path) -> None:
    command = [sys.executable, str(root / "serve.py"), "verify", str(tmp_path)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=limits.PROCESS_SECONDS
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert "manifest.json cannot be read" in done.stderr
    assert "Traceback" not in done.stderr


BUNDLE = Path("tests/data/format/bundled.bpte")


def test_the_cases_of_a_bundled_program(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "inside", lambda: True)
    assert verify.main([str(root / BUNDLE), "--device", "numpy"]) == 0
    assert "2 passed, 0 failed" in capsys.readouterr().out


def test_a_bundled_program_that_gives_something_else(
    root: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from webpte.engine.format.bundled import parse_bundle

    monkeypatch.setattr(environment, "inside", lambda: True)
    data = bytearray((root / BUNDLE).read_bytes())
    wanted = parse_bundle(bytes(data)).cases["forward"][1].expected[0]
    at = data.index(wanted.tobytes())  # type: ignore[union-attr]
    data[at + 3] ^= 0x42
    changed = tmp_path / "changed.bpte"
    changed.write_bytes(data)
    assert verify.main([str(changed), "--device", "numpy"]) == 1
    assert "1 passed, 1 failed" in capsys.readouterr().out


def test_a_file_that_is_no_bundle(tmp_path: Path) -> None:
    other = tmp_path / "model.pte"
    other.write_bytes(b"\0\0\0\0ET12" + bytes(20))
    with pytest.raises(HostError, match="no bundled program"):
        verify.main([str(other)])
    broken = tmp_path / "broken.bpte"
    broken.write_bytes(b"\0\0\0\0BP08")
    with pytest.raises(HostError, match="cannot be verified"):
        unpack(broken, tmp_path)

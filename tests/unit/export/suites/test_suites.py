"""The packed suites on the NumPy references, and the tool that packs them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.cases.tables import import_table, table_files
from support.harness import extent
from support.write import pack_suite
from webpte.engine.ops import registered_names
from webpte_host.base.layout import ROOT
from webpte_host.commands.verify import case_id, run_here

SUITES = sorted((ROOT / "tests" / "suites").glob("*.zip"))
CASES = [(path, entry) for path in SUITES for entry in pack_suite.read_entries(path)]


# Neither in a suite nor in a table: their tests are written out.
TESTED_ELSEWHERE = {
    "sub",  # test_plan_symints.py
    "update_cache.default",  # ops/attention/test_attention.py and browser/kernels/test_attention.py
}


@pytest.fixture(scope="module")
def folders() -> Iterator[dict[Path, Path]]:
    with ExitStack() as stack:
        yield {path: stack.enter_context(pack_suite.unpacked(path)) for path in SUITES}


@pytest.mark.parametrize(
    ("path", "entry"),
    extent.share(CASES[1:] + CASES[:1], 2),
    ids=[f"{path.stem}:{case_id(entry)}" for path, entry in extent.share(CASES[1:] + CASES[:1], 2)],
)
def test_case(folders: dict[Path, Path], path: Path, entry: pack_suite.Entry) -> None:
    report = run_here(folders[path], entry)
    assert report["error"] is None
    assert report["verdict"] == "passed"
    assert report["outputs"]


def test_there_are_suites_and_they_are_small() -> None:
    names = ["beyond", "bfloat16", "conformance", "models", "ops", "xnnpack"]
    assert [path.stem for path in SUITES] == names
    assert sum(path.stat().st_size for path in SUITES) < 12_000_000


def ops_in_tables() -> set[str]:
    """Return the ops of all `Case`-like rows in the tables of the families."""
    found: set[str] = set()

    def walk(value: object) -> None:
        if isinstance(value, list | tuple | dict):
            for item in value.values() if isinstance(value, dict) else value:
                walk(item)
        elif isinstance(op := getattr(value, "op", None), str):
            found.add(op)

    for path in table_files():
        walk(vars(import_table(path)))
    return found


@pytest.mark.thorough
def test_every_op_has_a_case(folders: dict[Path, Path]) -> None:
    used = ops_in_tables()
    for path in SUITES:
        for entry in pack_suite.read_entries(path):
            used |= set(run_here(folders[path], entry)["ops"])
    assert set(registered_names()) - used == TESTED_ELSEWHERE


# The tool


def make_suite(folder: Path, *names: str) -> Path:
    entries = []
    for at, name in enumerate(names):
        (folder / f"{name}.pte").write_bytes(bytes([at]) * (at + 1))
        (folder / f"{name}.bin").write_bytes(b"data")
        tensor = {"path": f"{name}.bin", "shape": [1], "dtype": "float32"}
        entries.append(
            {"op": name, "case": "c", "pte": f"{name}.pte", "inputs": [tensor], "golden": tensor}
        )
    (folder / "manifest.json").write_text(json.dumps(entries), encoding="utf-8")
    return folder


def entries_of(suite: Path) -> list[pack_suite.Entry]:
    entries: list[pack_suite.Entry] = json.loads((suite / "manifest.json").read_text("utf-8"))
    return entries


def test_packing_gives_back_what_went_in(tmp_path: Path) -> None:
    suite = make_suite(tmp_path, "b", "a")
    out = tmp_path / "out.zip"
    pack_suite.write_zip(out, suite, entries_of(suite))
    assert [entry["op"] for entry in pack_suite.read_entries(out)] == ["a", "b"]
    with pack_suite.unpacked(out) as folder:
        for entry in pack_suite.read_entries(out):
            for name in pack_suite.files_of(entry):
                assert (folder / name).read_bytes() == (suite / name).read_bytes()


def test_packing_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    suite = make_suite(tmp_path, "a", "b")
    pack_suite.write_zip(tmp_path / "1.zip", suite, entries_of(suite))
    pack_suite.write_zip(tmp_path / "2.zip", suite, entries_of(suite)[::-1])
    assert (tmp_path / "1.zip").read_bytes() == (tmp_path / "2.zip").read_bytes()


def test_appending(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "y").mkdir()
    first, second = make_suite(tmp_path / "x", "a"), make_suite(tmp_path / "y", "b")
    out = tmp_path / "out.zip"
    pack_suite.write_zip(out, first, entries_of(first))
    pack_suite.write_zip(out, second, entries_of(second), append=True)
    assert [entry["op"] for entry in pack_suite.read_entries(out)] == ["a", "b"]
    with pytest.raises(SystemExit, match="has b__c already"):
        pack_suite.write_zip(out, second, entries_of(second), append=True)


def test_features_are_operators_with_types_and_with_sizes_that_change() -> None:
    def step(rows: int, dtype: str) -> dict[str, object]:
        given = {"path": "x", "shape": [rows, 3], "dtype": dtype}
        return {"inputs": [given], "goldens": [given | {"dtype": "float32"}]}

    relu, kernel = "aten.relu.default", "aten::amax.out"
    report = {"ops": [relu, "et_vk.prepack.default"], "ran": {"host": {kernel: 2}}}
    plain = pack_suite.features_of({"steps": [step(4, "float32")]}, report)
    assert plain == {relu, kernel}
    halves = pack_suite.features_of({"steps": [step(4, "float16")]}, report)
    assert halves - plain == {f"{relu} float16", f"{kernel} float16"}
    growing = {"steps": [step(4, "float32"), step(2, "float32")]}
    assert pack_suite.features_of(growing, report) - plain == {
        f"{relu} dynamic",
        f"{kernel} dynamic",
    }


def test_only_what_adds_something_is_taken(tmp_path: Path) -> None:
    path = next(path for path in SUITES if path.stem == "conformance")
    with pack_suite.unpacked(path) as folder:
        entries = [entry for entry in pack_suite.read_entries(path) if entry["op"] == "abs"]
        covered: set[str] = set()

        def choose() -> list[pack_suite.Entry]:
            return pack_suite.choose(
                folder,
                entries,
                patterns=[],
                families=set(),
                max_bytes=None,
                per_op=None,
                covered=covered,
            )

        assert choose()
        assert "aten.abs.default" in covered
        assert not choose()

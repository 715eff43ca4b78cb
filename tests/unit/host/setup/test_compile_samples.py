"""Compiling samples where it is not possible, and which. Browser tests use compiled samples."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from webpte_host.base.layout import WEB
from webpte_host.base.progress import Display
from webpte_host.serving.gallery import gallery
from webpte_host.setup import compile_samples
from webpte_host.setup.compile_samples import INDEX, answering, compiled_folder
from webpte_host.setup.precompile import LIBRARY

MADE = ("index.js", "webpte-run.js", "webpte-run.d.ts", "program.json", "wgsl/a.wgsl", "digits.pte")


@pytest.fixture
def web(tmp_path: Path) -> Path:
    """A page with some samples."""
    samples = tmp_path / "web" / "samples"
    samples.mkdir(parents=True)
    for name in ("digits", "photo", "add"):
        for suffix in (".json", ".pte"):
            shutil.copy(WEB / "samples" / f"{name}{suffix}", samples)
    return samples.parent


@pytest.fixture
def runtime(tmp_path: Path) -> Path:
    """A runtime without an interpreter, which Node cannot run."""
    folder = tmp_path / "state" / "runtime"
    (folder / "pyodide").mkdir(parents=True)
    (folder / "stamp.json").write_text(json.dumps({"lock": "any", "files": {LIBRARY: 1}}))
    return folder


def compile_in(runtime: Path, web: Path, current: bool = False) -> str:
    shown = io.StringIO()
    stamp = runtime / "stamp.json"
    compile_samples.ensure_samples(Display(shown), runtime, stamp, current, web)
    return shown.getvalue()


def test_samples_with_a_picture_and_named_results_answer_early() -> None:
    assert answering(WEB / "samples") == ["digits", "photo"]


def test_a_large_sample_is_left_out(web: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_samples, "_LARGEST", 50_000)
    assert answering(web / "samples") == ["photo"]


@pytest.mark.parametrize("card", ["no JSON", "[]", '{"view": "run", "inputs": "x"}', "{}"])
def test_a_card_that_cannot_be_read_is_left_out(web: Path, card: str) -> None:
    (web / "samples" / "digits.json").write_text(card)
    assert answering(web / "samples") == ["photo"]


def test_a_failure_is_reported_and_leaves_the_runtime_as_it_was(
    runtime: Path, web: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (runtime / "stamp.json").read_bytes()
    told = compile_in(runtime, web)
    assert "wait for Python" in told
    assert "pyodide.mjs" in told  # why
    monkeypatch.setattr(compile_samples, "find_node", lambda: None)
    assert "there is no node" in compile_in(runtime, web)
    assert (runtime / "stamp.json").read_bytes() == before
    assert sorted(path.name for path in runtime.parent.iterdir()) == ["runtime"]
    assert "compiled" not in cards(web, runtime)["digits"]
    (runtime / "stamp.json").write_text(json.dumps({"lock": "any", "files": {}}))
    assert compile_in(runtime, web) == "", "there is no interpreter"


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> list[Sequence[str]]:
    """Stands for Node, which compiles digits only; its commands."""
    commands: list[Sequence[str]] = []

    def run(command: Sequence[str], _what: str, *, cwd: Path) -> None:
        commands.append(command)
        with ZipFile(cwd / "out.zip", "w") as archive:
            for name in MADE:
                archive.writestr(f"digits/{name}", f'{name} from "./webpte-run.js"')

    monkeypatch.setattr(compile_samples, "find_node", lambda: "node")
    monkeypatch.setattr(compile_samples, "run_tool", run)
    return commands


def cards(web: Path, runtime: Path) -> dict[str, dict[str, Any]]:
    return {card["name"]: card for card in json.loads(gallery(web, None, runtime))}


def test_a_compiled_sample_shares_the_runtime_and_the_weights(
    runtime: Path, web: Path, node: list[Sequence[str]]
) -> None:
    assert "digits" in compile_in(runtime, web)
    assert node[0][-2:] == ["digits", "photo"]
    made = runtime / "compiled"
    files = {path.relative_to(made).as_posix() for path in made.rglob("*") if path.is_file()}
    own = {f"digits/{name}" for name in ("index.js", "program.json", "wgsl/a.wgsl")}
    assert files == {"webpte-run.js", INDEX, *own}
    assert (made / "digits" / "index.js").read_text() == 'index.js from "../webpte-run.js"'
    found = cards(web, runtime)
    assert found["digits"]["compiled"] == "compiled/digits/"
    assert "compiled" not in found["photo"], "it could not be compiled"
    assert compile_in(runtime, web, current=True) == "", "nothing has changed"
    assert sorted(path.name for path in runtime.parent.iterdir()) == ["runtime"]


def test_a_changed_sample_waits_for_python_until_it_is_compiled_again(
    runtime: Path, web: Path, node: list[Sequence[str]]
) -> None:
    compile_in(runtime, web)
    program = web / "samples" / "digits.pte"
    program.write_bytes(program.read_bytes()[:-1] + b"!")
    assert compiled_folder(runtime, program) == ""
    assert "compiled" not in cards(web, runtime)["digits"]
    assert "digits" in compile_in(runtime, web)
    assert compiled_folder(runtime, program) == "compiled/digits/"


def lose(runtime: Path) -> None:
    shutil.rmtree(runtime / "compiled")


def damage(runtime: Path) -> None:
    (runtime / "compiled" / INDEX).write_text("[]")


@pytest.mark.parametrize("harm", [lose, damage])
def test_a_damaged_folder_is_no_compiled_sample(
    runtime: Path, web: Path, node: list[Sequence[str]], harm: Callable[[Path], None]
) -> None:
    compile_in(runtime, web)
    harm(runtime)
    assert "compiled" not in cards(web, runtime)["digits"]

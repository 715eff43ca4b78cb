"""`serve.py compile`: the program that a name means, shapes, and the size of the runtime."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import pytest

from support.harness.task_cases import models_folder
from webpte.compiling import Compiled
from webpte.compiling.runtime_files import RUNTIME, runtime_files
from webpte_host.base.errors import HostError
from webpte_host.base.layout import ROOT
from webpte_host.base.progress import Display
from webpte_host.commands import compile as command
from webpte_host.setup import environment, esbuild

SAMPLES = ROOT / "web" / "samples"


def test_a_sample_is_found_by_its_name() -> None:
    card = SAMPLES / "digits.json"
    found = command.FoundProgram(str(SAMPLES / "digits.pte"), card=card)
    assert command.find_program("digits") == found
    assert command.find_program("hf:a/b") == command.FoundProgram("hf:a/b")


def test_a_folder_with_a_program(tmp_path: Path) -> None:
    for name in ("model.pte", "weights.ptd"):
        (tmp_path / name).touch()
    found = command.FoundProgram(str(tmp_path / "model.pte"), [tmp_path / "weights.ptd"])
    assert command.find_program(str(tmp_path)) == found
    (tmp_path / "other.pte").touch()
    with pytest.raises(HostError, match="it has 2 programs"):
        command.find_program(str(tmp_path))
    (tmp_path / "webpte.json").write_text("{}")
    found = command.FoundProgram(str(tmp_path / "webpte.json"))
    assert command.find_program(str(tmp_path)) == found


def test_a_name_of_no_program() -> None:
    with pytest.raises(HostError, match="no model's name: there is none"):
        command.find_program("nothing-like-it")


@pytest.mark.parametrize("text", ["forward", "forward=1xa", "forward=1x", "forward=1,x"])
def test_shapes_that_are_none(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["digits", "out", "--shapes", text])
    assert f"--shapes {text}: such as forward=1x3x224x224,1x7 is needed" in capsys.readouterr().err


def test_a_program_of_named_shapes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "inside", lambda: True)
    monkeypatch.setattr(esbuild, "minified", lambda text, _display: text[:100])
    # Which are kept, minified, for later commands.
    monkeypatch.setattr(command, "text_libraries", lambda _display: {"jinja.js": b""})
    out = tmp_path / "out"
    shapes = ["--shapes", "forward=1x9", "--shapes", "forward=2x4"]
    assert command.main(["words", str(out), *shapes]) == 0
    table = json.loads((out / "program.json").read_text("utf-8"))
    plans = table["methods"]["forward"]["plans"]
    assert [plan["shapes"][0] for plan in plans] == [[1, 9], [2, 4]]
    assert (out / RUNTIME).stat().st_size == 100


@pytest.mark.parametrize(
    ("model", "named", "kinds"),
    [
        ("digits", "", ("drawing", "scores")),
        ("digits.pte", "", ("numbers", "numbers")),
        ("shapes", "", ("picture", "scores")),
        ("digits", "none", None),
        ("words", "", ("sentences", "vectors")),
        ("words", "feature-extraction", ("sentences", "vectors")),
        ("words", "none", None),
        ("vectors", "feature-extraction", ("sentences", "vectors")),
    ],
)
def test_the_task_of_a_model(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    model: str,
    named: str,
    kinds: tuple[str, str] | None,
) -> None:
    monkeypatch.setattr(environment, "inside", lambda: True)
    monkeypatch.setattr(esbuild, "minified", lambda text, _display: text)
    monkeypatch.setattr(command, "text_libraries", lambda _display: {"jinja.js": b""})
    sources = {"digits.pte": SAMPLES / "digits.pte"}
    sources |= {name: models_folder() / name for name in ("shapes", "vectors")}
    out = tmp_path / "out"
    command.main([str(sources.get(model, model)), str(out), *(["--task", named] if named else [])])
    task = json.loads((out / "program.json").read_text("utf-8")).get("task")
    assert (out / "index.html").exists() == (kinds is not None)
    assert (task and (task["input"]["kind"], task["outputs"][0]["kind"])) == kinds


def test_the_demo_is_short(tmp_path: Path) -> None:
    page = runtime_files([], task="drawing")["index.html"]
    assert page.count("\n") < 200
    assert "<pte-model" in page


def test_shapes_of_another_method(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "inside", lambda: True)
    for text, said in (("other=1x9", "the methods are forward"), ("forward=1,1", "its inputs are")):
        with pytest.raises(HostError, match=said):
            command.main(["words", str(tmp_path / "out"), "--shapes", text])


def test_the_runtime_is_small() -> None:
    if shutil.which("npm") is None:
        pytest.skip("there is no npm, which brings esbuild")
    text = esbuild.minified(runtime_files([])[RUNTIME], Display())
    assert len(text) <= 40_000
    assert len(gzip.compress(text.encode(), 9)) <= 15_000


def test_broken_javascript_is_an_error() -> None:
    if shutil.which("npm") is None:
        pytest.skip("there is no npm, which brings esbuild")
    with pytest.raises(HostError, match="esbuild failed with exit code 1"):
        esbuild.minified("const = ;", Display())


def test_weights_are_not_compressed_for_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "big.pte").write_bytes(bytes(5000))
    (tmp_path / "program.json").write_bytes(b" " * 5000)
    read = Path.read_bytes
    opened: list[str] = []

    def read_bytes(path: Path) -> bytes:
        opened.append(path.name)
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    text = command.report(Compiled(tmp_path, ("forward",), {"big.pte": 0, "program.json": 0}))
    assert opened == ["program.json"]
    weights, table, everything = (line.split() for line in text.splitlines()[1:])
    assert weights == ["big.pte", "5,000", "bytes", "5,000", "compressed"]
    assert (table[1], everything[2]) == ("5,000", "10,000")
    assert int(table[3].replace(",", "")) < 100

"""`serve.py export`: arguments, the user's function, and failures."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from webpte_export import ExportError, export
from webpte_export.__main__ import as_arguments, call, main
from webpte_export.exporter import _write_whole
from webpte_host import cli
from webpte_host.base.errors import HostError
from webpte_host.commands import export as command


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nothing", "out"], "does not name a model"),
        (["missing.gguf", "out"], "no such file"),
        (["a/b", "out"], "no such file"),
        (["model.py", "out"], "named like model:make_model"),
        (["my_model:make", "out", "--max-context", "64"], "for language models"),
        (["my_model:make", "out", "--quantize", "4w", "--calibrate"], "for language models"),
        ([".", "out", "--task", "fill-mask", "--quantize", "4w", "--calibrate"], "text-generation"),
        ([".", "out", "--calibrate"], "needs --quantize 4w or 8da4w"),
        ([".", "out", "--quantize", "8w", "--calibrate"], "needs --quantize 4w or 8da4w"),
        ([".", "out", "--quantize", "4w", "--calibrate", "no.txt"], "no.txt: there is no such"),
        ([".", "out", "--quantize", "4w", "--keep-8w", "3"], "--keep-8w needs --calibrate"),
    ],
)
def test_arguments_that_cannot_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("model.py").touch()
    monkeypatch.setattr(command, "export_python", lambda _display: pytest.fail("set up too early"))
    with pytest.raises(HostError, match=says):
        command.main(arguments)


def test_requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("llama").mkdir()
    request = command.parse(["package.models:make", "out/m", "--quantize", "4w", "--half"])
    assert (request["kind"], request["source"]) == ("function", "package.models:make")
    assert (request["quantize"], request["half"]) == ("4w", True)
    assert request["out"] == str(tmp_path / "out/m")
    request = command.parse(["llama", "out/l", "--max-context", "64"])
    assert (request["kind"], request["source"]) == ("llm", str(tmp_path / "llama"))
    assert (request["quantize"], request["max_context"]) == (None, 64)
    request = command.parse(["llama", "out/t", "--task", "fill-mask", "--half"])
    assert (request["kind"], request["task"], request["half"]) == ("task", "fill-mask", True)
    talking = ["llama", "out/t", "--task", "text-generation", "--max-context", "64"]
    assert command.parse(talking)["max_context"] == 64
    for wrong in (
        ["a:b", "out", "--task", "x"],
        ["llama", "o", "--task", "x", "--max-context", "9"],
    ):
        with pytest.raises(HostError, match="task"):
            command.parse(wrong)
    assert request["train"] is None
    assert command.parse(["llama", "out/l", "--train", "lora"])["train"] == {}
    chosen = ["--train", "lora", "--lora-rank", "4", "--lora-targets", "q_proj, v_proj"]
    wanted = {"rank": 4, "targets": ["q_proj", "v_proj"]}
    assert command.parse(["llama", "out/l", *chosen])["train"] == wanted
    assert (request["calibrate"], request["keep_8w"]) == (False, 0)
    chosen = ["llama", "o", "--quantize", "4w", "--calibrate"]
    assert command.parse(chosen)["calibrate"] is True
    assert command.parse([*chosen, "--task", "text-generation"])["calibrate"] is True
    Path("text.txt").touch()
    request = command.parse([*chosen, "text.txt", "--keep-8w", "5"])
    assert (request["calibrate"], request["keep_8w"]) == (str(tmp_path / "text.txt"), 5)
    for wrong in (["llama", "o", "--lora-rank", "4"], ["a:b", "o", "--train", "lora"]):
        with pytest.raises(HostError, match="--train"):
            command.parse(wrong)


class Answering:
    """A fake of the export environment: a Python whose `-m webpte_export` is this module."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._package = folder / "stand_in" / "webpte_export"
        self._package.mkdir(parents=True)
        (self._package / "__init__.py").touch()
        variables = {"PYTHONPATH": str(self._package.parent)}
        monkeypatch.setattr(command, "export_python", lambda _display: Path(sys.executable))
        monkeypatch.setattr(command, "export_variables", lambda _cwd: variables)

    def runs(self, code: str) -> None:
        start = "import json, pathlib, sys\nrequest = json.loads(sys.argv[1])\n"
        (self._package / "__main__.py").write_text(start + code, encoding="utf-8")


@pytest.fixture
def answering(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Answering:
    return Answering(tmp_path, monkeypatch)


@pytest.mark.parametrize("passed", [True, False])
def test_it_ends_with_the_report_and_what_to_do_next(
    answering: Answering,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    passed: bool,
) -> None:
    monkeypatch.chdir(tmp_path)
    answering.runs(
        "print('noise')\n"
        "answer = {'text': 'REPORT of ' + request['source'], 'suite': request['out'] + '.suite',"
        f" 'passed': {passed}}}\n"
        "pathlib.Path(sys.argv[2]).write_text(json.dumps(answer))\n"
    )
    assert cli.main(["export", "my_model:make", "out/my model"]) == (0 if passed else 1)
    *_, report, verify, show = capsys.readouterr().out.splitlines()
    assert report == "REPORT of my_model:make"
    assert verify == "To check it on WebGPU: python3 serve.py verify 'out/my model.suite'"
    address = "http://localhost:8000/?url=/folder/my%20model.pte"
    assert show == f"To open it: python3 serve.py --folder out, then {address}"


def test_paths_elsewhere_are_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    check, show = command.next_steps(tmp_path / "out/m.suite")
    assert check.endswith(f"verify {tmp_path}/out/m.suite")
    assert f"--folder {tmp_path}/out, then" in show


def test_a_sentence_is_all_that_is_shown_of_an_error(
    answering: Answering, capsys: pytest.CaptureFixture[str]
) -> None:
    answering.runs("pathlib.Path(sys.argv[2]).write_text(json.dumps({'error': 'No luck.'}))\n")
    assert cli.main(["export", "my_model:make", "out"]) == 1
    assert capsys.readouterr().err == "error: No luck.\n"


def test_a_crash_shows_what_was_said_last(
    answering: Answering, capsys: pytest.CaptureFixture[str]
) -> None:
    answering.runs("print('last words'); sys.exit(3)")
    assert cli.main(["export", "my_model:make", "out"]) == 1
    error = capsys.readouterr().err
    assert "code 3" in error
    assert "    last words" in error


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "users_model.py").write_text(
        "def good(): return ('a model', 'inputs')\n"
        "def bad():\n    raise ValueError('width must be even')\n"
        "number = 3\n"
    )
    (tmp_path / "users_broken.py").write_text("import a_package_that_is_not_there\n")
    return "users_model"


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("users_model:bad", r"ValueError: width must be even \(users_model\.py, line 3\)"),
        ("users_model:number", "has no function 'number'"),
        ("users_model:nothing", "has no function 'nothing'"),
        ("users_modle:good", "there is no module 'users_modle'"),
        ("users_broken:good", "imports 'a_package_that_is_not_there'"),
    ],
)
def test_faults_of_the_function_are_reported_plainly(module: str, target: str, says: str) -> None:
    assert call(f"{module}:good") == ("a model", "inputs")
    with pytest.raises(ExportError, match=says):
        call(target)


def test_what_a_function_may_return() -> None:
    assert as_arguments(("m", "i"), "f") == {"model": "m", "inputs": "i"}
    assert as_arguments(("m", "i", "d"), "f") == {
        "model": "m",
        "inputs": "i",
        "dynamic_shapes": "d",
    }
    more = {"model": "m", "inputs": "i", "more_inputs": ()}
    assert as_arguments(more, "f") == more


@pytest.mark.parametrize("made", [None, ("m",), ("m", "i", "d", "x"), {"model": "m"}, "model"])
def test_what_it_may_not(made: Any) -> None:
    with pytest.raises(ExportError, match=r"f must return \(model, inputs\)"):
        as_arguments(made, "f")


def test_an_unknown_argument_is_named() -> None:
    with pytest.raises(ExportError, match="'quantise'"):
        as_arguments({"model": "m", "inputs": "i", "quantise": "4w"}, "f")


def test_an_error_is_an_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_request: object) -> None:
        raise ExportError("It cannot be.")

    monkeypatch.setattr("webpte_export.__main__.run", fails)
    assert main({}, tmp_path / "answer.json") == 0
    assert json.loads((tmp_path / "answer.json").read_text()) == {"error": "It cannot be."}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, r"torch\.nn\.Module, not object"),
        ({"quantize": "3w"}, "'3w' is not known; there are 4w, 8w, 8da4w"),
        ({"tolerance": (1e-3,)}, r"must be \(atol, rtol\)"),
    ],
)
def test_arguments_are_checked_before_torch_is_needed(
    tmp_path: Path, options: dict[str, Any], says: str
) -> None:
    with pytest.raises(ExportError, match=says):
        export(object(), (), tmp_path / "m", **options)


def test_a_program_is_written_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out" / "m.pte"
    _write_whole(path, b"first")

    def full(_self: Path, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(ExportError, match=r"m\.pte cannot be written: No space left"):
        _write_whole(path, b"second")
    assert path.read_bytes() == b"first"
    assert [file.name for file in path.parent.iterdir()] == ["m.pte"]

"""A failed export names the line of the model and what to write; the libraries' text is below."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from webpte_export import ExportError
from webpte_export.failures import (
    COMPLEX,
    advice_for,
    explained,
    failure,
    line_of,
    line_of_operator,
    places_in,
    telling_failures,
)

PAGE = "SpecViolationError: mismatched dtypes: aten.addmm\n" + "\n".join(map(str, range(90)))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "my_model.py"
    path.write_text("import torch\n\ndef forward(x):\n    return torch.linalg.inv(x)\n")
    return path


@dataclass
class Node:
    """A node of a graph, as torch.fx has them."""

    target: str
    meta: Mapping[str, Any] = field(default_factory=dict)


def frames(model: Path) -> str:
    own = f'  File "{model}", line 4, in forward\n    return torch.linalg.inv(x)\n'
    return own + '  File "/x/lib/python3.12/site-packages/torch/nn/module.py", line 9, in call\n'


def test_the_innermost_line_of_the_users_code_is_named(model: Path) -> None:
    text = f'  File "{model}", line 1, in <module>\n' + frames(model)
    assert str(line_of(places_in(text))) == "my_model.py, line 4: return torch.linalg.inv(x)"
    library = '  File "/x/site-packages/transformers/models/doge.py", line 3, in forward\n'
    assert str(line_of(places_in(text + library))).startswith("my_model.py, line 4")
    assert str(line_of(places_in(library))) == "doge.py, line 3"
    assert line_of([("<string>", 1), (str(json.__file__), 2)]) is None


def test_an_operator_in_the_text_leads_to_its_line(model: Path) -> None:
    nodes = [
        Node("aten.mul.Tensor", {"stack_trace": frames(model).replace("line 4", "line 1")}),
        Node("aten.linalg_inv_ex.default", {"stack_trace": frames(model)}),
    ]
    line = line_of_operator("Operator torch._ops.aten.linalg_inv_ex.default is not Core", nodes)
    assert str(line).startswith("my_model.py, line 4")
    assert line_of_operator("aten::conv2d failed", nodes) is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("Operator torch._ops.aten.inv is not Core ATen operator", "does not have this operator"),
        ("Could not guard on data-dependent expression u0 > 0", "torch.where"),
        ("Unsupported control flow operator: associative_scan", "fixed number of rounds"),
        ("Higher order ops do not support aliasing. Found in scan", "x.clone()"),
        ("Could not guard on data-dependent expression: in batched_nms", "all boxes and scores"),
        ('AssertionError: assert op.__name__ in ("alloc",) (verifier.py, line 312)', "two sizes"),
        ("Constraints violated (t)! Suggested fixes:", "min and max"),
        ("graph_output_allocated not set", "memory of an output"),
        ("got torch.complex64", COMPLEX),
        ("anything else", None),
    ],
)
def test_advice(text: str, says: str | None) -> None:
    found = advice_for(text)
    assert (found is None) if says is None else (found is not None and says in found)


def test_suggested_fixes_are_kept() -> None:
    fixes = "Suggested fixes:\n  t = Dim('t', min=2)"
    told = str(failure("torch.export", "no", ValueError(f"Constraints violated (t)!\n{fixes}")))
    assert told.endswith(fixes)


def test_a_page_of_text_is_cut_and_whole_in_a_file(tmp_path: Path) -> None:
    @telling_failures(lambda given: given["path"])
    def fails(path: Path) -> None:
        with explained("ExecuTorch", "ExecuTorch cannot lower the model"):
            raise RuntimeError(PAGE)

    with pytest.raises(ExportError, match="ExecuTorch cannot lower the model") as caught:
        fails(path=tmp_path / "out" / "m.pte")
    lines = str(caught.value).splitlines()
    assert "Details of ExecuTorch:" in lines
    assert len(lines) < 15
    log = tmp_path / "out" / "m.export.log"
    assert lines[-1] == f"The whole is in {log}."
    assert "89" in log.read_text("utf-8")
    assert "Traceback" in log.read_text("utf-8")


def test_any_error_is_an_export_error_and_an_old_log_goes(tmp_path: Path, model: Path) -> None:
    @telling_failures(lambda given: given["path"])
    def runs(path: Path, wrong: bool) -> int:
        return 1 // (not wrong)

    with pytest.raises(ExportError, match="the export failed: ZeroDivisionError"):
        runs(tmp_path / "m.pte", wrong=True)
    assert (tmp_path / "m.export.log").exists()
    assert runs(tmp_path / "m.pte", wrong=False) == 1
    assert not (tmp_path / "m.export.log").exists()


def test_a_log_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    @telling_failures(lambda given: given["path"])
    def fails(path: Path) -> None:
        raise ValueError("a\nb")

    with pytest.raises(ExportError, match=r"cannot be written|The whole is in"):
        fails(tmp_path / "file" / "m.pte")


def test_the_model_is_named_by_the_traceback(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model.write_text("def forward(x):\n    raise KeyError('width')\n")
    monkeypatch.syspath_prepend(model.parent)
    try:
        import my_model  # type: ignore[import-not-found]

        with pytest.raises(ExportError) as caught, explained("PyTorch", "M does not take x"):
            my_model.forward(1)
    finally:
        sys.modules.pop("my_model", None)
    assert "\n  my_model.py, line 2: raise KeyError('width')" in str(caught.value)

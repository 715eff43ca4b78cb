"""Errors about the contents of a file name that file, once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import webpte
from support.graphs.graphs import chain, wait
from support.harness.texts import BYTES, tokenizer_path
from support.write.pte_writer import GraphWriter, write_ptd, write_pte
from webpte import errors
from webpte.errors import InputError
from webpte_serve.api.load_models import open_model

ADD = "aten.add.Tensor"


def with_constant() -> GraphWriter:
    g = GraphWriter()
    x = g.tensor((3,))
    constant = g.tensor((3,), constant=np.ones(3, np.float32), key="one")
    out = g.op(ADD, x, constant, g.int(1), g.tensor((3,)))
    g.inputs(x)
    g.outputs(out)
    return g


def check_named(program: Path, data: list[Path], blamed: str) -> None:
    for act in (webpte.load, webpte.inspect, webpte.forecast):
        on: dict[str, Any] = {} if act is webpte.inspect else {"device": "numpy"}
        with pytest.raises((errors.FormatError, errors.GraphError)) as caught:
            wait(act(program, data=data, **on))
        assert str(caught.value).startswith(f"{blamed}: ")
        assert str(caught.value).count(blamed) == 1


WHOLE = write_pte(chain(1))


@pytest.mark.parametrize(
    "contents",
    [b"not a program", b"PK\x03\x04" + bytes(90), WHOLE[:20], WHOLE[:-200], b"\0\0\0\0BP08ab"],
    ids=["text", "zip", "header", "cut off", "bundle"],
)
def test_a_program_is_named(contents: bytes, tmp_path: Path) -> None:
    program = tmp_path / "odd.pte"
    program.write_bytes(contents)
    check_named(program, [], "odd.pte")


def test_a_file_of_constants_is_named(tmp_path: Path) -> None:
    program, first, second = (tmp_path / name for name in ("net.pte", "first.ptd", "second.ptd"))
    program.write_bytes(write_pte(with_constant(), external_constants=True))
    first.write_bytes(write_ptd({"other": np.ones(3, np.float32)}))
    whole = write_ptd({"one": np.ones(3, np.float32)})
    for damaged in (whole[:-4], whole[:20], WHOLE, b""):
        second.write_bytes(damaged)
        check_named(program, [first, second], "second.ptd")
    check_named(program, [first], "net.pte")  # no file has the constant


def test_the_error_is_still_what_it_was(tmp_path: Path) -> None:
    program = tmp_path / "odd.pte"
    program.write_bytes(b"PK\x03\x04" + bytes(90))
    with pytest.raises(errors.OtherFileError) as caught:
        wait(webpte.inspect(program))
    assert caught.value.kind == "a zip archive"
    assert caught.value.offset == 4


@pytest.mark.parametrize(("asked", "told"), [("", "odd.pte: "), ("chat=", "chat: odd.pte: ")])
def test_a_model_of_the_api_is_named(asked: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "odd.pte").write_bytes(WHOLE[:20])
    (tmp_path / "tokenizer.json").write_bytes(tokenizer_path(BYTES).read_bytes())
    with pytest.raises(InputError) as caught:
        wait(open_model(f"{asked}{tmp_path / 'odd.pte'}", "numpy", 1, 1))
    assert str(caught.value).startswith(told)
    assert str(caught.value).count("odd") == 1

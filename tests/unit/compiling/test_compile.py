"""Compiled programs: the files of the folder, and what cannot be compiled."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import webpte
from support.write.pte_writer import GraphWriter, write_pte
from webpte.errors import InputError, SourceError, UnsupportedError
from webpte_host.base.layout import ROOT

DIGITS = ROOT / "web" / "samples" / "digits.pte"


def compiled(source: Any, out: Path, **options: Any) -> dict[str, Any]:
    """Compile a program, and return its description."""
    asyncio.run(webpte.compile(source, out, **options))
    table: dict[str, Any] = json.loads((out / "program.json").read_text("utf-8"))
    return table


def indexed(rows: int) -> bytes:
    """Write a program that looks rows up."""
    g = GraphWriter()
    index, y = g.tensor((3,), "int32"), g.tensor((3, 4))
    numbers = np.arange(4 * rows, dtype=np.float32).reshape(rows, 4)
    table = g.prepack(g.tensor((rows, 4), constant=numbers))
    g.op("aten.embedding.default", table, index, g.int(-1), g.bool_(False), g.bool_(False), y)
    g.inputs(index)
    g.outputs(y)
    return write_pte(g)


def test_the_folder_of_a_program(tmp_path: Path) -> None:
    made = asyncio.run(webpte.compile(DIGITS, tmp_path / "out"))
    assert made.methods == ("forward",)
    on_disk = {
        path.relative_to(made.folder).as_posix(): path.stat().st_size
        for path in made.folder.rglob("*")
        if path.is_file()
    }
    assert made.sizes == on_disk
    assert (made.folder / "digits.pte").read_bytes() == DIGITS.read_bytes()
    table = json.loads((made.folder / "program.json").read_text("utf-8"))
    assert table["name"] == "digits.pte"
    assert table["files"] == [{"name": "digits.pte", "bytes": DIGITS.stat().st_size}]
    assert table["device"] == {"features": [], "limits": {}}
    (plan,) = table["methods"]["forward"]["plans"]
    assert plan["shapes"] == [[1, 1, 28, 28]]
    assert plan["results"][0]["shape"] == [1, 10]
    assert len(plan["labels"]) == len(plan["dispatches"]) > 3
    assert "conv" in plan["labels"][0]
    for kernel in table["kernels"]:
        assert "fn main(" in (made.folder / kernel["wgsl"]).read_text("utf-8")


def test_constants_are_ranges_of_the_file(tmp_path: Path) -> None:
    table = compiled(indexed(5), tmp_path / "out", name="rows.pte")
    ((_, file, offset, size, convert),) = table["constants"]
    data = (tmp_path / "out" / table["files"][file]["name"]).read_bytes()
    assert convert is None
    found = np.frombuffer(data[offset : offset + size], np.float32)
    assert found.tolist() == list(range(20))


def test_computed_constants_have_a_file_of_their_own(tmp_path: Path) -> None:
    table = compiled(ROOT / "tests/data/format/xnnpack_unet.pte", tmp_path / "out")
    names = [file["name"] for file in table["files"]]
    own, computed = names
    assert own == "xnnpack_unet.pte"
    assert computed.startswith("constants-")
    ends = [row[2] + row[3] for row in table["constants"] if names[row[1]] == computed]
    assert max(ends) == table["files"][1]["bytes"] == (tmp_path / "out" / computed).stat().st_size


def test_indices_are_checked_by_the_host(tmp_path: Path) -> None:
    (plan,) = compiled(indexed(7), tmp_path / "out")["methods"]["forward"]["plans"]
    (fault,) = plan["faults"]
    ((at, low, high),) = fault["inputs"]
    assert (at, high) == (0, 6)
    assert low in (0, -7)
    assert "an index is out of range" in fault["message"]


def test_a_kernel_on_the_host_is_refused_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"because these run there: .*aten::gt\.Scalar_out"):
        compiled(ROOT / "tests/data/kernels/cond.pte", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert list(tmp_path.iterdir()) == []


def test_other_folders_are_not_replaced(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine.txt").write_text("mine")
    with pytest.raises(SourceError, match="has other files: name a folder that is new"):
        compiled(DIGITS, out)
    assert (out / "mine.txt").read_text() == "mine"


def test_an_earlier_output_is_replaced(tmp_path: Path) -> None:
    compiled(DIGITS, tmp_path / "out")
    compiled(indexed(3), tmp_path / "out", name="rows.pte")
    assert not (tmp_path / "out/digits.pte").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_methods_that_return_values_of_the_file(tmp_path: Path) -> None:
    program = write_pte(constant_methods={"get_size": 128})
    table = compiled(program, tmp_path / "out", name="size.pte")
    assert table["methods"]["get_size"]["values"] == [128]


def test_a_plan_for_each_shape(tmp_path: Path) -> None:
    g = GraphWriter()
    x, y = g.tensor((4, 3)), g.tensor((4, 3))
    for value_id in (x, y):
        g.host(value_id, dynamic=True)
    g.op("aten.relu.default", x, y)
    g.inputs(x)
    g.outputs(y)
    program = write_pte(g)
    calls = [[np.zeros((rows, 3), np.float32)] for rows in (4, 2, 4)]
    table = compiled(program, tmp_path / "out", examples={"forward": calls})
    plans = table["methods"]["forward"]["plans"]
    assert [plan["shapes"] for plan in plans] == [[[4, 3]], [[2, 3]]]
    assert [plan["results"][0]["shape"] for plan in plans] == [[4, 3], [2, 3]]
    with pytest.raises(InputError, match="at most 32 can be compiled"):
        compiled(program, tmp_path / "out", examples={"forward": calls * 20})

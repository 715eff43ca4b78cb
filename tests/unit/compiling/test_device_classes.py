"""Classes of devices: which a program is compiled for, and what each asks of a GPU."""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import webpte
from support.write.pte_writer import GraphWriter, write_pte
from webpte.compiling.device_classes import CLASSES, LEAST, MOST
from webpte.engine.gpu import self_test
from webpte_host.base.layout import ROOT

Row = dict[str, Any]


def rows_of(source: Any, out: Path) -> dict[str, Row]:
    """Compile a program; return its rows of devices by file."""
    asyncio.run(webpte.compile(source, out, name="program.pte"))
    rows = json.loads((out / "devices.json").read_text("utf-8"))
    assert all((out / row["file"]).is_file() for row in rows)
    return {row["file"]: row for row in rows}


def halves() -> bytes:
    """Write a program that adds numbers of f16, which GPUs without them store as f32."""
    g = GraphWriter()
    x, y = g.tensor((5, 8), "float16"), g.tensor((5, 8), "float16")
    g.op("aten.add.Tensor", x, x, g.int(1), y)
    g.inputs(x)
    g.outputs(y)
    return write_pte(g)


def test_a_program_without_features_has_one_description_for_gpus(tmp_path: Path) -> None:
    rows = rows_of(ROOT / "web" / "samples" / "digits.pte", tmp_path / "out")
    assert list(rows) == ["software.json", "program.json"]
    assert not any("test" in row for row in rows.values())


def test_numbers_of_f16_are_stored_as_they_are_where_gpus_have_them(tmp_path: Path) -> None:
    rows = rows_of(halves(), tmp_path / "out")
    assert list(rows) == ["software.json", "f16.json", "program.json"]
    assert rows["f16.json"]["features"] == ["shader-f16"]
    assert "packedDot" not in rows["f16.json"]
    stored = {}
    for file in ("f16.json", "program.json"):
        table = json.loads((tmp_path / "out" / file).read_text("utf-8"))
        (plan,) = table["methods"]["forward"]["plans"]
        stored[file] = plan["packed"][0][1]
    assert stored == {"f16.json": "float16", "program.json": "float32"}


def test_matrices_are_asked_for_with_their_subgroup(tmp_path: Path) -> None:
    rows = rows_of(ROOT / "tests/data/llm/llama_tiny_q4.pte", tmp_path / "out")
    found = rows["desktop-matrices.json"]
    assert found["matrices"] == ["f16 f32 16x16x16"]
    assert found["subgroup"] == 32
    assert "chromium-experimental-subgroup-matrix" in found["features"]


def test_a_self_test_has_the_bytes_that_python_expects(tmp_path: Path) -> None:
    row = rows_of(halves(), tmp_path / "out")["f16.json"]
    table = json.loads((tmp_path / "out" / row["test"]).read_text("utf-8"))
    assert table["device"] == {name: row[name] for name in ("features", "limits")}
    (f16,) = [one for one in CLASSES if one.file == "f16.json"]
    (wanted,) = [one for one in self_test.trials(f16.info) if one.kernel == "f16"]
    (_, _, sent), (name, _, received) = table["expected"]
    assert name == self_test.F16
    assert b64decode(sent) == wanted.values.tobytes()
    assert np.array_equal(np.frombuffer(b64decode(received), np.float16), wanted.expected[name])


@pytest.mark.parametrize("one", CLASSES, ids=lambda one: str(one.file))
def test_each_class_has_a_class_that_asks_for_less(one: Any) -> None:
    assert one is LEAST or one.info.software or LEAST.asks_less(one)
    assert not any(MOST.asks_less(other) for other in CLASSES if other is not MOST)

"""docs/inspecting.md: its examples run, one after the other."""

from __future__ import annotations

import ast
import inspect
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import webpte
from support.chats import Q4
from support.graphs import wait
from support.inspecting import APART
from webpte.gpu.recording import RecordingDevice

DOCUMENT = (Path(__file__).parents[3] / "docs/inspecting.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", DOCUMENT, re.S)


def test_the_examples_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert len(EXAMPLES) == 7

    async def run() -> None:
        device = RecordingDevice(features=("timestamp-query",))
        scope: dict[str, Any] = {"np": np, "program": await webpte.load(Q4, device=device, **APART)}
        for example in EXAMPLES:
            code = compile(example, "inspecting.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            result = eval(code, scope)
            if inspect.isawaitable(result):
                await result

    wait(run())
    printed = capsys.readouterr().out
    assert "layer x2" in printed
    assert "all agree" in printed
    assert "bytes on the GPU" in printed
    assert json.loads((tmp_path / "trace.json").read_text(encoding="utf-8"))["traceEvents"]


def test_every_attribute_in_the_text_exists() -> None:
    types = {
        "graph": webpte.insight.MethodGraph,
        "comparison": webpte.insight.Comparison,
        "trace": webpte.insight.Trace,
        "memory": webpte.insight.MemoryReport,
        "program": webpte.Program,
    }
    named = re.findall(r"`(\w+)\.(\w+)", DOCUMENT)
    found = [(owner, name) for owner, name in named if owner in types]
    assert len(found) > 5
    for owner, name in found:
        fields = getattr(types[owner], "__dataclass_fields__", {})
        assert name in fields or hasattr(types[owner], name), (owner, name)

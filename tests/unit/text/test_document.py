"""docs/text.md: its examples run, one after the other."""

from __future__ import annotations

import ast
import inspect
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

import webpte
from support.chats import Q4
from support.graphs import wait
from support.make_tokenizers import SPECIAL
from support.texts import BYTES, FOLDER

DOCUMENT = (Path(__file__).parents[3] / "docs/text.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", DOCUMENT, re.S)


def test_the_examples_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(FOLDER / BYTES, tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    assert len(EXAMPLES) == 8

    async def run() -> None:
        scope: dict[str, Any] = {"special_tokens": SPECIAL}
        scope["program"] = await webpte.load(Q4, device="numpy")
        for example in EXAMPLES:
            code = compile(example, "text.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            result = eval(code, scope)
            if inspect.isawaitable(result):
                await result
        assert scope["mask"].tolist()[1][-1] == 1
        assert [m["role"] for m in scope["chat"].messages] == []

    wait(run())
    assert "'role': 'assistant'" in capsys.readouterr().out


def test_names_in_the_text_exist() -> None:
    for name in re.findall(r"`webpte\.(text|llm)\.(\w+)`", DOCUMENT):
        assert hasattr(getattr(webpte, name[0]), name[1]), name
    for name in re.findall(r"`reply\.(?:stats\.)?(\w+)`", DOCUMENT):
        fields = {"text", "tokens", "stats", "ended", "logprobs"} | set(
            webpte.llm.ReplyStats.__annotations__
        )
        assert name in fields

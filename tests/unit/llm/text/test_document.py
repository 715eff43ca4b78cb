"""docs/use/chat.md: the names in it exist. tests/unit/docs runs its examples."""

from __future__ import annotations

import re
from pathlib import Path

import webpte

DOCUMENT = (Path(__file__).parents[4] / "docs/use/chat.md").read_text(encoding="utf-8")


def test_names_in_the_text_exist() -> None:
    for name in re.findall(r"`webpte\.(text|llm)\.(\w+)`", DOCUMENT):
        assert hasattr(getattr(webpte, name[0]), name[1]), name
    for name in re.findall(r"`reply\.(?:stats\.)?(\w+)`", DOCUMENT):
        fields = {"text", "tokens", "stats", "ended", "logprobs"} | set(
            webpte.llm.ReplyStats.__annotations__
        )
        assert name in fields

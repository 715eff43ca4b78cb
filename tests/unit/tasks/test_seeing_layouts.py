"""Models that see pictures, in several programs or with methods of other names."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import webpte
from support.harness.hub_site import HubSite
from support.harness.image_text_cases import HIGH, made, models_folder, user
from support.llm import seeing_layouts

QUESTION = [made(user(HIGH, "What is in the picture?"))]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubSite]:
    with HubSite() as site:
        monkeypatch.setenv("HF_ENDPOINT", site.url)
        monkeypatch.setenv("WEBPTE_HUB_CACHE", str(tmp_path / "cache"))
        for name, files in seeing_layouts.repositories().items():
            site.add(name, files)
        yield site


async def answered(source: str | Path) -> str:
    async with await webpte.tasks.open(source, device="numpy") as task:
        assert task.name == "image-text-to-text"
        (found,) = await task(QUESTION, max_new_tokens=6)
        text: str = found["generated_text"][-1]["content"]
        return text


@pytest.mark.parametrize("name", [seeing_layouts.PARTS, seeing_layouts.RUNNER])
def test_a_repository_answers_questions_about_pictures(site: HubSite, name: str) -> None:
    expected = asyncio.run(answered(models_folder() / seeing_layouts.MODEL))
    assert asyncio.run(answered(f"hf:{name}")) == expected

"""Models that see pictures, in several programs or with methods of other names."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import webpte
from support.harness.image_text_cases import HIGH, made, models_folder, user
from support.hub.hub_site import HubSite
from support.llm import seeing_layouts
from support.llm.seeing_layouts import expected_tokens
from support.write.pte_writer import write_pte
from webpte.errors import InputError, UnsupportedError
from webpte.llm import Generator
from webpte.llm.program_signature import prompt_method

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


@pytest.mark.parametrize("name", [seeing_layouts.PASSED, seeing_layouts.STEPS])
def test_caches_are_passed_from_call_to_call(site: HubSite, name: str) -> None:
    pixels = np.random.default_rng(1).random((1, 3, 16, 16), np.float32)

    async def run() -> None:
        async with await webpte.load(f"hf:{name}", device="numpy") as program:
            webpte.text.check_fits(
                await webpte.text.load_tokenizer(f"hf:{name}"), program, "decoder"
            )
            generator = Generator(program)
            picture = generator.picture(pixels)
            conversation = [7, 8, *picture.tokens, 9, 10, 11]
            for reused in (0, 13):
                answer = generator.generate(conversation, 4)
                found = [token async for token in answer]
                assert found == await expected_tokens(program, pixels, conversation, 4)
                assert answer.stats.reused_tokens == reused
                assert "passes its caches" in (answer.stats.step_by_step or "")
                conversation += [*found, 12, 13]
            # Caches of another text are of no use.
            edited = [*conversation[:7], 20, 21]
            found = [token async for token in generator.generate(edited, 3)]
            assert found == await expected_tokens(program, pixels, edited, 3)
            with pytest.raises(InputError, match="are over the 64 that"):
                await generator.prefill([7] * 65)
            generator.reset()
            with pytest.raises(UnsupportedError, match="passes its caches"):
                await generator.save()
        for option in ({"max_context": 32}, {"kv_cache": "f16"}):
            with pytest.raises(InputError, match="take and give back their caches, in the sizes"):
                await webpte.llm.load(f"hf:{name}", device="numpy", **option)

    asyncio.run(run())


def test_questions_are_answered_with_passed_caches(site: HubSite) -> None:
    both = [
        asyncio.run(answered(f"hf:{one}")) for one in (seeing_layouts.PASSED, seeing_layouts.STEPS)
    ]
    assert both[0] == both[1] != ""


def test_a_program_for_prompts_that_tells_no_row_is_left_out() -> None:
    """The program for steps takes a prompt if logits of padding are all that another gives."""
    parts = {"prefill": seeing_layouts.prompt(last=True), "decoder": seeing_layouts.step()}

    async def run() -> None:
        async with await webpte.load(write_pte(methods=parts), device="numpy") as program:
            assert prompt_method(program, "decoder") is None
            assert prompt_method(program, "prefill") is None

    asyncio.run(run())

"""The shipped samples: their cards are correct, and their programs give PyTorch's results."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import numpy as np
import pytest

import webpte
from webpte_export.samples.results import unpack
from webpte_host.base.layout import ROOT

SAMPLES = ROOT / "web" / "samples"
RESULTS = ROOT / "tests" / "data" / "samples"
NAMES = sorted(path.stem for path in RESULTS.glob("*.npz"))
MOST_BYTES = 2_400_000
FIELDS = {"name", "title", "task", "licence", "size", "files", "view", "inputs", "outputs", "about"}


def card_of(name: str) -> dict[str, Any]:
    card: dict[str, Any] = json.loads((SAMPLES / f"{name}.json").read_text(encoding="utf-8"))
    return card


def test_every_card_has_results_and_all_together_are_small() -> None:
    cards = {path.stem for path in SAMPLES.glob("*.json") if "." not in path.stem}
    assert cards >= set(NAMES) == {"digits", "notes", "photo", "stories", "words"}
    assert sum(path.stat().st_size for path in SAMPLES.iterdir()) < MOST_BYTES


@pytest.mark.parametrize("name", NAMES)
def test_a_card_tells_what_is_there(name: str) -> None:
    card = card_of(name)
    assert set(card) >= FIELDS
    assert card["name"] == name
    assert all((SAMPLES / file).is_file() for file in card["files"].values())
    program = SAMPLES / card["files"]["program"]
    assert card["size"] == program.stat().st_size
    forward = asyncio.run(webpte.inspect(program))["forward"]
    assert len(card["inputs"]) == len(forward.inputs)
    assert len(card["outputs"]) == len(forward.outputs)
    for told, output in zip(card["outputs"], forward.outputs, strict=True):
        assert isinstance(output, webpte.TensorInfo)
        assert len(told.get("labels", [])) in (0, output.shape[-1])


@pytest.mark.parametrize("name", NAMES)
def test_a_program_computes_what_pytorch_did(name: str) -> None:
    async def differences() -> list[float]:
        async with await webpte.load(SAMPLES / f"{name}.pte", device="numpy") as program:
            found = []
            for call in unpack(RESULTS / f"{name}.npz"):
                outputs = await program.forward(*call.inputs)
                for output, wanted in zip(outputs, call.outputs, strict=True):
                    assert output.shape == wanted.shape
                    found.append(float(np.abs(output - wanted).max()))
            return found

    assert max(asyncio.run(differences())) < 1e-4


def said(questions: list[str], most: int) -> list[tuple[str, str | None]]:
    """Return the successive answers of `stories` in one conversation, and how each ended."""

    async def talk() -> list[tuple[str, str | None]]:
        files = {kind: SAMPLES / name for kind, name in card_of("stories")["files"].items()}
        tokenizer = await webpte.text.load_tokenizer(
            files["tokenizer"], config=files["tokenizer_config"]
        )
        async with await webpte.load(files["program"], device="numpy") as program:
            chat = webpte.llm.Chat(program, tokenizer)
            answers = []
            for question in questions:
                reply = chat.send(question, most)
                answers.append((await reply, reply.ended))
            return answers

    return asyncio.run(talk())


@pytest.mark.parametrize(
    "questions",
    [
        {"What is the opposite of big?": "The opposite of big is small."},
        {"What does a cow say?": "A cow says moo!", "What is 2 + 3?": "Two plus three is five."},
    ],
)
def test_stories_answers_what_it_learned(questions: dict[str, str]) -> None:
    assert said(list(questions), 40) == [(answer, "stop") for answer in questions.values()]

"""Whispers in the layouts of published repositories become transcripts, by one name."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import webpte
from support.hub.hub_site import HubSite
from support.llm import whisper_layouts as layouts
from support.llm.small_seq2seq import SPOKEN, kept, text_of
from support.llm.small_seq2seq import sound as small_sound
from support.write.pte_writer import write_pte
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.errors import InputError
from webpte.tasks.sound.speech import Whisper
from webpte.tasks.sound.speech_recognition import SpeechRecognition

MANSION = "software-mansion/whisper-tiny-ExecuTorch"
PAIR = "someone/Whisper-tiny-ExecuTorch"
OFFICIAL = "executorch-community/Whisper-Tiny-ExecuTorch-WebGPU"


@pytest.fixture(scope="module")
def running() -> Iterator[HubSite]:
    with HubSite() as site:
        for name, files in layouts.repositories().items():
            site.add(name, files)
        yield site


@pytest.fixture
def site(running: HubSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HubSite:
    monkeypatch.setenv("HF_ENDPOINT", running.url)
    monkeypatch.setenv("WEBPTE_HUB_CACHE", str(tmp_path / "cache"))
    return running


def ask(name: str, sound: np.ndarray, device: Any = "numpy", **options: Any) -> tuple[str, Any]:
    async def work() -> tuple[str, Any]:
        async with await webpte.tasks.open(f"hf:{name}", device=device) as task:
            return task.name, await task(sound, **options)

    return asyncio.run(work())


@pytest.mark.parametrize("device", ["numpy", "gpu"])
@pytest.mark.parametrize(("name", "kind"), [(MANSION, "methods"), (OFFICIAL, "parts")])
def test_samples_are_heard(site: HubSite, name: str, kind: str, device: str) -> None:
    for seed in (0, 3):
        sound = layouts.sound(seed)
        on = "numpy" if device == "numpy" else SimulatedDevice()
        task, found = ask(name, sound, on, language="en")
        assert (task, found["text"]) == ("automatic-speech-recognition", layouts.heard(sound, kind))
    assert found["text"]


@pytest.mark.parametrize("name", ["someone/whisper-optimum", "someone/whisper-parts"])
def test_exports_of_whisper_are_heard(site: HubSite, name: str) -> None:
    case, number = SPOKEN[1], 1
    task, found = ask(name, small_sound(case.seconds), language=case.language)
    assert task == "automatic-speech-recognition"
    assert found["text"] == text_of(kept("whisper")[f"texts{number}"].tolist())


def test_languages_come_from_the_tokenizer(site: HubSite) -> None:
    async def work() -> None:
        async with await webpte.tasks.open(f"hf:{MANSION}", device="numpy") as task:
            assert isinstance(task, SpeechRecognition)
            assert task.languages == ["en", "de"]
            assert isinstance(task._model, Whisper)
            assert await task._model.language_of(layouts.sound()) in task.languages
            with pytest.raises(InputError, match="the language 'fr' is not one of en, de"):
                await task(layouts.sound(), language="fr")

    asyncio.run(work())


def test_answers_end_with_the_room(site: HubSite) -> None:
    found = ask(OFFICIAL, layouts.sound(), language="en", max_new_tokens=3)[1]["text"]
    assert found == " ".join(layouts.heard(layouts.sound(), "parts").split()[:3])


def open_parts(folder: Path, **parts: Any) -> webpte.tasks.Task:
    for name, graph in parts.items():
        (folder / f"{name}.pte").write_bytes(write_pte(graph))
    (folder / "tokenizer.json").write_bytes(layouts.tokenizer())
    first, *others = (folder / f"{name}.pte" for name in parts)

    async def work() -> webpte.tasks.Task:
        return await webpte.tasks.open(
            "automatic-speech-recognition", first, device="numpy", data=others
        )

    return asyncio.run(work())


def test_parts_that_do_not_fit_are_told(tmp_path: Path) -> None:
    whole = (1, 8, layouts.SAMPLES // 8)
    for parts, told in (
        ({"mel": layouts.mel(), "decoder": layouts.step(1, True)}, "has no encoder"),
        ({"mel": layouts.mel(), "encoder": layouts.encoder(whole)}, "has no decoder for whole"),
        (
            {"encoder": layouts.encoder(whole), "decoder": layouts.step(1, True)},
            "a decoder takes tokens",
        ),
        (
            {
                "encoder": layouts.encoder(whole),
                "cross": layouts.cross_kv(),
                "decoder": layouts.step(1, True),
            },
            "no decoder for whole answers",
        ),
        ({"mel": layouts.mel(), "encoder": layouts.encoder((1, 3))}, "'mel' gives"),
    ):
        with pytest.raises(InputError, match=told):
            open_parts(tmp_path, **parts)


def test_other_tokenizers_are_told(tmp_path: Path, site: HubSite) -> None:
    files = {**site.repositories[MANSION], "tokenizer.json": layouts.plain_tokenizer()}
    site.add("a/b", files)
    with pytest.raises(InputError, match="the tokenizer is not Whisper's"):
        ask("a/b", layouts.sound())

"""text-to-speech: the sound of transformers with the same noise, and refused inputs."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import webpte
from support.harness.sounds import LETTERS, SAID, SPOKEN, voices_folder
from webpte.engine.files.json_reader import Table
from webpte.errors import InputError, SourceError, UnsupportedError
from webpte.tasks.sound.speech.vits_tokens import VitsTokens
from webpte.tasks.sound.text_to_speech import TextToSpeech

NAME = "text-to-speech"


async def opened(folder: Path) -> TextToSpeech:
    task = await webpte.tasks.open(NAME, folder, device="numpy")
    assert isinstance(task, TextToSpeech)
    return task


class Replay:
    """Noise as a model drew it."""

    def __init__(self, kept: Any, number: int) -> None:
        self._kept, self._number, self._at = kept, number, 0

    def __call__(self, shape: tuple[int, ...]) -> np.ndarray:
        found: np.ndarray = self._kept[f"noise{self._number}_{self._at}"]
        self._at += 1
        assert found.shape == shape
        return found


@pytest.mark.parametrize("number", range(len(SAID)))
def test_speech_is_that_of_transformers(number: int) -> None:
    voice, text, options = SAID[number]

    async def run() -> None:
        with np.load(SPOKEN) as kept:
            async with await opened(voices_folder() / voice) as task:
                said = await task(text, **options, draw=Replay(kept, number))
            assert said["sampling_rate"] == kept[f"rate{number}"] == task.rate
            wanted = kept[f"audio{number}"]
            assert said["audio"].shape == wanted.shape
            assert np.abs(wanted).max() > 0.01
            np.testing.assert_allclose(said["audio"], wanted, atol=2e-4)

    asyncio.run(run())


def test_noise_seeds_and_sentences() -> None:
    async def run() -> None:
        async with await opened(voices_folder() / "drawn") as task:
            once, again = [await task("hello", seed=4) for _ in range(2)]
            assert np.array_equal(once["audio"], again["audio"])
            other = await task("hello", seed=5)
            assert len(other["audio"]) != len(once["audio"]) or not np.array_equal(
                other["audio"], once["audio"]
            )
            still: dict[str, Any] = {"noise_scale": 0, "noise_scale_duration": 0}
            one, two = await task(["hello", "you"], **still)
            assert np.array_equal(one["audio"], (await task("hello", **still, seed=9))["audio"])
            parts = [part async for part in task.stream("Hello. ?! You", **still)]
            assert [part["text"] for part in parts] == ["Hello.", "You"]
            assert np.array_equal(parts[1]["audio"], two["audio"])
            slow = await task("hello", **still, speaking_rate=0.25)
            assert len(slow["audio"]) > 2 * len(one["audio"])

    asyncio.run(run())


def test_what_cannot_be_spoken_is_told(tmp_path: Path) -> None:
    async def run() -> None:
        async with await opened(voices_folder() / "drawn") as task:
            for text, options, said in (
                (7, {}, "a text is a str"),
                ("", {}, "speaks 2 to"),
                ("a" * 80, {}, r"161 tokens.*use stream\(\)"),
                ("hello you", {"speaking_rate": 0.01}, "frames.*at most"),
                ("hello", {"speaking_rate": 0}, "above 0"),
                ("hello", {"noise_scale": -1}, "from 0 on"),
                ("hello", {"noise_scale_duration": float("nan")}, "from 0 on"),
            ):
                given: dict[str, Any] = options
                with pytest.raises(InputError, match=said):
                    await task(text, **given)
        folder = shutil.copytree(voices_folder() / "drawn", tmp_path / "voice")
        settings = json.loads((folder / "tokenizer_config.json").read_text())
        (folder / "tokenizer_config.json").write_text(json.dumps(settings | {"phonemize": True}))
        with pytest.raises(UnsupportedError, match="phonemes"):
            await opened(folder)
        (folder / "vocab.json").unlink()
        with pytest.raises(SourceError, match=r"no vocab\.json"):
            await opened(folder)

    asyncio.run(run())


def tokens(**settings: Any) -> VitsTokens:
    vocabulary = {letter: number for number, letter in enumerate(LETTERS)}
    usual = {"phonemize": False, **settings}
    return VitsTokens(
        Table(vocabulary, "vocab.json", InputError),
        Table(usual, "tokenizer_config.json", InputError),
    )


@pytest.mark.parametrize("number", range(len(SAID)))
def test_tokens_are_those_of_transformers(number: int) -> None:
    with np.load(SPOKEN) as kept:
        assert tokens().encode(SAID[number][1]) == kept[f"tokens{number}"].tolist()


def test_rules_of_the_tokenizer() -> None:
    assert tokens().letters("  HÉLlo, É World 7! ") == "hÉllo É world"
    assert tokens(add_blank=False).encode("so") == [LETTERS.index("s"), LETTERS.index("o")]
    unknown = LETTERS.index("<unk>")
    plain = tokens(normalize=False, add_blank=False)
    assert plain.encode("sX") == [LETTERS.index("s"), unknown]
    with pytest.raises(InputError, match="does not know 'X'"):
        tokens(normalize=False, unk_token="?").encode("sX")
    with pytest.raises(UnsupportedError, match="Latin"):
        tokens(is_uroman=True).encode("東京")
    with pytest.raises(InputError, match="no letters"):
        VitsTokens(Table({}, "vocab.json", InputError), Table({}, "x.json", InputError))

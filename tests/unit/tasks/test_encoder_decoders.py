"""Tasks of encoder-decoder models: transformers' answers as text, and refused inputs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

import webpte
from support.graphs.graphs import wait
from support.harness import extent
from support.llm.small_seq2seq import (
    RATE,
    SPOKEN,
    kept,
    sound,
    text_answers,
    text_of,
    write_folder,
)
from webpte.errors import InputError, VocabularyError

NEW = 12
PAIRS = {
    "summarization": {"prefix": "w5 "},
    "translation_en_to_fr": {"prefix": "w6 w7 "},
}


async def opened(name: str, folder: Path) -> webpte.tasks.Task:
    return await webpte.tasks.open(name, folder, device="numpy")


@pytest.mark.parametrize(
    ("name", "key"),
    extent.some(
        [("translation", "translation_text")],
        ("text2text-generation", "generated_text"),
        ("summarization", "summary_text"),
    ),
)
def test_answers_are_those_of_transformers(tmp_path: Path, name: str, key: str) -> None:
    async def run() -> None:
        async with await opened(name, write_folder(tmp_path, "t5", 41)) as task:
            texts, answers = text_answers("t5", 2)
            found = await task(texts, max_new_tokens=NEW)
            assert found == [{key: answer} for answer in answers]
            alone = await asyncio.gather(*(task(text, max_new_tokens=NEW) for text in texts))
            assert [one for (one,) in alone] == found

    wait(run())


def test_prefixes_come_from_the_config(tmp_path: Path) -> None:
    async def run() -> None:
        folder = write_folder(tmp_path, "t5", 41, task_specific_params=PAIRS)
        async with await opened("text2text-generation", folder) as plain:
            wanted = [
                (await plain(f"{prefix}w9 w10", max_new_tokens=NEW))[0]["generated_text"]
                for prefix in ("w5 ", "w6 w7 ", "")
            ]
        async with await opened("summarization", folder) as task:
            found = [await task("w9 w10", max_new_tokens=NEW)]
        async with await opened("translation", folder) as task:
            found.append(await task("w9 w10", src_lang="en", tgt_lang="fr", max_new_tokens=NEW))
            found.append(await task("w9 w10", max_new_tokens=NEW))
            with pytest.raises(InputError, match="translation_en_to_de"):
                await task("w9", src_lang="en", tgt_lang="de")
        assert [next(iter(one.values())) for (one,) in found] == wanted

    wait(run())


def test_texts_that_are_none_or_too_long(tmp_path: Path) -> None:
    async def run() -> None:
        async with await opened("summarization", write_folder(tmp_path, "t5", 41)) as task:
            long = text_of([7] * 40)
            with pytest.raises(InputError, match=r"has 40 tokens.*takes 32.*truncation=True"):
                await task(long)
            cut = await task(long, truncation=True, max_new_tokens=NEW)
            assert cut == await task(text_of([7] * 32), max_new_tokens=NEW)
            with pytest.raises(InputError, match="a text is a str"):
                await task(7)
            with pytest.raises(InputError, match="0 tokens"):
                await task("")

    wait(run())


@pytest.mark.parametrize("number", [0, 1])  # speech/test_whisper.py has the longer one
def test_transcripts_are_those_of_transformers(tmp_path: Path, number: int) -> None:
    async def run() -> None:
        case, found = SPOKEN[number], kept("whisper")
        name = "automatic-speech-recognition"
        async with await opened(name, write_folder(tmp_path, "whisper", 80)) as task:
            given = {"array": sound(case.seconds), "sampling_rate": RATE}
            told = await task(given, language=case.language, return_timestamps=True)
            plain = await task(given, language=case.language)
        assert plain.keys() == {"text"}
        if case.timestamps:
            texts, lengths = found[f"texts{number}"].tolist(), found[f"lengths{number}"].tolist()
            ends = np.cumsum(lengths).tolist()
            pairs = zip([0, *ends], ends, strict=False)
            assert [one["text"] for one in told["chunks"]] == [
                text_of(texts[first:end]) for first, end in pairs
            ]
            times = [one["timestamp"] for one in told["chunks"]]
            wanted = zip(found[f"starts{number}"], found[f"ends{number}"], strict=True)
            assert times == [(round(float(a), 2), round(float(b), 2)) for a, b in wanted]
            assert told["text"] == "".join(one["text"] for one in told["chunks"])
        else:
            assert plain["text"] == text_of(found[f"texts{number}"].tolist())

    wait(run())


def test_a_stream_that_waits_holds_up_nobody(tmp_path: Path) -> None:
    async def run() -> None:
        name = "automatic-speech-recognition"
        async with await opened(name, write_folder(tmp_path, "whisper", 80)) as task:
            wanted = (await task(sound(0.9), language="en", return_timestamps=True))["chunks"]
            stream = task.stream(sound(0.9), language="en")  # type: ignore[attr-defined]
            found = [await anext(stream)]
            other = await task(sound(0.5), language="de")
            assert other == await task(sound(0.5), language="de")
            found += [chunk async for chunk in stream]
            assert found == wanted

    wait(run())


def test_what_does_not_fit_is_told(tmp_path: Path) -> None:
    async def run() -> None:
        heard, read = tmp_path / "heard", tmp_path / "read"
        heard.mkdir()
        read.mkdir()
        write_folder(heard, "whisper", 80)
        write_folder(read, "t5", 60)
        with pytest.raises(InputError, match="takes no tokens"):
            await opened("translation", heard)
        with pytest.raises(VocabularyError, match="go up to 59"):
            await opened("translation", read)
        with pytest.raises(InputError, match=r"the tokenizer is not Whisper's"):
            await opened("automatic-speech-recognition", read)
        async with await opened("automatic-speech-recognition", heard) as task:
            with pytest.raises(InputError, match="no sampling_rate"):
                await task({"array": sound(0.1)})
            with pytest.raises(InputError, match="'fr' is not one of en, de"):
                await task(sound(0.1), language="fr")

    wait(run())

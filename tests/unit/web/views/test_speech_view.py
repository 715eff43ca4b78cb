"""The speech view: a microphone or a file becomes text, a text becomes sound."""

from __future__ import annotations

import asyncio
import io
import re
import wave
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import webpte
from page.app import App
from page.browser import Source
from page.core.engine import PageEngine
from page.views.speech.model import hears, speaks
from support.harness.sounds import HEARD_LETTERS, SPELLED_TEXTS, letters_folder, voices_folder
from support.harness.virtual_time import run_virtually
from support.llm.small_seq2seq import RATE, program_of, sound, write_files
from support.page.fake_page import FakeBrowser, File
from webpte.errors import SourceError

SILENCE = np.zeros(RATE, np.float32)
SPOKEN = np.concatenate([SILENCE, sound(0.4), SILENCE])


class SpeechBrowser(FakeBrowser):
    """A browser that finds a model's folder at http://site/model/."""

    folder = Path()

    async def fetch(self, url: str, *given: Any, **more: Any) -> Source:
        path = self.folder / url.rpartition("/")[2]
        if "/model/" not in url or not path.is_file():
            raise SourceError(f"{url}: the server answered 404 Not Found")
        return Source(path.name, path.stat().st_size, path, address=url)

    async def fetch_bytes(self, url: str) -> bytes:
        source = await self.fetch(url)
        data: bytes = source.data.read_bytes()
        return data

    async def hear(self, file: File, rate: int, longest: int) -> np.ndarray:
        assert rate == RATE
        return np.frombuffer(file.data, np.float32)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_files(tmp_path, "whisper", 80)
    (tmp_path / "model.pte").write_bytes(program_of("whisper"))
    return tmp_path


async def opened(app: App, browser: SpeechBrowser, folder: Path) -> None:
    browser.folder = folder
    await app.receive({"act": "device", "value": "numpy"})
    await app.receive({"act": "open-url", "fields": {"url": "http://site/model/model.pte"}})
    await app.receive({"act": "view", "name": "speech"})
    for _ in range(1000):
        if "disabled" not in browser.html.get("view-speech", "disabled"):
            return
        await asyncio.sleep(0)
    raise AssertionError(browser.html.get("view-speech", "it was not drawn"))


async def until_asked(browser: FakeBrowser) -> None:
    """Wait until samples are asked for."""
    for _ in range(1000):
        if "wanted" in browser.other.get("listen", {}):
            return
        await asyncio.sleep(0)
    raise AssertionError(browser.html.get("error", "nothing was asked for"))


def lines(browser: FakeBrowser) -> list[str]:
    return [
        " ".join(unescape(re.sub("<[^>]*>", " ", row)).split())
        for row in re.findall("<li>(.*?)</li>", browser.html.get("speech-text", ""))
    ]


def test_texts_of_the_microphone_are_those_of_the_task(folder: Path) -> None:
    async def script(app: App, browser: SpeechBrowser) -> None:
        await opened(app, browser, folder)
        assert 'data-acts="speech:"' in browser.html["view-speech"]
        await app.receive({"act": "speech:language", "value": "en"})
        listening = asyncio.ensure_future(app.receive({"act": "speech:open", "input": "speech"}))
        await until_asked(browser)
        for part in np.array_split(SPOKEN, 13):
            await app.receive({"act": "speech:part", "samples": part.tobytes()})
            assert browser.other["listen"]["wanted"] == 1600
        await app.receive({"act": "speech:close", "input": "speech"})
        await listening
        assert browser.other["listen"] == {"input": "speech", "ends": True}
        name = "automatic-speech-recognition"
        async with await webpte.tasks.open(name, folder, device="numpy") as task:
            heard = task.listen([SPOKEN], language="en")  # type: ignore[attr-defined]
            wanted = [one async for one in heard if one["final"]]
        assert len(wanted) == 1
        start, end = wanted[0]["timestamp"]
        assert lines(browser) == [f"{start:.1f} – {end:.1f} s {wanted[0]['text']}"]

    drive_with(script)


def test_a_file_is_transcribed_and_the_text_can_be_cleared(folder: Path) -> None:
    async def script(app: App, browser: SpeechBrowser) -> None:
        await opened(app, browser, folder)
        await app.receive({"act": "speech:language", "value": "de"})
        file = File("said.wav", sound(0.3).tobytes())
        await app.receive({"act": "speech:file", "files": [file]})
        name = "automatic-speech-recognition"
        async with await webpte.tasks.open(name, folder, device="numpy") as task:
            wanted = await task(sound(0.3), language="de", return_timestamps=True)
        found = lines(browser)
        assert [one.partition(" s ")[2] for one in found] == [
            one["text"] for one in wanted["chunks"]
        ]
        assert "Transcribed 0.3 s of said.wav" in browser.text["status"]
        await app.receive({"act": "speech:copy"})
        assert (
            browser.other["copy"]["text"].split()
            == " ".join(one["text"] for one in wanted["chunks"]).split()
        )
        await app.receive({"act": "speech:clear"})
        assert "<li>" not in browser.html["view-speech"]

    drive_with(script)


def test_a_microphone_can_be_cancelled_and_a_missing_file_is_told(folder: Path) -> None:
    async def script(app: App, browser: SpeechBrowser) -> None:
        await opened(app, browser, folder)
        listening = asyncio.ensure_future(app.receive({"act": "speech:open", "input": "speech"}))
        await until_asked(browser)
        await app.receive({"act": "cancel"})
        await listening
        assert browser.other["listen"] == {"input": "speech", "ends": True}
        (folder / "tokenizer.json").unlink()
        with pytest.raises(AssertionError):
            await opened(app, browser, folder)
        assert "has no tokenizer.json, which" in browser.html["view-speech"]

    drive_with(script)


def test_a_text_is_spoken() -> None:
    async def script(app: App, browser: SpeechBrowser) -> None:
        await opened(app, browser, voices_folder() / "steady")
        await app.receive({"act": "speech:speak", "fields": {"text": " "}})
        assert "Enter some text" in browser.text["status"]
        await app.receive({"act": "speech:speak", "fields": {"text": "Hello. You there!"}})
        assert "Spoke: " in browser.text["status"]
        assert "<audio" in browser.html["view-speech"]
        with wave.open(io.BytesIO(browser.links[-1])) as file:
            assert file.getframerate() == 8000
            assert file.getnframes() > 100

    drive_with(script)


def test_letters_are_transcribed() -> None:
    async def script(app: App, browser: SpeechBrowser) -> None:
        await opened(app, browser, letters_folder())
        file = File("said.wav", sound(HEARD_LETTERS[1]).tobytes())
        await app.receive({"act": "speech:file", "files": [file]})
        with np.load(SPELLED_TEXTS) as kept:
            wanted = str(kept["text1"])
        assert [one.partition(" s ")[2] for one in lines(browser)] == [wanted]

    drive_with(script)


def test_which_programs_hear_and_speak() -> None:
    async def script() -> None:
        async with await webpte.load(program_of("whisper"), device="numpy") as program:
            assert hears(program.methods)
            assert not speaks(program.methods)
        async with await webpte.load(program_of("t5"), device="numpy") as program:
            assert not hears(program.methods)
        letters = letters_folder() / "model.pte"
        async with await webpte.load(letters, device="numpy") as program:
            assert hears(program.methods)
            assert not speaks(program.methods)

    run_virtually(script())


def drive_with(script: Any) -> None:
    async def all_of_it() -> None:
        browser = SpeechBrowser()
        app = App(browser, PageEngine())
        await app.receive({"act": "hello"})
        await script(app, browser)

    run_virtually(all_of_it())

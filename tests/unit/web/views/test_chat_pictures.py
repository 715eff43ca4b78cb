"""Pictures in the page's chat: added, sent, kept, and refused; real programs on NumPy."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import webpte
from page.app import App
from page.core.engine import PageEngine
from page.shared.npy import write_npy
from page.views.chat import panel as chat_view
from page.views.chat import pictures as chat_pictures
from support.harness import extent
from support.harness.image_text_cases import models_folder
from support.harness.task_cases import make_picture
from support.page.chat_page import COUNT, act, found_tokenizer, open_chat, send, shown
from support.page.fake_page import Engine, FakeBrowser, File, drive, drop
from webpte.errors import DeviceLostError
from webpte.llm.decode.decoder import decoder_of
from webpte.tasks.vision.image_text import ImageTextToText

WIDE, HIGH = make_picture(23, 61), make_picture(67, 29)
FILES = ("model.pte", "config.json", "preprocessor_config.json", "tokenizer.json",
         "tokenizer_config.json")  # fmt: skip


def picture_file(name: str, pixels: np.ndarray) -> File:
    return File(name, write_npy(pixels))


async def open_seeing(app: App, model: str = "tiles", folder: Path | None = None) -> None:
    """Open a model that sees by its address, and bring the chat to the front."""
    where = (folder or models_folder() / model) / "model.pte"
    await app.receive({"act": "open-url", "fields": {"url": str(where)}})
    await app.receive({"act": "view", "name": "chat"})
    await ready(app)


async def ready(app: App) -> None:
    await found_tokenizer(app)
    for name, value in {"max_tokens": str(COUNT), "temperature": "0"}.items():
        await act(app, "set", name=name, value=value)


async def said_by_task(*asked: tuple[str, list[np.ndarray]], model: str = "tiles") -> list[str]:
    """Return the answers of the library's chat of the task."""
    where = models_folder() / model
    async with await webpte.tasks.open("image-text-to-text", where, device="numpy") as task:
        assert isinstance(task, ImageTextToText)
        chat = task.chat(when_full="slide")
        return [
            await chat.send(text, COUNT, pictures=pictures, temperature=0)
            for text, pictures in asked
        ]


def answers(browser: FakeBrowser) -> list[str]:
    return [text for who, text in shown(browser) if who == "assistant"]


def alts(browser: FakeBrowser, where: str = "chat-pictures") -> list[str]:
    """Return the names of the pictures that the log shows, or the composer."""
    found = re.findall(rf'class="{where}".*?</(?:div|ul)>', browser.html["view-chat"], re.S)
    return re.findall(r'alt="Picture (.*?)"', "".join(found))


@pytest.mark.parametrize("model", extent.some(["tiles"], "patches"))
def test_pictures_are_sent_with_the_text(model: str) -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_seeing(app, model)
        assert "Add picture" in browser.html["view-chat"]
        assert 'data-drop="chat:pictures"' in browser.html["view-chat"]
        files = [picture_file("a.png", WIDE), picture_file("b.png", HIGH)]
        await act(app, "pictures", files=files)
        assert alts(browser, "chat-attached") == ["a.png", "b.png"]
        await act(app, "remove", at="1")
        await send(app, "What is it?")
        assert alts(browser, "chat-attached") == []
        await drop(app, picture_file("c.jpg", HIGH))  # anywhere on the page, or pasted
        await send(app, "And this?")
        wanted = await said_by_task(("What is it?", [WIDE]), ("And this?", [HIGH]), model=model)
        assert answers(browser) == wanted
        assert wanted != await said_by_task(("What is it?", []), ("And this?", []), model=model)
        assert alts(browser) == ["a.png", "c.jpg"]
        assert not browser.html.get("error")
        await act(app, "enlarge", line="2", at="0")
        assert "c.jpg, 29 × 67 pixels" in browser.html["chat-enlarged"]
        assert browser.other["script"]["chat"] == {"enlarge": "chat-enlarged"}

    drive(script)


def test_a_picture_without_text_is_a_message() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_seeing(app)
        await send(app, " ")
        assert shown(browser) == []
        await act(app, "pictures", files=[picture_file("a.png", WIDE)])
        await send(app, "")
        assert answers(browser) == await said_by_task(("", [WIDE]))
        await act(app, "clear")
        assert 'value="Conversation"' in browser.html["view-chat"]  # its title in the list

    drive(script)


def test_pictures_stay_when_an_answer_is_repeated_or_a_message_edited() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_seeing(app)
        await act(app, "pictures", files=[picture_file("a.png", WIDE)])
        await send(app, "What is it?")
        (first,) = answers(browser)
        await act(app, "again")
        assert answers(browser) == [first]
        await send(app, "And then?")
        await act(app, "edit", line="0")
        assert alts(browser, "chat-attached") == ["a.png"]
        await act(app, "save", line="0", fields={"text": "Where?"})
        wanted = await said_by_task(("Where?", [WIDE]))
        assert answers(browser) == wanted
        await act(app, "clear")
        assert alts(browser) == []
        await app.receive({"act": "undo"})
        assert alts(browser) == ["a.png"]
        await act(app, "again")
        assert answers(browser) == wanted
        await act(app, "system", value="Be brief.")
        await act(app, "again")
        assert alts(browser) == ["a.png"]
        await act(app, "export", kind="md")
        assert b"**You**\n\n*Picture: a.png, 61 \xc3\x97 23 pixels*\n\nWhere?" in browser.links[-1]
        await act(app, "export", kind="json")
        saved = json.loads(browser.links[-1])["messages"]
        assert saved[1]["pictures"] == [{"name": "a.png", "height": 23, "width": 61}]

    drive(script)


def test_a_picture_is_removed_while_its_message_is_edited() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_seeing(app)
        files = [picture_file("a.png", WIDE), picture_file("b.png", HIGH)]
        await act(app, "pictures", files=files)
        await send(app, "What is it?")
        await send(app, "And then?")
        await act(app, "edit", line="0")
        assert alts(browser, "chat-attached") == ["a.png", "b.png"]
        await act(app, "remove", line="0", at="0")
        assert alts(browser, "chat-attached") == ["b.png"]
        assert browser.other["script"]["chat"]["focus"] == "chat-edited"
        await act(app, "leave")  # then nothing has changed
        assert alts(browser) == ["a.png", "b.png"]
        await act(app, "edit", line="0")
        await act(app, "remove", line="0", at="0")
        await act(app, "save", line="0", fields={"text": "What is it?"})
        assert answers(browser) == await said_by_task(("What is it?", [HIGH]))
        assert alts(browser) == ["b.png"]
        await act(app, "edit", line="0")
        await act(app, "remove", line="0", at="0")
        await act(app, "save", line="0", fields={"text": " "})  # there would be no message
        assert alts(browser) == []
        await act(app, "save", line="0", fields={"text": "And now?"})
        assert answers(browser) == await said_by_task(("And now?", []))

    drive(script)


def test_an_answer_about_a_picture_goes_on_after_a_lost_gpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_seeing(app)
        session = app._state.session
        assert session is not None
        decoder = type(decoder_of(session.program, "text_decoder"))
        sample, calls = decoder.sample, 0

        async def fails_once(*given: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == 3:
                raise DeviceLostError("the browser took the GPU away")
            return await sample(*given, **options)

        monkeypatch.setattr(decoder, "sample", fails_once)
        await act(app, "pictures", files=[picture_file("a.png", WIDE)])
        await send(app, "What is it?")
        monkeypatch.undo()
        assert calls > 3
        assert session.program.generation == 1
        assert not browser.html.get("error")
        assert answers(browser) == await said_by_task(("What is it?", [WIDE]))

    drive(script, engine=Engine())


async def reloaded(browser: FakeBrowser, start: str = "base64,", folder: Path | None = None) -> App:
    """Return the page after a reload; `start` is how it finds stored data to begin."""
    kept = browser.other["store"]
    again = App(browser, PageEngine())
    stored = {kept["key"]: kept["text"].replace("base64,", start)}
    await again.receive({"act": "hello", "stored": stored})
    await open_seeing(again, folder=folder)
    return again


def test_small_pictures_come_back_after_a_reload() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_seeing(app)
        await act(app, "pictures", files=[picture_file("a.png", WIDE)])
        await send(app, "What is it?")
        before = shown(browser)
        again = await reloaded(browser)
        assert shown(browser) == before
        assert alts(browser) == ["a.png"]
        assert "figcaption" not in browser.html["view-chat"]
        await act(again, "again")
        assert shown(browser) == before  # the model sees the same pixels
        await act(again, "clear")
        await act(again, "open", at="0")
        await act(again, "again")
        assert shown(browser) == before

    drive(script)


def test_large_pictures_come_back_as_smaller_copies_and_say_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(chat_pictures, "KEPT_SIDE", 31)

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_seeing(app)
        await act(app, "pictures", files=[picture_file("a.png", WIDE)])
        await send(app, "What is it?")
        assert "figcaption" not in browser.html["view-chat"]
        again = await reloaded(browser)
        assert chat_pictures.SMALLER in browser.html["view-chat"]
        panel = again._views.panel("chat")
        assert isinstance(panel, chat_view.ChatPanel)
        assert panel._talk is not None
        (picture,) = panel._talk.lines[0]["pictures"]
        assert picture.pixels.shape == (12, 31, 3)
        await act(again, "again")
        (said,) = answers(browser)
        assert said == (await said_by_task(("What is it?", [picture.pixels])))[0]

    drive(script)


@pytest.mark.parametrize(
    ("most", "start"),
    extent.some([(10, "base64,"), (10_000, "base64,AAAA")], (10_000, "base64,!")),
)
def test_a_picture_that_was_not_kept_is_told_and_not_sent(
    most: int, start: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("page.views.chat.saved_chats.MOST_PICTURES", most)

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_seeing(app)
        await act(app, "pictures", files=[picture_file("a.png", WIDE)])
        await send(app, "What is it?")
        again = await reloaded(browser, start)
        assert "a.png, 61 × 23 pixels: picture not kept" in browser.html["view-chat"]
        await act(again, "again")
        assert answers(browser) == await said_by_task(("What is it?", []))
        assert not browser.html.get("error")

    drive(script)


def test_files_that_were_dropped_with_the_program_are_found() -> None:
    folder = models_folder() / "patches"

    async def script(app: App, browser: FakeBrowser) -> None:
        await drop(app, *(File(name, (folder / name).read_bytes()) for name in FILES))
        await ready(app)
        assert "Add picture" in browser.html["view-chat"]
        assert "with a chat template" in browser.html["view-chat"]

    async def by_manifest(app: App, browser: FakeBrowser) -> None:
        told = json.dumps({"task": "image-text-to-text", "program": "model.pte"}).encode()
        files = [File(name, (folder / name).read_bytes()) for name in FILES]
        await drop(app, *files, File("model.manifest.json", told))
        await app.receive({"act": "view", "name": "chat"})
        await ready(app)
        assert "Add picture" in browser.html["view-chat"]
        await act(app, "pictures", files=[picture_file("a.png", WIDE)])
        await send(app, "What is it?")
        assert answers(browser) == await said_by_task(("What is it?", [WIDE]), model="patches")

    drive(script)
    drive(by_manifest)


def test_without_its_files_a_model_that_sees_says_so_and_takes_text(tmp_path: Path) -> None:
    missing = "preprocessor_config.json"
    for name in FILES:
        if name != missing:
            shutil.copy(models_folder() / "tiles" / name, tmp_path)

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_seeing(app, folder=tmp_path)
        assert f"since {missing} is not beside the program" in browser.html["view-chat"]
        assert "Add picture" not in browser.html["view-chat"]
        await send(app, "Hello")
        (first,) = await said_by_task(("Hello", []))
        assert answers(browser) == [first]
        await drop(app, File(missing, (models_folder() / "tiles" / missing).read_bytes()))
        assert answers(browser) == [first]  # the conversation goes on
        assert missing not in browser.html["view-chat"]
        await act(app, "pictures", files=[picture_file("a.png", WIDE)])
        await send(app, "And this?")
        assert not browser.html.get("error")
        assert len(answers(browser)) == 2
        assert alts(browser) == ["a.png"]

    drive(script)


def test_pictures_are_not_sent_while_a_file_is_missing(tmp_path: Path) -> None:
    for name in FILES:
        shutil.copy(models_folder() / "tiles" / name, tmp_path)
    missing = tmp_path / "preprocessor_config.json"
    file = File(missing.name, missing.read_bytes())

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_seeing(app, folder=tmp_path)
        await act(app, "pictures", files=[picture_file("a.png", WIDE)])
        await send(app, "What is it?")
        seen = answers(browser)
        missing.unlink()
        again = await reloaded(browser, folder=tmp_path)
        assert chat_pictures.NOT_SENT in browser.html["view-chat"]
        await act(again, "again")
        assert answers(browser) == await said_by_task(("What is it?", []))
        await drop(again, file)
        assert chat_pictures.NOT_SENT not in browser.html["view-chat"]
        await act(again, "again")
        assert answers(browser) == seen

    drive(script)


def test_a_model_that_does_not_see_has_no_button() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_chat(app)
        assert "Add picture" not in browser.html["view-chat"]
        assert "sees pictures" not in browser.html["view-chat"]
        assert 'data-drop="chat:pictures"' not in browser.html["view-chat"]

    drive(script)


def test_what_is_wrong_with_a_picture_is_told() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_seeing(app)
        files = [File("notes.txt", b"no picture"), picture_file("a.png", WIDE)]
        await act(app, "pictures", files=files)
        assert "notes.txt is not a picture that this browser can read" in browser.html["error"]
        assert alts(browser, "chat-attached") == ["a.png"]
        await act(app, "pictures", files=[picture_file(f"{n}.png", HIGH) for n in range(15)])
        await send(app, "Too many")
        assert "over the 256 that the program&#x27;s context holds" in browser.html["error"]
        assert "send fewer pictures" in browser.html["error"]
        assert shown(browser) == []
        assert len(alts(browser, "chat-attached")) == 16  # to be mended
        await act(app, "pictures", files=files)
        assert "a message takes up to 16 pictures" in browser.html["error"]

    drive(script)


def test_a_message_waits_for_its_pictures() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_seeing(app)
        gate = asyncio.Event()
        adding = asyncio.ensure_future(
            act(app, "pictures", files=[File("a.png", write_npy(WIDE), gate)])
        )
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await send(app, "What is it?")
        assert "Still loading a picture" in browser.text["status"]
        assert shown(browser) == []
        gate.set()
        await adding
        await send(app, "What is it?")
        assert alts(browser) == ["a.png"]

    drive(script)

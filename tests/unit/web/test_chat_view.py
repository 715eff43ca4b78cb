"""The chat on the page: real programs on NumPy, driven by what people do."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from html import unescape
from pathlib import Path
from typing import Any

import pytest

import webpte
from page.app import App
from page.views import chat as chat_view
from support.chats import Q4
from support.fake_page import FakeBrowser, File, drop
from support.texts import BYTES, tokenizer_path
from webpte.llm import Chat
from webpte.text import load_tokenizer

Script = Callable[[App, FakeBrowser], Awaitable[None]]
TOKENIZER = tokenizer_path(BYTES)
CONFIG = TOKENIZER.with_name("tokenizer_config.json")
SETTINGS = {"max_tokens": "12", "temperature": "0.9", "seed": "7"}


def drive(script: Script, engine: Any = webpte) -> None:
    async def all_of_it() -> None:
        browser = FakeBrowser()
        app = App(browser, engine)
        await app.receive({"act": "hello"})
        await script(app, browser)

    asyncio.run(all_of_it())


async def act(app: App, what: str, **more: object) -> None:
    await app.receive({"act": f"chat:{what}", **more})


async def send(app: App, text: str) -> None:
    await act(app, "send", fields={"text": text})


async def open_chat(app: App, *files: Path, **settings: str) -> None:
    """The tiny llama with a tokenizer's files, and the chat in front."""
    await drop(app, *(File(path.name, path.read_bytes()) for path in (Q4, *files)))
    await app.receive({"act": "view", "name": "chat"})
    await found_tokenizer(app)
    for name, value in {**SETTINGS, **settings}.items():
        await act(app, "set", name=name, value=value)


async def found_tokenizer(app: App) -> None:
    panel = app._views.panel("chat")
    assert isinstance(panel, chat_view.ChatPanel)
    if panel._search is not None:
        await asyncio.wait({panel._search})


def shown(browser: FakeBrowser) -> list[tuple[str, str]]:
    """Who said what, as it stands in the log."""
    lines = re.findall(
        r'class="chat-line chat-(\w+)".*?class="chat-said[^"]*"[^>]*>(.*?)</div>',
        browser.html["view-chat"],
        re.S,
    )
    return [(who, unescape(re.sub("<[^>]*>", "", said))) for who, said in lines]


async def said_by_chat(*questions: str, system: str | None = None, **options: Any) -> list[str]:
    """What a Chat says, asked the same."""
    program = await webpte.load(Q4, device="numpy")
    chat = Chat(program, await load_tokenizer(TOKENIZER), system)
    asked = {"temperature": 0.9, "top_p": 0.95, "seed": 7, **options}
    return [await chat.send(question, 12, **asked) for question in questions]


def test_an_answer_comes_piece_by_piece_and_is_that_of_a_chat(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(chat_view, "FRAME_SECONDS", 0)

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_chat(app, TOKENIZER, CONFIG)
        await send(app, "Hello <b>!")
        await send(app, "And then?")
        first, second = await said_by_chat("Hello <b>!", "And then?")
        assert shown(browser) == [
            ("user", "Hello <b>!"),
            ("assistant", first),
            ("user", "And then?"),
            ("assistant", second),
        ]
        pieces = [unescape(text) for where, text in browser.appended if where == "chat-said-1"]
        assert "".join(pieces) == first
        assert len(pieces) > 3
        assert browser.other["value"] == {"chat-text": ""}
        assert "12 tokens" in browser.html["view-chat"]
        assert "more in the cache" in browser.html["chat-figures"]
        assert "error" not in browser.html or not browser.html["error"]

    drive(script)

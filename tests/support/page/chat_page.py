"""The chat on the page, driven by messages."""

from __future__ import annotations

import asyncio
import re
from html import unescape
from pathlib import Path
from typing import Any

import webpte
from page.app import App
from page.views.chat import panel as chat_view
from support.harness.texts import BYTES, tokenizer_path
from support.page.chats import Q4
from support.page.fake_page import FakeBrowser, File, drop
from webpte.llm import Chat
from webpte.llm.text import load_tokenizer

TOKENIZER = tokenizer_path(BYTES)
CONFIG = TOKENIZER.with_name("tokenizer_config.json")
COUNT = 6  # tokens of an answer
SETTINGS = {"max_tokens": str(COUNT), "temperature": "0.9", "seed": "7"}


async def act(app: App, what: str, **more: object) -> None:
    await app.receive({"act": f"chat:{what}", **more})


async def send(app: App, text: str) -> None:
    await act(app, "send", fields={"text": text})


async def open_chat(app: App, *files: Path, **settings: str) -> None:
    """Open the tiny llama with a tokenizer's files, and bring the chat to the front."""
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
    """Return who said what, as the log shows it."""
    lines = re.findall(
        r'class="chat-line chat-(\w+)".*?class="chat-said[^"]*"[^>]*>(.*?)</div>',
        browser.html["view-chat"],
        re.S,
    )
    return [(who, unescape(re.sub("<[^>]*>", "", said))) for who, said in lines]


async def said_by_chat(
    *questions: str, system: str | None = None, count: int = COUNT, **options: Any
) -> list[str]:
    """Return the answer of a Chat to the same question."""
    program = await webpte.load(Q4, device="numpy")
    chat = Chat(program, await load_tokenizer(TOKENIZER), system)
    asked = {"temperature": 0.9, "top_p": 0.95, "seed": 7, **options}
    return [await chat.send(question, count, **asked) for question in questions]

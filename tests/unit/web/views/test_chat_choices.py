"""Choices in the chat's settings: of a KV cache, and of guesses."""

from __future__ import annotations

import re

from page.app import App
from support.page.chat_page import CONFIG, TOKENIZER, act, open_chat, send, shown
from support.page.fake_page import Engine, FakeBrowser, drive
from webpte import errors


async def choose(app: App, value: str) -> None:
    await app.receive({"act": "kv-cache", "value": value})


def options(browser: FakeBrowser) -> list[tuple[str, str]]:
    """Return the values and texts of the choice; the chosen value ends with "selected"."""
    (choice,) = re.findall(r'<select[^>]*id="chat-cache".*?</select>', browser.html["view-chat"])
    found = re.findall(r'<option value="(\w*)"( selected)?>(.*?)</option>', choice)
    return [(value + chosen, text) for value, chosen, text in found]


def test_another_cache_loads_the_model_again_and_keeps_the_conversation() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_chat(app, TOKENIZER, CONFIG)
        assert options(browser) == [
            (" selected", "As in the file: 64.0 KiB"),
            ("f16", "16 bits: 32.0 KiB"),
            ("int8", "8 bits: 20.0 KiB"),
        ]
        await send(app, "Hello")
        before = shown(browser)
        await choose(app, "int8")
        session = app._state.session
        assert session is not None
        assert session.source.kv_cache == "int8"
        assert shown(browser) == before
        assert ("int8 selected", "8 bits: 20.0 KiB") in options(browser)
        await send(app, "And then?")
        assert len(shown(browser)) == 4
        await app.receive({"act": "view", "name": "python"})
        assert "kv_cache=" in browser.html["view-python"]
        await choose(app, "")
        session = app._state.session
        assert session is not None
        assert session.source.kv_cache is None

    drive(script)


def test_a_cache_that_cannot_be_loaded_changes_nothing() -> None:
    engine = Engine()

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_chat(app, TOKENIZER, CONFIG)
        engine.failure = errors.OutOfMemoryError("no room")
        await choose(app, "f16")
        engine.failure = None
        session = app._state.session
        assert session is not None
        assert session.source.kv_cache is None
        assert options(browser)[0][0] == " selected"
        assert "no room" in browser.html["error"]
        await send(app, "Hello")
        assert len(shown(browser)) == 2

    drive(script, engine=engine)


def test_guesses_from_the_conversation_do_not_change_an_answer() -> None:
    """The tiny model repeats one token after this prompt."""
    prompt = "7 " * 20

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_chat(app, temperature="0", max_tokens="24")
        await send(app, prompt)
        plain = shown(browser)
        assert "guesses right" not in browser.html["chat-figures"]
        await act(app, "clear")
        await act(app, "set", name="speculate", value="lookup")
        await send(app, prompt)
        assert shown(browser) == plain
        assert "guesses right" in browser.html["chat-figures"]
        assert '<option value="lookup" selected>' in browser.html["view-chat"]

    drive(script)

"""Choices in the chat's settings: of a KV cache, of faster prompts, and of guesses."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest

from page.app import App
from page.core.session import Session
from support.page.chat_page import CONFIG, TOKENIZER, act, found_tokenizer, open_chat, send, shown
from support.page.fake_page import ROOT, Engine, FakeBrowser, File, drive, drop
from webpte import DeviceInfo, Options, Program, errors

FLOATS = ROOT / "tests/data/llm/llama_tiny_fp32.pte"
STORIES = ROOT / "web/samples/stories.pte"  # weights of 8 bits


async def choose(app: App, value: str, act: str = "kv-cache") -> Session:
    """Make a choice; return the session then."""
    await app.receive({"act": act, "value": value})
    session = app._state.session
    assert session is not None
    return session


def options(browser: FakeBrowser, name: str = "chat-cache") -> list[tuple[str, str]]:
    """Return the values and texts of a choice; the chosen value ends with "selected"."""
    found = re.findall(rf'<select[^>]*id="{name}".*?</select>', browser.html["view-chat"])
    listed = re.findall(r'<option value="(\w*)"( selected)?>(.*?)</option>', "".join(found))
    return [(value + chosen, text) for value, chosen, text in listed]


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
        session = await choose(app, "int8")
        assert session.source.kv_cache == "int8"
        assert shown(browser) == before
        assert ("int8 selected", "8 bits: 20.0 KiB") in options(browser)
        await send(app, "And then?")
        assert len(shown(browser)) == 4
        await app.receive({"act": "view", "name": "python"})
        assert "kv_cache=" in browser.html["view-python"]
        session = await choose(app, "")
        assert session.source.kv_cache is None

    drive(script)


def test_a_cache_that_cannot_be_loaded_changes_nothing() -> None:
    engine = Engine()

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_chat(app, TOKENIZER, CONFIG)
        engine.failure = errors.OutOfMemoryError("no room")
        session = await choose(app, "f16")
        engine.failure = None
        assert session.source.kv_cache is None
        assert options(browser)[0][0] == " selected"
        assert "no room" in browser.html["error"]
        await send(app, "Hello")
        assert len(shown(browser)) == 2

    drive(script, engine=engine)


def test_faster_prompts_load_the_model_again_and_keep_the_conversation() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_chat(app, TOKENIZER, CONFIG)
        floats, faster = "Full", "8 bits (faster)"
        assert options(browser, "chat-prompts") == [(" selected", floats), ("int8", faster)]
        assert "1.5 times as fast" in browser.html["view-chat"]
        await send(app, "Hello")
        before = shown(browser)
        session = await choose(app, "int8", "prompts")
        assert session.program.options == Options(int8_products=True)
        assert options(browser, "chat-prompts") == [("", floats), ("int8 selected", faster)]
        assert shown(browser) == before
        session = await choose(app, "int8")
        assert session.source.kv_cache == "int8"
        assert session.program.options == Options(int8_products=True)
        await app.receive({"act": "view", "name": "python"})
        code = unescape(browser.html["view-python"])
        assert "webpte.llm.load('llama_tiny_q4.pte', kv_cache='int8', options=" in code
        assert "options=webpte.Options(int8_products=True)" in code
        await app.receive({"act": "view", "name": "chat"})
        assert (await choose(app, "", "prompts")).program.options == Options()
        await send(app, "And then?")
        assert len(shown(browser)) == 4

    drive(script)


def test_prompts_that_a_device_computes_in_floats(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hint says so, but not of a GPU with packed dot products."""
    in_vain = "No effect on this device"

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_chat(app, TOKENIZER, CONFIG)
        assert in_vain in browser.html["view-chat"]
        gpu = DeviceInfo("webgpu", "nvidia", packed_dot=True)
        monkeypatch.setattr(Program, "device_info", gpu)
        await act(app, "tokens")
        assert options(browser, "chat-prompts")
        assert in_vain not in browser.html["view-chat"]

    drive(script)


@pytest.mark.parametrize(("path", "offered"), [(FLOATS, False), (STORIES, True)])
def test_faster_prompts_are_for_rounded_weights(path: Path, offered: bool) -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await drop(app, File(path.name, path.read_bytes()))
        await app.receive({"act": "view", "name": "chat"})
        await found_tokenizer(app)
        assert options(browser)
        assert bool(options(browser, "chat-prompts")) is offered

    drive(script)


def test_faster_prompts_that_cannot_be_loaded_change_nothing() -> None:
    engine = Engine()

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_chat(app, TOKENIZER, CONFIG)
        engine.failure = errors.OutOfMemoryError("no room")
        session = await choose(app, "int8", "prompts")
        engine.failure = None
        assert session.program.options == Options()
        assert options(browser, "chat-prompts")[0][0] == " selected"
        assert "no room" in browser.html["error"]

    drive(script, engine=engine)


def test_guesses_from_the_conversation_do_not_change_an_answer() -> None:
    """The tiny model repeats one token after this prompt."""
    prompt = "7 " * 20

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_chat(app, temperature="0", max_tokens="24")
        await send(app, prompt)
        plain = shown(browser)
        assert "drafted tokens accepted" not in browser.html["chat-figures"]
        await act(app, "clear")
        await act(app, "set", name="speculate", value="lookup")
        await send(app, prompt)
        assert shown(browser) == plain
        assert "drafted tokens accepted" in browser.html["chat-figures"]
        assert '<option value="lookup" selected>' in browser.html["view-chat"]

    drive(script)

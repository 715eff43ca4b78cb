"""The chat on the page: real programs on NumPy, driven by messages."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from html import unescape
from pathlib import Path

import pytest

import webpte
from page.app import App
from page.views.chat import panel as chat_view
from page.views.chat.controls import problem_views
from page.views.chat.settings import ChatSettings
from support.harness.virtual_time import until
from support.page.chat_page import (
    CONFIG,
    COUNT,
    SETTINGS,
    TOKENIZER,
    act,
    found_tokenizer,
    open_chat,
    said_by_chat,
    send,
    shown,
)
from support.page.chats import Q4
from support.page.fake_page import (
    GPU,
    SAMPLES,
    Engine,
    FakeBrowser,
    File,
    drive,
    drop,
    open_sample,
)
from webpte.llm.text import load_tokenizer


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
        assert pieces  # how many depends on how fast they come
        assert browser.other["value"] == {"chat-text": ""}
        assert f"{COUNT} tokens" in browser.html["view-chat"]
        assert "more in the cache" in browser.html["chat-figures"]
        assert "error" not in browser.html or not browser.html["error"]

    drive(script)


def test_frames_not_tokens_are_sent() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_chat(app, TOKENIZER, CONFIG)
        await send(app, "Hello")
        ((_, text),) = browser.appended  # once, at the end
        assert [unescape(text)] == await said_by_chat("Hello")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chat_view, "FRAME_SECONDS", 600)
        drive(script)


def test_what_lies_beside_the_program_is_its_tokenizer(tmp_path: Path) -> None:
    async def kind(app: App, browser: FakeBrowser, program: Path) -> str:
        await app.receive({"act": "open-url", "fields": {"url": str(program)}})
        await app.receive({"act": "view", "name": "chat"})
        await found_tokenizer(app)
        found = re.search(
            "Tokenizer: (.*?)</summary>(?:<p[^>]*>(.*?)</p>)?", browser.html["view-chat"]
        )
        assert found is not None
        return f"{found[1]} {found[2]}"

    async def script(app: App, browser: FakeBrowser) -> None:
        one, two, three = (tmp_path / folder / "tiny.pte" for folder in "abc")
        for program in (one, two, three):
            program.parent.mkdir()
            shutil.copy(Q4, program)
        assert "none; type token ids" in await kind(app, browser, one)
        shutil.copy(TOKENIZER, two.with_name("tokenizer.json"))
        assert "no chat template" in await kind(app, browser, two)
        shutil.copy(TOKENIZER, three.with_name("tiny.tokenizer.json"))
        shutil.copy(CONFIG, three.with_name("tiny.tokenizer_config.json"))
        three.with_name("tokenizer.json").write_text("{}")  # of another program
        assert "with a chat template" in await kind(app, browser, three)
        one.with_name("tokenizer.json").write_text("{}")
        told = await kind(app, browser, one)
        assert "none; type token ids" in told
        assert "next to the program, cannot be used" in told

    drive(script)


def test_a_card_names_the_tokenizer_and_questions(tmp_path: Path) -> None:
    card = {
        "name": "tiny",
        "view": "chat",
        "folder": f"{tmp_path}/",
        "files": {"program": "p.pte", "tokenizer": "t.json", "tokenizer_config": "c.json"},
        "questions": ["Is it <you>?", "Why?"],
    }

    async def script(app: App, browser: FakeBrowser) -> None:
        for source, name in ((Q4, "p.pte"), (TOKENIZER, "t.json"), (CONFIG, "c.json")):
            shutil.copy(source, tmp_path / name)
        await app.receive({"act": "hello", "cards": [card]})
        await app.receive({"act": "card", "name": "tiny"})
        await found_tokenizer(app)
        assert "t.json, 512 tokens, with a chat template" in browser.html["view-chat"]
        proposed = re.findall(r'data-text="(.*?)"', browser.html["view-chat"])
        assert [unescape(text) for text in proposed] == card["questions"]
        await act(app, "set", name="max_tokens", value="1")
        await act(app, "propose", text="Why?")
        assert [who for who, _ in shown(browser)] == ["user", "assistant"]
        assert "data-text" not in browser.html["view-chat"]

    drive(script)


def test_without_a_tokenizer_tokens_are_typed() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_chat(app, temperature="0")
        await send(app, "1, 2 3")
        await send(app, "4")
        program = await webpte.load(Q4, device="numpy")
        generator = webpte.llm.Generator(program)
        first = [token async for token in generator.generate([1, 2, 3], COUNT)]
        second = [token async for token in generator.generate([1, 2, 3, *first, 4], COUNT)]
        said = [text for who, text in shown(browser) if who == "assistant"]
        assert said == [" ".join(map(str, first)), " ".join(map(str, second))]
        await send(app, "512")
        assert "type numbers from 0 to 511" in browser.html["error"]
        assert len(shown(browser)) == 4
        # A tokenizer that comes later starts anew.
        await drop(app, File(TOKENIZER.name, TOKENIZER.read_bytes()))
        assert shown(browser) == []
        assert "no chat template" in browser.html["view-chat"]
        await drop(app, File(CONFIG.name, CONFIG.read_bytes()))  # the rest of it
        assert "with a chat template" in browser.html["view-chat"]

    drive(script)


def test_a_text_goes_on_where_there_is_no_template() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_chat(app, TOKENIZER, temperature="0")
        await send(app, "Once upon a time")
        tokenizer = await load_tokenizer(TOKENIZER.read_bytes())
        program = await webpte.load(Q4, device="numpy")
        tokens = tokenizer.encode("Once upon a time")
        said = [token async for token in webpte.llm.generate(program, tokens, COUNT)]
        assert shown(browser)[1] == ("assistant", tokenizer.decode(said))

    drive(script)


def test_again_more_and_edited() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_chat(app, TOKENIZER, CONFIG, max_tokens="3")
        await send(app, "Hello")
        await act(app, "set", name="seed", value="8")
        await act(app, "more")  # by the chance that it began with
        (whole,) = await said_by_chat("Hello")
        assert shown(browser)[1:] == [("assistant", whole)]
        await act(app, "set", name="max_tokens", value=str(COUNT))
        await act(app, "again")
        (other,) = await said_by_chat("Hello", seed=8)
        assert shown(browser)[1:] == [("assistant", other)]
        await send(app, "More")
        await act(app, "edit", line="0")
        assert "Send" in browser.html["view-chat"]
        await act(app, "save", line="0", fields={"text": "Bye"})
        assert shown(browser) == [
            ("user", "Bye"),
            ("assistant", (await said_by_chat("Bye", seed=8))[0]),
        ]
        await act(app, "system", value="Be brief.")
        await act(app, "again")
        (brief,) = await said_by_chat("Bye", seed=8, system="Be brief.")
        assert shown(browser)[1] == ("assistant", brief)
        await act(app, "edit", line="1")
        await act(app, "save", line="1", fields={"text": "So it is"})
        assert shown(browser)[1] == ("assistant", "So it is")
        await act(app, "more")
        assert shown(browser)[1][1].startswith("So it is")
        assert len(shown(browser)[1][1]) > len("So it is")
        await act(app, "clear")
        assert shown(browser) == []

    drive(script)


def test_candidates_of_a_token() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_chat(app, TOKENIZER, CONFIG)
        await send(app, "Hello")
        await act(app, "tokens")
        assert browser.html["view-chat"].count("level-unknown") == COUNT
        await act(app, "look", line="1", at="3")
        assert "No probabilities" in browser.html["chat-token"]
        before = shown(browser)
        await act(app, "again")
        assert shown(browser) == before
        assert "level-unknown" not in browser.html["view-chat"]
        appended = "".join(text for _, text in browser.appended)
        assert appended.count("data-at=") == COUNT
        await act(app, "look", line="1", at="3")
        card = browser.html["chat-token"]
        shares = [float(share) for share in re.findall(r"([\d.]+) %", card)]
        assert len(shares) in (8, 9)
        assert shares[:8] == sorted(shares[:8], reverse=True)
        assert card.count("chosen") == 1

    drive(script)


def _refused(browser: FakeBrowser) -> dict[str, str]:
    """Return the fields of the settings that are marked, with the messages that belong to them."""
    fields = re.findall(r"<input[^>]*>", browser.html["chat-numbers"])
    texts = dict(
        re.findall(r'<p id="(chat-\w+-problem)"[^>]*>([^<]*)', browser.html["chat-numbers"])
    )
    attributes = [dict(re.findall(r'([\w-]+)="([^"]*)"', field)) for field in fields]
    assert len(attributes) == len(texts) == 7
    marked = [one for one in attributes if one.get("aria-invalid") == "true"]
    told = {one["data-name"]: unescape(texts.pop(one["aria-describedby"])) for one in marked}
    assert not any(texts.values()), "a message belongs to no marked field"
    return told


def test_all_settings_that_are_wrong_are_marked() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_chat(app, TOKENIZER, CONFIG)
        await act(app, "set", name="top_k", value="0")
        await act(app, "set", name="temperature", value="-1")
        assert list(_refused(browser)) == ["temperature", "top_k"]
        await send(app, "Hello")
        assert "temperature must be" in browser.html["chat-refused"]
        await act(app, "set", name="temperature", value="1")
        assert "top k must be" in browser.html["chat-refused"]
        assert list(_refused(browser)) == ["top_k"]

    drive(script)


def test_drawing_settings_changes_nothing() -> None:
    settings = ChatSettings()
    settings.refused = True
    problem_views(settings, lambda name: name)
    assert settings.refused


def test_settings_that_are_wrong_ask_nothing() -> None:
    other = "leave it empty for a random seed"

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_chat(app, TOKENIZER, CONFIG)
        for name, value, told in (
            (
                "top_p",
                "1.5",
                "top p must be above 0 and at most 1, not 1.5; leave it empty to keep all tokens",
            ),
            ("top_k", "0", "top k must be 1 or more, not 0; leave it empty to keep all tokens"),
            ("top_k", "0.5", "top k must be an integer, not '0.5'"),
            ("max_tokens", "", "max tokens is empty: enter an integer, 1 or more"),
            ("temperature", "", "temperature is empty: enter a number, 0 or more"),
            ("temperature", "inf", "temperature must be 0 or more, not inf"),
            ("max_tokens", "0", "max tokens must be 1 or more, not 0"),
            ("seed", "-1", f"seed must be from 0 to 2^64 - 1, not -1; {other}"),
            ("seed", "9" * 20, f"seed must be from 0 to 2^64 - 1, not {'9' * 20}; {other}"),
        ):
            await act(app, "set", name=name, value=value)
            assert _refused(browser) == {name: told}
            await send(app, "Hello")
            assert shown(browser) == []
            # It is said below the message, since the settings may be folded, until it is mended.
            assert told in unescape(browser.html["chat-refused"])
            assert "must" not in browser.text["status"]
            await act(app, "set", name=name, value={**SETTINGS}.get(name, ""))
            assert _refused(browser) == {}
            assert browser.html["chat-refused"] == ""
            await act(app, "set", name=name, value=value)
            assert browser.html["chat-refused"] == ""  # no message was sent with it
            await act(app, "set", name=name, value={**SETTINGS}.get(name, ""))

    drive(script)


def test_the_chat_says_that_it_runs_on_the_cpu() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_chat(app, TOKENIZER, CONFIG)
        assert "on NumPy" not in browser.html["view-chat"]
        await app.receive({"act": "device", "value": "numpy"})
        assert "on NumPy (CPU)" in browser.html["view-chat"]
        await app.receive({"act": "device", "value": "webgpu"})  # as the button there sends it
        assert "on NumPy" not in browser.html["view-chat"]

    drive(script, adapter=GPU, engine=Engine())


def test_a_message_that_is_too_long_gets_no_advice_about_inputs() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_chat(app, TOKENIZER, CONFIG)
        await send(app, "Hello " * 200)
        assert "the last question alone is too long" in browser.html["error"]
        assert "signature" not in unescape(browser.html["error"].split("<details")[0])

    drive(script)


@pytest.mark.parametrize("way", ["stop", "close", "open", "send"])
def test_what_may_come_between(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_view, "FRAME_SECONDS", 0)

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_chat(app, TOKENIZER, CONFIG, max_tokens="60")
        asking = asyncio.ensure_future(send(app, "Hello"))
        await until(lambda: bool(browser.appended))
        assert 'aria-busy="true"' in browser.html["view-chat"]
        assert 'id="chat-stop"' in browser.html["view-chat"]  # in the place of Send
        assert 'id="chat-send"' not in browser.html["view-chat"]
        if way == "stop":
            await act(app, "stop")
        elif way == "close":
            await app.receive({"act": "close"})
        elif way == "open":
            await open_sample(app)
        else:
            await send(app, "Another")
            assert "Still answering" in browser.text["status"]
            assert browser.other["value"] == {"chat-text": ""}  # cleared for the first message
            await act(app, "stop")
        await asking
        assert not browser.html.get("error")
        if way in ("stop", "send"):
            (_, said) = shown(browser)
            (whole,) = await said_by_chat("Hello", count=60)
            assert whole.startswith(said[1])
            assert said[1] != whole
            assert "· stopped" in browser.html["view-chat"]
            await act(app, "set", name="max_tokens", value="2")
            await act(app, "more")
            assert whole.startswith(shown(browser)[1][1])
            assert len(shown(browser)[1][1]) > len(said[1])
        else:
            assert "chat" not in [name for name, _ in browser.other["tabs"]]

    drive(script)


def test_other_models_of_the_gallery_can_be_chosen() -> None:
    card = {"folder": "samples/", **json.loads((SAMPLES / "stories.json").read_text())}

    async def script(app: App, browser: FakeBrowser) -> None:
        await app.receive({"act": "hello", "cards": [card]})
        await open_chat(app, TOKENIZER, CONFIG)
        drawn = browser.html["view-chat"]
        assert '<option value="" selected>llama_tiny_q4.pte (156 KiB)</option>' in drawn
        assert '<option value="stories">Little stories (1.60 MiB)</option>' in drawn
        await app.receive({"act": "card", "value": "stories"})
        session = app._state.session
        assert session is not None
        assert session.source.name == "stories.pte"
        await found_tokenizer(app)
        assert 'data-act="card"' not in browser.html["view-chat"]  # there is no other one

    drive(script)

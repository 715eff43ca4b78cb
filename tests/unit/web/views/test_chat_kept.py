"""A conversation outlives its program, a reload, and being deleted."""

from __future__ import annotations

import json
import re
from html import unescape
from typing import Any

import pytest

import webpte
from page.app import App
from page.core.engine import PageEngine
from page.views.chat import panel as chat_view
from page.views.chat.versions import from_json
from support.page.chat_page import (
    CONFIG,
    COUNT,
    TOKENIZER,
    act,
    open_chat,
    said_by_chat,
    send,
    shown,
)
from support.page.chats import Q4
from support.page.fake_page import Engine, FakeBrowser, drive, open_file, open_sample, run
from webpte.errors import DeviceLostError
from webpte.llm import Chat
from webpte.llm.decode.decoder import decoder_of
from webpte.llm.text import load_tokenizer


def test_runs_and_answers_share_the_cache() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_chat(app, TOKENIZER, CONFIG)
        await send(app, "Hello")
        await run(app)  # writes where the conversation is
        session = app._state.session
        assert session is not None
        assert session.shown is not None
        assert "the chat has changed it" in session.shown.lost  # so no result is expected
        await send(app, "And then?")
        said = [text for who, text in shown(browser) if who == "assistant"]
        assert said == await said_by_chat("Hello", "And then?")

    drive(script)


def test_a_conversation_goes_with_the_copy_of_its_program() -> None:
    """Another program of the same name that is dropped later has no conversation."""

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_chat(app, TOKENIZER, CONFIG)
        store, address = app._state.store, f"local:{Q4.name}"
        earlier = {"tokenizer": "", "messages": [{"role": "user", "content": "Before"}]}
        store.write(f"chat:{address}", earlier)
        await send(app, "First")
        await act(app, "clear")
        await send(app, "Hello")
        before = shown(browser)
        await app.receive({"act": "library-keep"})
        archived = [one["title"] for one in store.read(f"chats:{address}")]
        assert archived == ["Before", "First"]
        assert store.read(f"chats:{Q4.name}") is None
        assert [one["content"] for one in store.read(f"chat:{address}")["messages"]] == [
            text for _, text in before
        ]
        assert store.read(f"chat:{Q4.name}") is None
        await send(app, "And then?")
        assert len(store.read(f"chat:{address}")["messages"]) == 4
        assert store.read(f"chat:{Q4.name}") is None

    drive(script)


def test_a_conversation_outlives_its_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program is opened again, and rebuilt after the device was lost during an answer."""

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_chat(app, TOKENIZER, CONFIG)
        await send(app, "Hello")
        before = shown(browser)
        await open_file(app, Q4)
        assert shown(browser) == before
        session = app._state.session
        assert session is not None
        lost = DeviceLostError("the browser took the GPU away")

        async def fails(*given: object, **options: object) -> None:
            raise lost

        with monkeypatch.context() as patch:
            patch.setattr(type(decoder_of(session.program, "forward")), "sample", fails)
            await send(app, "And then?")
        assert "Rebuild the program" in browser.html["error"]
        assert [text for _, text in shown(browser)][2:] == ["And then?"]
        assert ">Answer<" in browser.html["view-chat"]
        await app.receive({"act": "recover"})
        await act(app, "again")
        program = await webpte.load(Q4, device="numpy")
        chat = Chat(program, await load_tokenizer(TOKENIZER))
        chat.messages = [{"role": who, "content": text} for who, text in before]
        said = await chat.send("And then?", COUNT, temperature=0.9, top_p=0.95, seed=7)
        assert shown(browser)[3:] == [("assistant", said)]

    drive(script, engine=Engine())


@pytest.mark.parametrize("at", [0, 3])
def test_an_answer_goes_on_by_itself_after_a_lost_gpu(
    monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """The tokens that came stay, and the page rebuilds the program without being asked."""

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_chat(app, TOKENIZER, CONFIG)
        session = app._state.session
        assert session is not None
        decoder = type(decoder_of(session.program, "forward"))
        sample, calls = decoder.sample, 0
        told: list[str] = []
        tell = app._state.tell

        def telling(line: str, mood: str = "good") -> None:
            told.append(line)
            tell(line, mood)

        async def fails_once(*given: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == at + 1:
                raise DeviceLostError("the browser took the GPU away")
            return await sample(*given, **options)

        monkeypatch.setattr(app._state, "tell", telling)
        monkeypatch.setattr(decoder, "sample", fails_once)
        await send(app, "Hello")
        monkeypatch.undo()
        assert calls > at + 1
        assert session.program.generation == 1
        assert not browser.html.get("error")
        assert "GPU reset. Continuing …" in told
        assert told[-1].startswith("Answered")
        panel = app._views.panel("chat")
        assert isinstance(panel, chat_view.ChatPanel)
        assert panel._talk is not None
        (answer,) = panel._talk.answers.values()
        assert len(answer.tokens) == COUNT
        (first,) = await said_by_chat("Hello")
        assert shown(browser)[1][1][:at] == first[:at]  # a token of this tokenizer is a byte

    drive(script, engine=Engine())


def test_a_conversation_is_there_after_a_reload() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_chat(app, TOKENIZER, CONFIG)
        await act(app, "system", value="Be brief.")
        await send(app, "Hello!")
        said = browser.html["view-chat"]
        stored = {browser.other["store"]["key"]: browser.other["store"]["text"]}
        again = App(browser, PageEngine())
        await again.receive({"act": "hello", "stored": stored})
        await open_chat(again, TOKENIZER, CONFIG)
        assert lines_of(browser.html["view-chat"]) == lines_of(said)
        assert len(lines_of(said)) == 2
        assert notes_of(browser.html["view-chat"]) == notes_of(said)
        assert len(notes_of(said)) == 1
        assert "Be brief." in browser.html["view-chat"]
        await act(again, "clear")
        assert browser.other["store"] == {"key": next(iter(stored)), "text": ""}
        assert lines_of(browser.html["view-chat"]) == []

    drive(script)


@pytest.mark.parametrize("ended", ["stop", "length"])
def test_only_an_answer_that_was_cut_off_goes_on_after_a_reload(ended: str) -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_chat(app, TOKENIZER)
        await send(app, "Hello!")
        remembered = browser.other["store"]
        kept = json.loads(remembered["text"])
        (answer,) = kept["answers"].values()
        answer["ended"] = ended
        again = App(browser, PageEngine())
        stored = {remembered["key"]: json.dumps(kept)}
        await again.receive({"act": "hello", "stored": stored})
        await open_chat(again, TOKENIZER)
        assert "Regenerate" in browser.html["view-chat"]
        assert (">Continue<" in browser.html["view-chat"]) == (ended == "length")
        if ended == "length":
            before = shown(browser)
            await act(again, "more")
            after = shown(browser)
            assert after[1][1].startswith(before[1][1])
            assert len(after[1][1]) > len(before[1][1]) > 0

    drive(script)


def test_tokens_keep_their_colours_and_alternatives_after_another_model() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_chat(app, TOKENIZER, CONFIG)
        await act(app, "tokens")
        await send(app, "Hello")
        colours = re.findall(r"token level-\w+", browser.html["view-chat"])
        assert len(colours) == COUNT
        assert "token level-unknown" not in colours
        await act(app, "look", line="1", at="2")
        card = browser.html["chat-token"]
        await open_sample(app)
        await open_chat(app, TOKENIZER, CONFIG)
        assert re.findall(r"token level-\w+", browser.html["view-chat"]) == colours
        await act(app, "look", line="1", at="2")
        assert browser.html["chat-token"] == card

    drive(script)


def notes_of(html: str) -> list[str]:
    """Return the notes below the answers."""
    return re.findall(r'<p class="note" (title="seed \d+">\d+ tokens .*?)</p>', html)


def lines_of(html: str) -> list[str]:
    """Return the messages as text."""
    found = re.findall(r'id="chat-said-\d+"[^>]*>(.*?)</', html)
    return [re.sub(r"<[^>]*>", "", one) for one in found]


def test_a_deleted_conversation_comes_back_and_goes_on() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_chat(app, TOKENIZER, CONFIG)
        await send(app, "Hello")
        first = shown(browser)
        await act(app, "clear")
        assert shown(browser) == []
        await app.receive({"act": "undo"})
        assert shown(browser) == first
        await act(app, "clear")
        await send(app, "Something else")  # takes its place
        other = shown(browser)
        await app.receive({"act": "undo"})
        assert shown(browser) == other
        await app.receive({"act": "close"})
        await app.receive({"act": "undo"})
        assert browser.other["front"] == "chat"
        assert shown(browser) == other
        await send(app, "And now?")
        assert shown(browser)[: len(other)] == other
        assert len(shown(browser)) == len(other) + 2

    drive(script)


def versions_of(browser: FakeBrowser) -> list[str]:
    """Return the numbers of the shown versions, such as "1/2"."""
    return re.findall(r'<span class="number">(\d+/\d+)</span>', browser.html["view-chat"])


def test_versions_of_answers_and_questions_are_kept() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_chat(app, TOKENIZER, CONFIG)
        await send(app, "Hello")
        first = shown(browser)
        assert versions_of(browser) == []
        await act(app, "set", name="seed", value="8")
        await act(app, "again")
        second = shown(browser)
        assert second != first
        assert versions_of(browser) == ["2/2"]
        await act(app, "turn", line="1", step="-1")
        assert (shown(browser), versions_of(browser)) == (first, ["1/2"])
        await act(app, "turn", line="1", step="-1")  # there is none before
        assert shown(browser) == first
        await send(app, "More")
        long = shown(browser)
        assert long[:2] == first
        chat = Chat(await webpte.load(Q4, device="numpy"), await load_tokenizer(TOKENIZER))
        chat.messages = [{"role": who, "content": text} for who, text in first]
        said = await chat.send("More", COUNT, temperature=0.9, top_p=0.95, seed=8)
        assert long[3] == ("assistant", said)  # the model has read the version that was shown
        await act(app, "edit", line="0")
        await act(app, "save", line="0", fields={"text": "Bye"})
        edited = shown(browser)
        assert edited[0] == ("user", "Bye")
        assert versions_of(browser) == ["2/2"]  # of the question
        await act(app, "turn", line="0", step="-1")
        assert (shown(browser), versions_of(browser)) == (long, ["1/2", "1/2"])
        # They are there after a reload, and in another conversation there are none.
        stored = {browser.other["store"]["key"]: browser.other["store"]["text"]}
        again = App(browser, PageEngine())
        await again.receive({"act": "hello", "stored": stored})
        await open_chat(again, TOKENIZER, CONFIG)
        assert (shown(browser), versions_of(browser)) == (long, ["1/2", "1/2"])
        await act(again, "turn", line="1", step="1")
        assert shown(browser) == second
        await act(again, "turn", line="0", step="1")
        assert shown(browser) == edited
        await act(again, "clear")
        assert versions_of(browser) == []

    drive(script)


@pytest.mark.parametrize("raw", [None, 5, {"x": []}, {"1": [None, None]}, {"1": [{}]}])
def test_versions_of_another_hand_are_ignored(raw: object) -> None:
    assert from_json(raw) == {}


def titles(browser: FakeBrowser) -> list[str]:
    return re.findall(r'id="chat-title-\d+"', browser.html["view-chat"]) and [
        unescape(one)
        for one in re.findall(r'value="([^"]*)"[^>]*id="chat-title-', browser.html["view-chat"])
    ]


def test_earlier_conversations_are_opened_renamed_and_deleted() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_chat(app, TOKENIZER, CONFIG)
        await send(app, "Hello")
        first = shown(browser)
        await act(app, "clear")
        await send(app, "Something else")
        second = shown(browser)
        assert titles(browser) == ["Hello"]
        await act(app, "open", at="0")
        assert shown(browser) == first
        assert titles(browser) == ["Something else"]
        await act(app, "rename", at="0", value="The other")
        await act(app, "open", at="0")
        assert shown(browser) == second
        await act(app, "delete", at="0")
        assert titles(browser) == []
        await app.receive({"act": "undo"})
        assert titles(browser) == ["Hello"]
        await act(app, "export", kind="md")
        assert browser.other["download"]["name"].endswith(".conversation.md")
        assert b"**You**\n\nSomething else" in browser.links[-1]
        await act(app, "export", kind="json")
        kept = json.loads(browser.links[-1])
        assert [one["content"] for one in kept["messages"]] == [text for _, text in second]
        await act(app, "copy", line="0")
        assert browser.other["copy"]["text"] == "Something else"
        assert not browser.html.get("error")

    drive(script)


def test_answers_are_markdown_and_their_code_can_be_copied() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_chat(app, TOKENIZER, CONFIG)
        await send(app, "Hello")
        await act(app, "edit", line="1")
        text = "**Bold** <script>x</script>\n```python\nprint(1 < 2)\n```"
        await act(app, "save", line="1", fields={"text": text})
        html = browser.html["view-chat"]
        assert "<strong>Bold</strong> &lt;script&gt;" in html
        assert "<script>" not in html
        assert "print(1 &lt; 2)" in html
        await act(app, "copy", line="1", block="0")
        assert browser.other["copy"]["text"] == "print(1 < 2)"

    drive(script)

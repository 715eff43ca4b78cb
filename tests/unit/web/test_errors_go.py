"""Error cards of the page: their titles, and the success that removes them."""

from __future__ import annotations

from html import unescape

import numpy as np

from page.act_names import doing_text
from page.app import App
from page.shared.npy import write_npy
from support.page.chat_page import CONFIG, TOKENIZER, act, open_chat, send
from support.page.fake_page import SAMPLES, FakeBrowser, File, drive, drop, open_sample, run
from webpte.errors import InputError


def npy(name: str, shape: tuple[int, ...] = (37, 41)) -> File:
    return File(name, write_npy(np.ones(shape, np.float32)))


def test_a_good_file_removes_the_card_of_a_bad_one() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app)
        await drop(app, npy("bad.npy", (3, 5)))
        assert "bad.npy fits no input" in browser.html["error"]
        await drop(app, npy("good.npy"))
        assert browser.html["error"] == ""
        await drop(app, npy("bad.npy", (3, 5)))
        await app.receive({"act": "npy", "input": "0", "files": [npy("good.npy")]})
        assert browser.html["error"] == ""

    drive(script)


def test_another_kind_of_work_leaves_the_card() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app)
        await run(app)
        await drop(app, npy("bad.npy", (3, 5)))
        await app.receive({"act": "check"})
        assert "bad.npy fits no input" in browser.html["error"]

    drive(script)


def test_a_new_conversation_removes_the_card_of_the_last_answer() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_chat(app, TOKENIZER, CONFIG)
        await send(app, "Hello " * 200)
        assert "Could not answer" in unescape(browser.html["error"])
        await act(app, "clear")
        assert browser.html["error"] == ""

    drive(script)


def test_work_that_fails_in_part_keeps_its_card() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app)
        state, session = app._state, app._state.session
        assert session is not None

        async def work() -> None:
            state.show_error(InputError("one of three"), "adding documents")

        await state.do(session, work(), "adding documents")
        assert "one of three" in browser.html["error"]

        async def mended() -> None:
            pass

        await state.do(session, mended(), "adding documents")
        assert browser.html["error"] == ""

    drive(script)


def title(browser: FakeBrowser) -> str:
    return unescape(browser.html["error"].partition("<strong>")[2].partition("</strong>")[0])


def test_mistakes_have_titles_in_plain_words() -> None:
    program = (SAMPLES / "sigmoid.pte").read_bytes()

    async def script(app: App, browser: FakeBrowser) -> None:
        await drop(app, File("cut.pte", program[:99]))
        assert title(browser) == browser.text["status"] == "Could not open cut.pte"
        await drop(app, File("a.pte", program), File("b.pte", program))
        assert title(browser) == "Could not open these files"
        assert "open one program at a time" in browser.html["error"]
        await drop(app, File("a.pte", program))
        assert browser.html["error"] == ""
        await app.receive({"act": "view", "name": "bench"})
        for text, told in (
            ("", "paste the JSON of a result"),
            ("nonsense", "neither the JSON of a result nor a link to one"),
        ):
            await app.receive({"act": "bench:compare", "fields": {"other": text}})
            assert title(browser) == "Could not read the other result"
            assert told in browser.html["error"]
        await app.receive({"act": "what:is-this"})
        assert title(browser) == "Could not do this"
        await app.receive({"act": "view", "name": "run"})  # an act without a name, too
        assert title(browser) == "Could not do this"

    drive(script)


def test_acts_without_a_name_of_their_own_say_where() -> None:
    assert doing_text("graph:unfold", "Graph") == "doing this in Graph"
    assert doing_text("reroll") == "doing this"

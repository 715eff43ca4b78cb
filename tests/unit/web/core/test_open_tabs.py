"""Programs of other tabs: known by the names of locks, in the forecast and after a failure."""

from __future__ import annotations

import json

from page.app import App
from page.browser import OpenProgram
from page.core.open_tabs import PREFIX, elsewhere_text, lock_name, open_elsewhere
from support.page.fake_page import GPU, Engine, FakeBrowser, drive, open_sample
from webpte.errors import OutOfMemoryError

LARGE = OpenProgram("llama “1B”.pte", "http://site/llama.pte", 938_000_000)
SMALL = OpenProgram("add.pte", "add.pte", 4096)


def test_tabs_read_what_others_write() -> None:
    locks = [lock_name(SMALL, "a"), lock_name(LARGE, "b"), lock_name(LARGE, "me")]
    assert open_elsewhere(locks, "me") == [LARGE, SMALL]
    assert open_elsewhere(locks[2:], "me") == []


def test_names_of_other_locks_are_left_out() -> None:
    told = {"name": "m", "key": "m", "bytes": 5, "tab": "b"}
    wrong = ["", "other", "[", "[1]", '{"name": 1}', json.dumps(told | {"bytes": -1})]
    wrong += [json.dumps({**told, key: None}) for key in told]
    named = [PREFIX + each for each in wrong]
    right = PREFIX + json.dumps(told)
    assert open_elsewhere([*wrong, *named, right], "me") == [OpenProgram("m", "m", 5)]


def test_a_sentence_says_what_they_hold() -> None:
    assert elsewhere_text([]) == elsewhere_text([SMALL]) == ""
    one = "Another tab has llama “1B”.pte open, which holds 938 MB of GPU memory."
    assert elsewhere_text([LARGE]) == one
    assert elsewhere_text([LARGE, SMALL]) == "2 other tabs hold 938 MB of GPU memory."


def test_a_program_that_finds_no_memory_names_the_other_tab() -> None:
    engine = Engine()
    engine.failure = OutOfMemoryError("the GPU has no memory left")

    async def script(app: App, browser: FakeBrowser) -> None:
        browser.other_tabs.append(LARGE)
        await open_sample(app)
        assert "which holds 938 MB" in browser.html["error"]

    drive(script, GPU, engine)

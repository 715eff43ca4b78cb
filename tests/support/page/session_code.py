"""The session of a page as code, in the languages of its Python view."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from page.app import App
from page.views.python.languages import LANGUAGES
from support.page.chat_page import CONFIG, TOKENIZER, open_chat
from support.page.fake_page import FakeBrowser, drive, open_sample

CHAT = "chat"
Change = tuple[int, str, str]  # an input's index, its fill, and its typed text


def session_code(sample: str, language: str, *changes: Change) -> tuple[str, Sequence[Any]]:
    """Return the code of a sample, or of CHAT, with its inputs changed; and their arrays.

    The code is written in another thread: Playwright's event loop may run in the caller's.
    """
    found: list[Any] = []

    async def script(app: App, browser: FakeBrowser) -> None:
        if sample == CHAT:
            await open_chat(app, TOKENIZER, CONFIG)
        else:
            await open_sample(app, sample)
        session = app._state.session
        assert session is not None
        for index, fill, text in changes:
            state: Any = session.inputs[index]
            state.set_fill(fill)
            if text:
                state.set_text(text)
        write: Callable[[Any], str] = LANGUAGES[language].write
        code = write(session).replace("http://site/", "").replace(', { device: "numpy" }', "")
        arrays = [] if sample == CHAT else [one.array() for one in session.inputs]
        found.extend([code, arrays])

    with ThreadPoolExecutor(1) as threads:
        threads.submit(drive, script).result()
    return found[0], found[1]

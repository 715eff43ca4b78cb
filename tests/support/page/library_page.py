"""Helpers of the tests of the page's library."""

from __future__ import annotations

import asyncio
import json
import re

from page.app import App
from page.core.engine import PageEngine
from support.page.fake_page import (
    SAMPLES,
    FakeBrowser,
)

SAMPLE = (SAMPLES / "sigmoid.pte").read_bytes()
CONSTANTS = (SAMPLES.parents[1] / "tests/data/format/linear.ptd").read_bytes()
SIGMOID = "http://site/samples/sigmoid.pte"


async def settle() -> None:
    """Let background tasks run."""
    for _ in range(5):
        await asyncio.sleep(0)


def kept_in_tab(browser: FakeBrowser) -> dict[str, str]:
    written = browser.other.get("tab", {"key": "session", "text": ""})
    return {written["key"]: written["text"]}


def open_method(browser: FakeBrowser) -> str:
    return str(json.loads(kept_in_tab(browser)["session"])["method"])


async def reload(browser: FakeBrowser) -> App:
    """Reload the page, in the same tab and browser."""
    address = str(browser.other.get("address", ""))
    link = dict(re.findall(r"[?&](\w+)=([^&]+)", address.replace("%2F", "/")))
    again = App(browser, PageEngine())
    await again.receive(
        {
            "act": "hello",
            "tab": kept_in_tab(browser),
            "linked": "url" in link or "model" in link,
        }
    )
    if link:
        await again.receive({"act": "link", **link})
    await settle()
    return again

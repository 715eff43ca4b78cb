"""Values that the browser keeps for the page."""

from __future__ import annotations

import math

from page.core.store import Store
from support.page.fake_page import FakeBrowser


def test_a_value_is_written_once_and_read_back() -> None:
    browser = FakeBrowser()
    store = Store(browser)
    store.write("a", {"b": [1, math.inf]})
    assert browser.other.pop("store") == {"key": "a", "text": '{"b": [1, Infinity]}'}
    store.write("a", {"b": [1, math.inf]})
    assert "store" not in browser.other, "nothing has changed"
    assert store.read("a") == {"b": [1, math.inf]}
    store.write("a", None)
    assert browser.other["store"] == {"key": "a", "text": ""}
    assert store.read("a") is None


def test_what_was_kept_before_is_read_and_broken_text_is_nothing() -> None:
    store = Store(FakeBrowser())
    store.load({"good": '{"a": 1}', "broken": '{"a": '})
    assert [store.read(key) for key in ("good", "broken", "missing")] == [{"a": 1}, None, None]


def test_a_tab_has_a_store_of_its_own() -> None:
    browser = FakeBrowser()
    Store(browser, "tab").write("session", {"name": "a.pte"})
    assert browser.other["tab"] == {"key": "session", "text": '{"name": "a.pte"}'}
    assert "store" not in browser.other

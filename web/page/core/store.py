"""Values that the browser keeps for this page, as JSON by key."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from page.browser import Browser
from webpte.engine.files.json_reader import parse_json


class Store:
    """A key-value store that survives a reload: from visit to visit, or as long as the tab.

    place  the function of `events.js` that writes to it: "store", or "tab"
    """

    def __init__(self, browser: Browser, place: str = "store") -> None:
        self._browser = browser
        self._place = place
        self._texts: dict[str, str] = {}

    def load(self, texts: Mapping[str, str]) -> None:
        """Take over the values that the browser has kept: JSON by key."""
        self._texts = dict(texts)

    def read(self, key: str) -> Any:
        """Return the value of a key; None if there is none, or if its text is not JSON."""
        try:
            return parse_json(self._texts.get(key) or "null", key, ValueError, not_finite=True)
        except ValueError:
            return None

    def write(self, key: str, value: Any) -> None:
        """Keep a value; None and empty ones delete the key."""
        text = encode(value) if value else ""
        if self._texts.get(key, "") != text:
            self._texts[key] = text
            self._browser.show(**{self._place: {"key": key, "text": text}})


def encode(value: Any) -> str:
    """Return the text under which a value is kept."""
    return json.dumps(value)

"""Lookups by label, role or text have a shorter limit, and an error with the labels there.

Playwright waits as long for a label that no page has as for work that takes long. Here an action on
a locator that names a label waits `limits.LABEL_MS` for its element, and only then, as long as the
page takes, for the element to be ready.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from support.harness import limits

_ACTIONS = (
    *("check", "click", "dblclick", "fill", "focus", "get_attribute", "hover", "inner_text"),
    *("input_value", "press", "scroll_into_view_if_needed", "select_option", "set_input_files"),
    *("set_checked", "text_content", "uncheck"),
)
_BY_LABEL = re.compile(r"internal:(label|role|text|attr)=")
_MOST = 60  # labels in an error
_LABELS = """() => {
    const named = "label, button, summary, a, [role], [aria-label], [placeholder], h1, h2, h3";
    const shown = [...document.querySelectorAll(named)].filter((one) => one.checkVisibility());
    const text = (one) => one.getAttribute("aria-label") || one.innerText || one.placeholder || "";
    const names = shown.map((one) => text(one).trim().split("\\n")[0].slice(0, 60));
    return [...new Set(names.filter(Boolean))];
}"""


class NoLabelError(AssertionError):
    """No element has the label that an action names."""


def _with_lookup(action: Callable[..., Any]) -> Callable[..., Any]:
    def act(locator: Locator, *given: Any, **options: Any) -> Any:
        if "timeout" not in options and _BY_LABEL.search(repr(locator)):
            find(locator)
        return action(locator, *given, **options)

    return act


def find(locator: Locator) -> None:
    """Wait until an element is there. Raises NoLabelError."""
    try:
        locator.first.wait_for(state="attached", timeout=limits.LABEL_MS)
    except PlaywrightTimeout:
        names = locator.page.evaluate(_LABELS)
        more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
        listed = ", ".join(map(repr, names[:_MOST])) or "none"
        raise NoLabelError(
            f"nothing was found in {limits.LABEL_MS / 1000:g} s by {locator!r}. The page has these "
            f"labels: {listed}{more}"
        ) from None


def limit_lookups(patch: pytest.MonkeyPatch) -> None:
    """Give the actions of all locators this limit."""
    for name in _ACTIONS:
        patch.setattr(Locator, name, _with_lookup(getattr(Locator, name)))

"""Addresses as they are typed, and messages about addresses that cannot be fetched."""

from __future__ import annotations

import pytest

from page.app import App
from page.core.typed_address import typed_address
from page.shared.html.errors import error_view
from support.page.fake_page import FakeBrowser, drive
from webpte.engine.files.source import fetch_problem
from webpte.errors import SourceError

HUB = "https://huggingface.co"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (" samples/add.pte ", "samples/add.pte"),
        ("add.pte", "add.pte"),
        ("../models.v2/add.pte", "../models.v2/add.pte"),
        ("/models/add.pte", "/models/add.pte"),
        ("local:add.pte", "local:add.pte"),
        ("huggingface.co/x/y", f"{HUB}/x/y"),
        ("example.org:8443/a.pte", "https://example.org:8443/a.pte"),
        ("localhost:8000/a.pte", "http://localhost:8000/a.pte"),
        ("127.0.0.1:8000/a.pte", "http://127.0.0.1:8000/a.pte"),
        ("http://example.org/a.pte?b=c/d", "http://example.org/a.pte?b=c/d"),
        ("huggingface.co/x/y/blob/main/a.pte", f"{HUB}/x/y/resolve/main/a.pte"),
        (f"{HUB}/x/y/blob/main/a.pte?download=true", f"{HUB}/x/y/resolve/main/a.pte?download=true"),
        (
            "https://github.com/x/y/blob/main/sub/a.pte",
            "https://raw.githubusercontent.com/x/y/main/sub/a.pte",
        ),
    ],
)
def test_a_typed_address_is_the_one_meant(typed: str, meant: str) -> None:
    assert typed_address(typed) == meant


def test_an_address_without_a_scheme_is_fetched_as_https() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await app.receive({"act": "open-url", "fields": {"url": "huggingface.co/x/y.pte"}})
        assert "https://huggingface.co/x/y.pte" in browser.html["error"]

    drive(script)


def test_an_answer_of_a_server_does_not_blame_cors() -> None:
    answered = SourceError(fetch_problem("/a.pte", "the server answered 404 Not Found"))
    silent = SourceError(fetch_problem("https://example.org/a.pte", "Failed to fetch"))
    assert "CORS" not in error_view(answered, "opening a.pte")
    assert "404" in str(answered)
    assert "CORS" in error_view(silent, "opening a.pte")

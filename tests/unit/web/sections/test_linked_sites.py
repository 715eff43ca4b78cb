"""A program of another site that a link opens: it is kept only when someone agrees."""

from __future__ import annotations

import pytest

from page.app import App
from page.core.typed_address import origin_of
from support.page.fake_page import SAMPLES, FakeBrowser, drive
from support.page.library_page import settle

THERE = "http://elsewhere:81/models/sigmoid.pte"


def with_elsewhere(browser: FakeBrowser) -> None:
    browser.elsewhere[THERE] = SAMPLES / "sigmoid.pte"


@pytest.mark.parametrize(
    ("address", "origin"),
    [
        (THERE, "http://elsewhere:81"),
        ("https://a.org/x?y=http://b.org/", "https://a.org"),
        ("data:,x", "data://"),
    ],
)
def test_the_origin_of_an_address(address: str, origin: str) -> None:
    assert origin_of(address) == origin


def test_a_link_to_another_site_keeps_nothing_until_someone_agrees() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        with_elsewhere(browser)
        await app.receive({"act": "link", "url": THERE})
        await settle()
        assert browser.text["status"].startswith("sigmoid.pte loaded")
        assert browser.library.files == {}
        note = browser.html["keep"]
        assert "from http://elsewhere:81." in note
        assert "Keep it (1.34 KiB)" in note
        await app.receive({"act": "library-agree"})
        await settle()
        assert list(browser.library.files) == [THERE]
        assert browser.html["keep"] == ""
        assert "Kept sigmoid.pte" in browser.text["status"]
        assert "1 program" in browser.text["library-total"]
        await app.receive({"act": "library-agree"})  # a second click does nothing
        assert browser.unkept == set()

    drive(script)


def test_what_could_not_be_kept_is_asked_for_again() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        with_elsewhere(browser)
        await app.receive({"act": "link", "url": THERE})
        await settle()
        browser.library.full = True
        await app.receive({"act": "library-agree"})
        assert "no room is left" in browser.html["error"]
        assert "Keep it" in browser.html["keep"]
        assert browser.unkept == {"http://elsewhere:81"}

    drive(script)


@pytest.mark.parametrize("address", ["samples/sigmoid.pte", "http://site/samples/sigmoid.pte"])
def test_a_link_to_a_file_of_the_same_site_keeps_it(address: str) -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        browser.elsewhere[address] = SAMPLES / "sigmoid.pte"
        await app.receive({"act": "link", "url": address})
        await settle()
        assert list(browser.library.files) == ["http://site/samples/sigmoid.pte"]
        assert browser.html["keep"] == ""

    drive(script)


def test_a_typed_address_is_kept_though_a_link_named_its_site_before() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        with_elsewhere(browser)
        await app.receive({"act": "link", "url": THERE})
        await settle()
        await app.receive({"act": "open-url", "fields": {"url": THERE}})
        await settle()
        assert list(browser.library.files) == [THERE]
        assert browser.html["keep"] == ""

    drive(script)


def test_an_address_that_is_none_is_told_as_before() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await app.receive({"act": "link", "url": "http://[nowhere"})
        assert "open [nowhere" in browser.html["error"]
        assert browser.unkept == set()

    drive(script)

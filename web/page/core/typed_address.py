"""Addresses as people type them, without a scheme or of a page which shows the file; origins."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from page.browser import Browser
from webpte.engine.open.hub_name import is_hub, parse_name

_HOST = re.compile(r"(?:[\w-]+\.)+[a-z]{2,}(?::\d+)?/.+", re.I)
_OWN = re.compile(r"(?:localhost|\d+\.\d+\.\d+\.\d+)(?::\d+)?/.+", re.I)
# Pages that show a file, and where the file itself is.
_SHOWN = (
    (re.compile(r"https?://(?:www\.)?huggingface\.co/([^?#]+?)/blob/([^?#]+)"),
     r"https://huggingface.co/\1/resolve/\2"),
    (re.compile(r"https?://(?:www\.)?github\.com/([^/]+/[^/]+)/blob/([^?#]+)"),
     r"https://raw.githubusercontent.com/\1/\2"),
)  # fmt: skip


def origin_of(address: str) -> str:
    """Return the origin of an absolute address, as "https://example.org:8000"."""
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc}"


def site_of(browser: Browser, address: str) -> str:
    """Return the origin of an address or of a name in the Hub.

    Raises SourceError or ValueError for other texts.
    """
    place = parse_name(address).root if is_hub(address) else browser.absolute(address)
    return origin_of(place)


def typed_address(text: str) -> str:
    """Return the address that a typed text stands for.

    "huggingface.co/a/b" is taken as https, "localhost:8000/a.pte" as http, and the page of a file
    on Hugging Face or GitHub as the file. Everything else stays: "samples/add.pte" is relative.
    """
    address = text.strip()
    if _OWN.fullmatch(address):
        return f"http://{address}"
    if _HOST.fullmatch(address):
        address = f"https://{address}"
    for page, file in _SHOWN:
        if found := page.match(address):
            return found.expand(file) + address[found.end() :]
    return address

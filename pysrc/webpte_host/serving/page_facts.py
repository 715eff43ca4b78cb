"""Facts that are filled into the page as it is served or built: version, docs, source, address."""

from __future__ import annotations

import configparser
import re
from html import escape
from pathlib import Path

from webpte_host.base.errors import HostError
from webpte_host.base.layout import PYSRC, ROOT

_HOSTED = re.compile(r"(?:https://|ssh://git@|git@)([\w.-]+)[:/]([\w.-]+/[\w.-]+?)(?:\.git)?/?")
_PICTURE = 'property="og:image" content="./'


def package_version(init: Path = PYSRC / "webpte" / "__init__.py") -> str:
    """Return the version of the Python package."""
    found = re.search(r'__version__ = "(.+)"', init.read_text(encoding="utf-8"))
    if found is None:
        raise HostError(f"{init} has no __version__.")
    return found[1]


def source_address(root: Path = ROOT) -> str:
    """Return the address of the repository that a checkout was cloned from, or ""."""
    config = configparser.ConfigParser(strict=False, interpolation=None)
    try:
        config.read(root / ".git" / "config", encoding="utf-8")
        remote = config.get('remote "origin"', "url", fallback="")
    except (configparser.Error, UnicodeDecodeError):
        return ""
    found = _HOSTED.fullmatch(remote.strip())
    return f"https://{found[1]}/{found[2]}" if found else ""


def with_facts(page: str, docs: str = "", address: str = "", root: Path = ROOT) -> str:
    """Fill the facts into the page, where it has places for them.

    docs     the address of the documentation, relative to the page; "": that in the source
    address  of the page itself, for pictures of links; "": not known
    """
    facts = {
        '<span id="version"></span>': f'<span id="version">{package_version()}</span>',
        'name="webpte-docs" content=""': f'name="webpte-docs" content="{escape(docs)}"',
        'name="webpte-source" content=""': (
            f'name="webpte-source" content="{escape(source_address(root))}"'
        ),
    }
    if address:
        whole = escape(address.rstrip("/"))
        facts[_PICTURE] = f'property="og:url" content="{whole}/">\n  <meta {_PICTURE[:-2]}{whole}/'
    for place, fact in facts.items():
        page = page.replace(place, fact)
    return page

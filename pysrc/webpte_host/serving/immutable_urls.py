"""Addresses that last: below `/v-VERSION/` is what is below `/`, as it was when that was asked for.

The page names all that its start needs by such addresses, so the browser need not ask whether it
is still the same: a start that finds everything in the browser's cache asks for the page alone.
Whenever a file changes, the next page names all of them by other addresses.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

from webpte_host.base.bundle import Bundle, signature, visible_files

_ADDRESS = re.compile(r"/v-([0-9a-f]+)(/.*)")
_OWN = '="./'  # how the page names what is its own
_DIGITS = 16


class Lasting:
    """Which version is the current one. Safe to ask from several threads."""

    def __init__(self, web: Path, bundles: Sequence[Bundle], runtime: str) -> None:
        """`runtime` is the version of the browser runtime."""
        self._web = web
        self._bundles = bundles
        self._runtime = runtime
        self._given = ""

    def page(self, text: str) -> str:
        """The page with its own files by the addresses of now."""
        digest = hashlib.sha256(self._runtime.encode())
        digest.update(signature(visible_files(self._web)).encode())
        for bundle in self._bundles:
            digest.update(bundle.archive().etag.encode())
        self._given = digest.hexdigest()[:_DIGITS]
        return text.replace(_OWN, f"{_OWN}v-{self._given}/")

    def resolve(self, path: str) -> tuple[str, bool]:
        """The path without its version, and whether what is there lasts.

        Of an earlier version, such as in a tab from before an edit, there is what is here now. That
        a file may have changed after its address was given does no harm: no later page names it.
        """
        found = _ADDRESS.fullmatch(path)
        return (found[2], found[1] == self._given) if found else (path, False)

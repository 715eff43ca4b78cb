"""Immutable URLs: `/v-VERSION/PATH` is `/PATH` at the time of the page's request.

The page refers to its files by such URLs, so the browser need not revalidate them: a start that
finds everything in the browser's cache requests the page alone. When a file changes, the next
page uses URLs of another version.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

from webpte_host.base.bundle import Bundle, signature, visible_files

_ADDRESS = re.compile(r"/v-([0-9a-f]+)(/.*)")
_OWN = '="./'  # prefix of the page's references to its files
_DIGITS = 16


class ImmutableUrls:
    """The current version of the page's URLs. Safe to use from several threads."""

    def __init__(self, web: Path, bundles: Sequence[Bundle], runtime: str) -> None:
        """Watch the page's files and archives; `runtime` is the browser runtime's version."""
        self._web = web
        self._bundles = bundles
        self._runtime = runtime
        self._given = ""

    def page(self, text: str) -> str:
        """Rewrite the page's references to its files to URLs of the current version."""
        digest = hashlib.sha256(self._runtime.encode())
        digest.update(signature(visible_files(self._web)).encode())
        for bundle in self._bundles:
            digest.update(bundle.etag().encode())
        self._given = digest.hexdigest()[:_DIGITS]
        return text.replace(_OWN, f"{_OWN}v-{self._given}/")

    def resolve(self, path: str) -> tuple[str, bool]:
        """Return the path without its version, and whether its content is immutable.

        URLs of an earlier version, such as in a tab from before an edit, get the current files. A
        file that changed later does no harm, because no later page refers to that URL.
        """
        found = _ADDRESS.fullmatch(path)
        return (found[2], found[1] == self._given) if found else (path, False)

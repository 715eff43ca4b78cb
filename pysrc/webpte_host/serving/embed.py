"""`embed.html`: the page as a document for frames of other sites, with one program.

The document is the page, marked by `data-embed`: its styles show only the input and the answer.
Other sites must not frame the page, since a click meant for them could act in the page; they may
frame this document, because browsers give framed documents a separate storage.

Only isolated sites have isolated frames, so this document cannot use shared memory.
"""

from __future__ import annotations

from webpte_host.base.errors import HostError
from webpte_host.serving.routing import CONTENT_SECURITY_POLICY

EMBED = "embed.html"
_ROOT = '<html lang="en">'
_OWN_FRAMES = "frame-ancestors 'self'"
assert _OWN_FRAMES in CONTENT_SECURITY_POLICY

# These replace the common headers. The second lets isolated sites load the document.
EMBED_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY.replace(_OWN_FRAMES, "frame-ancestors *"),
    "Cross-Origin-Resource-Policy": "cross-origin",
}


def embed_page(page: str) -> str:
    """Return the document for frames, made from the page."""
    if page.count(_ROOT) != 1:
        raise HostError(f"index.html has no {_ROOT}: the document for frames cannot be made.")
    return page.replace(_ROOT, '<html lang="en" data-embed>')

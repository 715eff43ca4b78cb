"""`embed.html`: the page as a document for frames of other sites, with one program.

It is the page itself, marked by `data-embed`: its styles leave the input and the answer. The page
must not be framed by other sites, since a click meant for them could do something in it; this
document may be, and browsers give a framed one a storage of its own.

Only isolated sites have isolated frames, so this document has to do without shared memory.
"""

from __future__ import annotations

from webpte_host.base.errors import HostError
from webpte_host.serving.routing import CONTENT_SECURITY_POLICY

EMBED = "embed.html"
_ROOT = '<html lang="en">'
_OWN_FRAMES = "frame-ancestors 'self'"
assert _OWN_FRAMES in CONTENT_SECURITY_POLICY

# In place of the common ones. An isolated site may only load what allows it by the second header.
EMBED_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY.replace(_OWN_FRAMES, "frame-ancestors *"),
    "Cross-Origin-Resource-Policy": "cross-origin",
}


def embed_page(page: str) -> str:
    """Return the document for frames, made of the page's."""
    if page.count(_ROOT) != 1:
        raise HostError(f"index.html has no {_ROOT}: the document for frames cannot be made.")
    return page.replace(_ROOT, '<html lang="en" data-embed>')

"""The document for frames of other sites: made of the page, and the only one with such headers."""

from __future__ import annotations

import http.client
from pathlib import Path

import pytest

from support.harness import limits
from webpte_host.base.errors import HostError
from webpte_host.serving.embed import embed_page
from webpte_host.serving.server import Site

PAGE = b'<!doctype html><html lang="en"><script src="./a.js"></script></html>'


def ask(site: Site, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=limits.SOCKET_SECONDS)
    try:
        connection.request("GET", path, headers={"If-None-Match": headers.get("etag", "")})
        reply = connection.getresponse()
        return reply.status, dict(reply.getheaders()), reply.read()
    finally:
        connection.close()


def test_only_the_document_for_frames_may_be_framed(tmp_path: Path) -> None:
    (tmp_path / "web").mkdir()
    (tmp_path / "web" / "index.html").write_bytes(PAGE)
    (tmp_path / "web" / "a.js").write_bytes(b"1")
    with Site(web=tmp_path / "web", runtime=tmp_path) as site:
        _, headers, body = ask(site, "/embed.html?model=digits")
        again = ask(site, "/embed.html", etag=headers["ETag"])
        others = [ask(site, path)[1] for path in ("/", "/a.js", "/nothing.html")]
    assert b'<html lang="en" data-embed><script src="./v-' in body
    assert again[0] == 304
    for one in (headers, again[1]):
        assert "frame-ancestors *;" in one["Content-Security-Policy"]
        assert one["Cross-Origin-Resource-Policy"] == "cross-origin"
    for one in others:
        assert "frame-ancestors 'self';" in one["Content-Security-Policy"]
        assert one["Cross-Origin-Resource-Policy"] == "same-origin"


def test_a_page_that_cannot_be_marked_is_an_error() -> None:
    with pytest.raises(HostError, match="document for frames"):
        embed_page("<!doctype html>")

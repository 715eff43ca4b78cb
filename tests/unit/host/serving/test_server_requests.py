"""Requests with other hosts, and of badly behaved clients: the server always sends a status."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator

import pytest

from support.harness import extent, limits
from webpte_host.serving import server
from webpte_host.serving.routing import Hosts, Mount, byte_range
from webpte_host.serving.server import Site

BODY = b"private"
REQUESTS = extent.count(400, 4000)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    (folder / "web").mkdir()
    (folder / "web" / "index.html").write_bytes(b"<!doctype html>")
    (folder / "web" / "a.pte").write_bytes(BODY)
    mounts = [Mount("/folder/", folder / "web")]
    with Site(mounts=mounts, web=folder / "web", runtime=folder, names=["Box.example."]) as running:
        yield running


def answer(site: Site, request: bytes) -> bytes:
    with socket.create_connection(
        ("127.0.0.1", site.port), timeout=limits.SOCKET_SECONDS
    ) as connection:
        try:
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the server has closed the connection after its response
        chunks = []
        while chunk := connection.recv(65536):
            chunks.append(chunk)
    return b"".join(chunks)


def ask(site: Site, host: bytes, more: bytes = b"") -> bytes:
    head = b"GET /folder/a.pte HTTP/1.1\r\nConnection: close\r\n" + more
    return answer(site, head + b"Host: " + host + b"\r\n\r\n")


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST:PORT", "localhost.:80", "127.0.0.1", "127.0.0.1:PORT", "[::1]:PORT",
     "127.0.0.2", "box.example", "Box.Example:443"],
)  # fmt: skip
def test_its_own_names(site: Site, host: str) -> None:
    reply = ask(site, host.replace("PORT", str(site.port)).encode())
    assert reply.startswith(b"HTTP/1.1 200 ")
    assert reply.endswith(BODY)


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8000", "localhost.evil.example", "evil.example#localhost",
     "localhost@evil.example", "192.0.2.7", "[2001:db8::1]", "", "localhost:x", "2130706433",
     "localhost evil.example", "0.0.0.0", "box.example.evil", "[::1"],
)  # fmt: skip
def test_other_names_are_refused(site: Site, host: str) -> None:
    reply = ask(site, host.encode())
    assert reply.startswith(b"HTTP/1.1 421 ")
    assert b"answers to box.example, localhost and to its address only" in reply
    assert BODY not in reply


def test_no_host_and_two_hosts_are_refused(site: Site) -> None:
    for head in (b"", b"Host: localhost\r\nHost: localhost\r\n"):
        reply = answer(site, b"GET /a.pte HTTP/1.1\r\nConnection: close\r\n" + head + b"\r\n")
        assert reply.startswith(b"HTTP/1.1 400 ")
        assert b"exactly one `Host` header" in reply


def test_the_address_that_it_listens_on() -> None:
    hosts = Hosts()
    assert hosts.has("192.0.2.7:8000", "192.0.2.7")
    assert hosts.has("192.0.2.7", "::ffff:192.0.2.7")
    assert hosts.has("[2001:DB8::1]:80", "2001:db8::1%3")
    assert not hosts.has("192.0.2.8", "192.0.2.7")
    assert not hosts.has("127.0.0.1", "192.0.2.7")
    assert not hosts.has("box.example", "192.0.2.7")


@pytest.mark.parametrize(
    ("header", "found"),
    [
        ("bytes=" + "9" * 5000 + "-", "unsatisfiable"),
        ("bytes=0-" + "9" * 5000, (0, 6)),
        ("bytes=-" + "9" * 5000, (0, 6)),
        ("bytes=" + "0" * 5000 + "-", "unsatisfiable"),
        ("bytes=" + "9" * 5000 + "-5", None),
        ("bytes=²-", None),
        ("bytes=--5", None),
    ],
    ids=lambda value: str(value)[:20],
)
def test_ranges_of_any_length(header: str, found: object) -> None:
    assert byte_range(header, 7) == found


def test_an_error_of_our_own_is_a_status(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: str) -> str:
        raise KeyError(path)

    monkeypatch.setattr(server, "media_type", fail)
    assert ask(site, b"localhost").startswith(b"HTTP/1.1 500 ")
    monkeypatch.undo()
    assert ask(site, b"localhost").startswith(b"HTTP/1.1 200 ")


METHODS = [b"GET", b"GET", b"GET", b"HEAD", b"POST", b"get", b"", b"G\x00T", b"PROPFIND", b"\xff"]
TARGETS = [
    *(b"/", b"/a.pte", b"/folder/a.pte", b"//", b"", b"*", b"/%", b"/%zz", b"/%00", b"/\x00"),
    *(b"/%ff%fe", b"/" + b"a" * 5000, b"/" + b"a" * 70000, b"/" + b"a/" * 3000, b"/..%2f..%2f"),
    *(b"/v-/a.pte", b"/v-1/", b"/runtime/v-x/", b"/%F0%9F%98%80", b"/?" + b"%" * 99, b"http://a/"),
    *(b"/gallery.json", b"/models/index.json", b"/webpte.zip\x7f", b"/a.pte\tb", b"/\xc3\x28"),
]
VERSIONS = [
    *(b" HTTP/1.1", b" HTTP/1.1", b" HTTP/1.1", b" HTTP/1.0", b"", b" HTTP/0.9", b" HTTP/2.0"),
    *(b" HTTP/9" + b"9" * 5000 + b".1", b" HTTP/1.1.1", b" http/1.1", b" HTTP/-1.1", b" HTTP/1.x"),
]
HEADERS = [
    *(b"Range: bytes=" + b"9" * 5000 + b"-", b"Range: bytes=1-2,4-5", b"Range: bytes=-0"),
    *(b"Range: bytes=5-1", b"Range: lines=1-2", b"Range: bytes=\xb2-", b"Range: bytes=0-0"),
    *(b"If-Modified-Since: Mon, 99 Foo 0000 99:99:99", b"If-Modified-Since: " + b"9" * 5000),
    *(b"If-Modified-Since: Mon, 01 Jan 0001 00:00:00 GMT", b"If-None-Match: *", b"If-Range: x"),
    *(b"If-Modified-Since: Mon, 01 Jan 2001 00:00:00 -9999", b"Content-Length: -5", b": x", b"x"),
    *(b"Content-Length: 99999999999", b"Transfer-Encoding: chunked", b"X: " + b"a" * 70000),
    *(b"Expect: 100-continue", b"Host: evil.example", b"Host:", b" folded", b"X: \x00\xff"),
    b"\r\n".join(b"X: %d" % at for at in range(150)),
]


def odd_request(rng: random.Random) -> bytes:
    if rng.random() < 0.1:
        noise = rng.randbytes(rng.randrange(1, 200)).replace(b"\r", b"").replace(b"\n", b"")
        return (noise or b"x") + b"\r\n\r\n"
    lines = [rng.choice(METHODS) + b" " + rng.choice(TARGETS) + rng.choice(VERSIONS)]
    if rng.random() < 0.9:
        lines.append(b"Host: localhost")
    lines += [rng.choice(HEADERS) for _ in range(rng.choice([0, 1, 1, 2, 3]))]
    lines.append(b"Connection: close")
    return rng.choice([b"\r\n", b"\r\n", b"\r\n", b"\n"]).join(lines) + b"\r\n\r\n"


def test_odd_requests_get_a_status(site: Site) -> None:
    rng = random.Random("requests")
    for _ in range(REQUESTS):
        request = odd_request(rng)
        reply = answer(site, request)
        start = reply.removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n")[:12]
        assert start[:9] == b"HTTP/1.1 ", request[:300]
        assert start[9:12].isdigit(), request[:300]
        assert start[9:12] != b"500", request[:300]
    assert ask(site, b"localhost").endswith(BODY)

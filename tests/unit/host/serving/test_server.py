"""The server over real sockets: files that it serves, and files that it must not serve."""

from __future__ import annotations

import gzip
import hashlib
import http.client
import io
import json
import os
import re
import shutil
import socket
import urllib.parse
import zipfile
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path

import pytest

from support.harness import limits
from webpte_host.base.bundle import package_bundle
from webpte_host.base.errors import HostError
from webpte_host.serving.compressed import CompressedCopies
from webpte_host.serving.routing import Mount
from webpte_host.serving.server import Site
from webpte_host.setup.runtime import runtime_version

Reply = tuple[int, dict[str, str], bytes]

MODEL = bytes(range(256)) * 7


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tree = tmp_path_factory.mktemp("tree")
    for name, data in {
        "secret.txt": b"secret",
        "web/index.html": b"<!doctype html>",
        "web/main.py": b"print()",
        "web/.hidden": b"hidden",
        "web/.git/config": b"hidden",
        "web/a folder/ü.svg": b"<svg/>",
        "web/empty.json": b"",
        "runtime/pyodide/pyodide.mjs": b"export {}",
        "suite/model.pte": MODEL,
        "package/__init__.py": b"x = 1",
        "package/gpu/engine.js": b"1",
        "package/__pycache__/x.py": b"no",
        "package/notes.md": b"no",
        "wgsl/elementwise/unary.wgsl": b"fn f() {}",
        "wgsl/lib/index.wgsl": b"fn g() {}",
    }.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    os.symlink(tree / "secret.txt", tree / "web" / "leak.txt")
    os.symlink(tree, tree / "web" / "up")
    os.symlink(tree / "web" / "main.py", tree / "web" / "alias.py")
    return tree


@pytest.fixture(scope="module")
def site(tree: Path) -> Iterator[Site]:
    bundle = package_bundle(tree / "package", tree / "wgsl")
    mounts = [Mount("/suite/", tree / "suite")]
    web, runtime = tree / "web", tree / "runtime"
    with Site(mounts=mounts, web=web, runtime=runtime, bundle=bundle) as site:
        yield site


def ask(site: Site, path: str, method: str = "GET", **headers: str) -> Reply:
    connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=limits.SOCKET_SECONDS)
    try:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, headers=named)
        reply = connection.getresponse()
        return reply.status, dict(reply.getheaders()), reply.read()
    finally:
        connection.close()


def ask_raw(site: Site, request: bytes) -> bytes:
    """Return the whole response to bytes that a well-behaved client would not send."""
    with socket.create_connection(
        ("127.0.0.1", site.port), timeout=limits.SOCKET_SECONDS
    ) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        chunks = []
        while chunk := connection.recv(65536):
            chunks.append(chunk)
    return b"".join(chunks)


@pytest.mark.parametrize(
    ("path", "kind", "body"),
    [
        ("/", "text/html; charset=utf-8", b"<!doctype html>"),
        ("/index.html?a=1#b", "text/html; charset=utf-8", b"<!doctype html>"),
        ("/main.py", "text/x-python; charset=utf-8", b"print()"),
        ("/alias.py", "text/x-python; charset=utf-8", b"print()"),
        ("/a%20folder/%C3%BC.svg", "image/svg+xml", b"<svg/>"),
        ("/empty.json", "application/json; charset=utf-8", b""),
        ("/runtime/pyodide/pyodide.mjs", "text/javascript; charset=utf-8", b"export {}"),
        ("/suite/model.pte", "application/octet-stream", MODEL),
    ],
)
def test_serves(site: Site, path: str, kind: str, body: bytes) -> None:
    status, headers, found = ask(site, path)
    assert (status, headers["Content-Type"], found) == (200, kind, body)
    assert headers["Content-Length"] == str(len(body))


def test_the_page_has_its_runtime_by_an_address_that_lasts(site: Site, tree: Path) -> None:
    _, _, config = ask(site, "/python.json")
    interpreter = json.loads(config)["interpreter"].removeprefix(".")
    status, headers, body = ask(site, interpreter)
    assert (status, body) == (200, b"export {}")
    assert "immutable" in headers["Cache-Control"]
    other = interpreter.replace("/v-", "/v-other")
    assert ask(site, other)[0] == 404
    stamp = tree / "runtime" / "stamp.json"
    versions = []
    for text in ("one", "two", "two"):
        stamp.write_text(text, encoding="utf-8")
        versions.append(runtime_version(tree / "runtime"))
    stamp.unlink()
    assert versions[0] != versions[1] == versions[2]


@pytest.mark.parametrize("path", ["/", "/webpte.zip", "/nothing"])
def test_security_headers_on_every_reply(site: Site, path: str) -> None:
    _, headers, _ = ask(site, path)
    assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert headers["Cross-Origin-Embedder-Policy"] == "require-corp"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cache-Control"] == "no-cache"
    policy = dict(part.split(" ", 1) for part in headers["Content-Security-Policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == "'self' 'unsafe-eval'"
    assert policy["style-src"] == "'self'"
    assert "'unsafe-inline'" not in headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    "path",
    [
        "/../secret.txt",
        "/%2e%2e/secret.txt",
        "/%2E%2E%2Fsecret.txt",
        "/..%2fsecret.txt",
        "/a%20folder/../../secret.txt",
        "/suite/../../secret.txt",
        "/suite/..%5c..%5csecret.txt",
        "/%252e%252e/secret.txt",
        "//etc/passwd",
        "/%2fetc/passwd",
        "/suite//etc/passwd",
        "/etc/passwd",
        "/leak.txt",
        "/up/secret.txt",
        "/.hidden",
        "/%2ehidden",
        "/.git/config",
        "/index.html%00.txt",
        "/%00",
        "/%ff%fe",
        "/index.html/",
        "/a%20folder",
        "/a%20folder/",
        "/suite/",
        "/suite",
        "/runtime/",
        "/nothing",
        "/C:/index.html",
        "/" + "x" * 5000,
    ],
)
def test_does_not_serve(site: Site, path: str) -> None:
    status, _, body = ask(site, path)
    assert status == 404
    assert body == b"404 Not Found\n"


@pytest.mark.parametrize(
    "target",
    [b"secret.txt", b"../secret.txt", b"http://localhost/index.html", b"*", b"/\x00", b"/\xff"],
)
def test_does_not_serve_odd_targets(site: Site, target: bytes) -> None:
    reply = ask_raw(
        site, b"GET " + target + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    )
    assert reply.startswith(b"HTTP/1.1 404 ")


def test_malformed_request_is_refused(site: Site) -> None:
    for request in (b"nonsense\r\n\r\n", b"GET / HTTP/x\r\n\r\n", b"GET / a b HTTP/1.1\r\n\r\n"):
        assert b"400 Bad Request" in ask_raw(site, request)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "BREW"])
def test_only_get_and_head(site: Site, method: str) -> None:
    status, headers, _ = ask(site, "/", method)
    assert (status, headers["Allow"], headers["Connection"]) == (405, "GET, HEAD", "close")


def test_head_has_no_body(site: Site) -> None:
    request = b"HEAD /suite/model.pte HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    head, _, body = ask_raw(site, request).partition(b"\r\n\r\n")
    assert b"Content-Length: 1792" in head
    assert body == b""


def test_connection_is_kept(site: Site) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=limits.SOCKET_SECONDS)
    sockets = []
    for path in ("/", "/nothing", "/suite/model.pte", "/webpte.zip"):
        connection.request("GET", path)
        sockets.append(connection.sock)
        connection.getresponse().read()
    connection.close()
    assert sockets[0] is not None
    assert all(other is sockets[0] for other in sockets)


UNSATISFIABLE = f"416 {HTTPStatus(416).phrase}\n".encode()  # a phrase of Python's version


@pytest.mark.parametrize(
    ("wanted", "status", "content_range", "body"),
    [
        ("bytes=0-9", 206, "bytes 0-9/1792", MODEL[:10]),
        ("bytes=1000-", 206, "bytes 1000-1791/1792", MODEL[1000:]),
        ("bytes=-7", 206, "bytes 1785-1791/1792", MODEL[-7:]),
        ("bytes=1790-99999", 206, "bytes 1790-1791/1792", MODEL[1790:]),
        ("bytes=-99999", 206, "bytes 0-1791/1792", MODEL),
        ("bytes=1792-", 416, "bytes */1792", UNSATISFIABLE),
        ("bytes=-0", 416, "bytes */1792", UNSATISFIABLE),
        ("bytes=5-3", 200, None, MODEL),
        ("bytes=0-1,5-6", 200, None, MODEL),
        ("bytes=a-b", 200, None, MODEL),
        ("bytes=-", 200, None, MODEL),
        ("lines=0-1", 200, None, MODEL),
    ],
)
def test_ranges(
    site: Site, wanted: str, status: int, content_range: str | None, body: bytes
) -> None:
    found, headers, data = ask(site, "/suite/model.pte", Range=wanted)
    assert (found, headers.get("Content-Range"), data) == (status, content_range, body)


def test_if_range_with_old_etag_sends_everything(site: Site) -> None:
    _, headers, _ = ask(site, "/suite/model.pte")
    current = {"Range": "bytes=0-9", "If_Range": headers["ETag"]}
    assert ask(site, "/suite/model.pte", **current)[0] == 206
    assert ask(site, "/suite/model.pte", Range="bytes=0-9", If_Range='"old"')[0] == 200


def test_the_configuration_names_what_is_in_the_folder(site: Site, tree: Path) -> None:
    _, headers, body = ask(site, "/python.json")
    assert "application/json" in headers["Content-Type"]
    config = json.loads(body)
    assert (config["archive"], config["bytecode"]) == ("./start.zip", None)
    assert config["later"]["sources"] == "./sources.zip"
    assert ask(site, "/python.json", If_None_Match=headers["ETag"])[0] == 304


def names_in(body: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_a_start_is_without_the_sources_of_compiled_modules(site: Site, tree: Path) -> None:
    file = tree / "package" / "__init__.py"
    hashes = {"webpte/__init__.py": hashlib.sha256(file.read_bytes()).hexdigest(), "gone.py": ""}
    compiled = tree / "runtime" / "webpte.sources.json"
    compiled.write_text(json.dumps(hashes))
    before = file.read_bytes()
    try:
        for text, in_start in ((before, b""), (b"EDITED = 1", b"EDITED = 1")):
            file.write_bytes(text)
            os.utime(file, ns=(len(text), len(text)))  # another time than before
            assert names_in(ask(site, "/start.zip")[2])["webpte/__init__.py"] == in_start
            later = names_in(ask(site, "/sources.zip")[2])
            assert later == ({} if in_start else {"webpte/__init__.py": before})
    finally:
        compiled.unlink()
        file.write_bytes(before)
    assert names_in(ask(site, "/start.zip")[2])["webpte/__init__.py"] == before


def test_the_modules_of_the_page_are_in_the_archive_of_the_start(site: Site, tree: Path) -> None:
    _, headers, before = ask(site, "/start.zip")
    module = tree / "web" / "page" / "views" / "new.py"
    module.parent.mkdir(parents=True)
    module.write_bytes(b"VIEW = 1")
    (module.parent / "new.css").write_bytes(b"")
    try:
        status, _, body = ask(site, "/start.zip", If_None_Match=headers["ETag"])
        assert status == 200
        assert names_in(body) == {**names_in(before), "page/views/new.py": b"VIEW = 1"}
    finally:
        shutil.rmtree(tree / "web" / "page")


PAGE = b"""<link href="./style.css"><script config="./python.json" src="./main.py"></script>"""


def immutable_prefix(site: Site) -> str:
    found = re.search(rb'src="\.(/v-[0-9a-f]+/)main\.py"', ask(site, "/?model=digits")[2])
    assert found
    return found[1].decode()


@pytest.fixture
def prefix(site: Site, tree: Path) -> Iterator[str]:
    """Return the prefix of the page's immutable URLs."""
    page = tree / "web" / "index.html"
    before = page.read_bytes()
    page.write_bytes(PAGE)
    yield immutable_prefix(site)
    page.write_bytes(before)


def test_the_page_names_its_files_by_immutable_urls(site: Site, prefix: str) -> None:
    text = ask(site, "/")[2]
    assert text.count(prefix.encode()) == 3 == text.count(b'"./')
    assert ask(site, "/")[1]["Cache-Control"] == "no-cache"
    for path in (
        "main.py",
        "python.json",
        "webpte.zip",
        "suites.zip",
        "start.zip",
        "sources.zip",
        "runtime/pyodide/pyodide.mjs",
    ):
        status, headers, body = ask(site, prefix + path)
        assert (status, "immutable" in headers["Cache-Control"]) == (200, True), path
        assert "python.json" in path or body == ask(site, f"/{path}")[2]
    for path in ("main.py", "python.json", "webpte.zip", "suites.zip", "start.zip"):
        assert ask(site, f"/{path}")[1]["Cache-Control"] == "no-cache"


def test_the_configuration_by_an_immutable_url_names_the_same_runtime(
    site: Site, prefix: str
) -> None:
    def interpreter(path: str) -> str:
        named: str = json.loads(ask(site, path)[2])["interpreter"]
        return urllib.parse.urljoin(f"http://host{path}", named)

    assert interpreter("/python.json") == interpreter(f"{prefix}python.json")


@pytest.mark.parametrize(
    "changed", ["web/main.py", "web/new.js", "package/__init__.py", "wgsl/elementwise/unary.wgsl"]
)
def test_a_change_gives_other_urls(site: Site, tree: Path, prefix: str, changed: str) -> None:
    assert immutable_prefix(site) == prefix
    file = tree / changed
    before = file.read_bytes() if file.exists() else None
    file.write_bytes(b"# of another length")
    try:
        now = immutable_prefix(site)
        assert now != prefix
        # A tab from before the change gets the current file, and revalidates it each time.
        status, headers, body = ask(site, f"{prefix}main.py")
        assert (status, headers["Cache-Control"]) == (200, "no-cache")
        assert body == ask(site, f"{now}main.py")[2] == (tree / "web" / "main.py").read_bytes()
    finally:
        file.write_bytes(before) if before is not None else file.unlink()


@pytest.mark.parametrize("path", ["/main.py", "/webpte.zip"])
def test_revalidation_by_etag(site: Site, path: str) -> None:
    _, headers, _ = ask(site, path)
    status, _, body = ask(site, path, If_None_Match=f'"other", W/{headers["ETag"]}')
    assert (status, body) == (304, b"")
    assert ask(site, path, If_None_Match='"other"')[0] == 200


def test_revalidation_by_date(site: Site) -> None:
    _, headers, _ = ask(site, "/main.py")
    assert ask(site, "/main.py", If_Modified_Since=headers["Last-Modified"])[0] == 304
    assert ask(site, "/main.py", If_Modified_Since="Mon, 01 Jan 2001 00:00:00 GMT")[0] == 200
    assert ask(site, "/main.py", If_Modified_Since="yesterday")[0] == 200


def test_archive_has_package_and_shaders_and_follows_edits(site: Site, tree: Path) -> None:
    _, headers, body = ask(site, "/webpte.zip")
    assert headers["Content-Type"] == "application/zip"
    expected = [
        "__init__.py",
        "gpu/engine.js",
        "wgsl/elementwise/unary.wgsl",
        "wgsl/lib/index.wgsl",
    ]
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        names = [name for name in archive.namelist() if not name.startswith("boot/")]
        assert names == [f"webpte/{name}" for name in expected]
    assert ask(site, "/webpte.zip")[1]["ETag"] == headers["ETag"]

    (tree / "wgsl" / "elementwise" / "unary.wgsl").write_text("fn longer() {}")
    _, after, changed = ask(site, "/webpte.zip", If_None_Match=headers["ETag"])
    assert after["ETag"] != headers["ETag"]
    with zipfile.ZipFile(io.BytesIO(changed)) as archive:
        assert archive.read("webpte/wgsl/elementwise/unary.wgsl") == b"fn longer() {}"


def test_taken_port_is_explained(site: Site) -> None:
    with pytest.raises(HostError, match=f"port {site.port} is taken .*\n.*--port 0"):
        Site(port=site.port)


def test_impossible_port_and_host_are_explained() -> None:
    with pytest.raises(HostError, match="70000 is not a port"):
        Site(port=70000)
    with pytest.raises(HostError, match=r"cannot listen on 192\.0\.2\.1"):
        Site(host="192.0.2.1")


def test_stops(tree: Path) -> None:
    with Site(web=tree / "web") as site:
        port = site.port
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=limits.SOCKET_SECONDS)


def test_texts_are_compressed_for_clients_that_take_it(site: Site, tree: Path) -> None:
    text = b"export const some = 1;\n" * 500
    (tree / "web/long.js").write_bytes(text)
    status, headers, body = ask(site, "/long.js", Accept_Encoding="br, gzip")
    assert (status, headers["Content-Encoding"], headers["Vary"]) == (
        200,
        "gzip",
        "Accept-Encoding",
    )
    assert gzip.decompress(body) == text
    assert int(headers["Content-Length"]) == len(body) < len(text) / 10
    tag = headers["ETag"]
    assert ask(site, "/long.js", Accept_Encoding="gzip", If_None_Match=tag)[0] == 304
    assert ask(site, "/long.js", "HEAD", Accept_Encoding="gzip")[1]["Content-Encoding"] == "gzip"
    for plain in ({}, {"Accept_Encoding": "gzip;q=0"}, {"Accept_Encoding": "br"}):
        status, headers, body = ask(site, "/long.js", **plain)
        assert (status, body, headers["Vary"]) == (200, text, "Accept-Encoding")
        assert headers["ETag"] != tag
    status, headers, body = ask(site, "/long.js", Accept_Encoding="gzip", Range="bytes=2-5")
    assert (status, body) == (206, text[2:6])
    (tree / "web/long.js").write_bytes(b"// another\n" * 500)
    assert gzip.decompress(ask(site, "/long.js", Accept_Encoding="gzip")[2]).startswith(b"// ano")


def test_programs_and_short_texts_are_sent_as_they_are(site: Site) -> None:
    for path in ("/suite/model.pte", "/main.py", "/webpte.zip"):
        assert "Content-Encoding" not in ask(site, path, Accept_Encoding="gzip")[1]


def test_compressed_copies_make_room() -> None:
    copies = CompressedCopies(kept=100)
    noise = os.urandom(90)
    first = copies.of("a", noise)
    assert copies.of("a", b"") is first
    copies.of("b", noise)
    assert copies.of("a", b"other") != first

"""The local web server: mounts, archives and the page's configuration, read only.

    /               web/
    /runtime/       the browser runtime (see runtime.py)
    /webpte.zip     the Python package with its shaders (see bundle.py)
    /start.zip, /sources.zip    its files and the page's for a start, and sources for tracebacks
    /suites.zip     the runner of suites, for the harness page
    /python.json    the start of the page's Python (see page_config.py)
    /models/        the models that `serve.py models` installed (see models/store.py)
    /gallery.json   the cards of samples and installed models (see gallery.py)
    /embed.html     the page for frames of other sites (see embed.py)
    /folder/        the folder of `serve.py --folder`
    /v-VERSION/     all of this again, by immutable URLs (see immutable_urls.py)
    /runtime/v-VERSION/     the runtime by URLs that do not change with the page

Responses are revalidated by ETag: on loopback a 304 costs less than a stale file. Responses of
immutable URLs are not: the browser may use its cache and the code that it has compiled.

Texts and WebAssembly are compressed for clients that take gzip (see compressed.py).

Only requests to known hosts are answered (see `Hosts`): another site could point its own DNS name
at this machine, and would then count as the same origin.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import socket
import threading
from collections.abc import Iterator, Sequence
from email.utils import formatdate, parsedate_to_datetime
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from webpte_host.base.bundle import Bundle, package_bundle, start_bundles, suites_bundle
from webpte_host.base.errors import HostError
from webpte_host.base.layout import RUNTIME, WEB
from webpte_host.serving.compressed import CompressedCopies, is_worth, takes_gzip
from webpte_host.serving.embed import EMBED, EMBED_HEADERS, embed_page
from webpte_host.serving.gallery import gallery
from webpte_host.serving.immutable_urls import ImmutableUrls
from webpte_host.serving.page_config import CONFIG, SOURCE_ARCHIVE, START, page_config
from webpte_host.serving.page_facts import with_facts
from webpte_host.serving.routing import (
    COMMON_HEADERS,
    Hosts,
    Mount,
    byte_range,
    find_file,
    media_type,
    url_path,
)
from webpte_host.setup.precompile import SOURCES
from webpte_host.setup.runtime import runtime_version

_PAGE_PATH = "/index.html"
_EMBED_PATH = f"/{EMBED}"
_CONFIG_PATH = f"/{CONFIG}"
_GALLERY_PATH = "/gallery.json"
_INSTALLED_PATH = "/models/index.json"
_IDLE_SECONDS = 60
# Closing a connection with unread data discards the response.
_UNREAD_SECONDS, _UNREAD_BYTES = 2, 1 << 20
_CHUNK = 1 << 18


class Handler(BaseHTTPRequestHandler):
    """A connection to a client."""

    protocol_version = "HTTP/1.1"
    server_version = "webpte"
    sys_version = ""
    timeout = _IDLE_SECONDS
    # Head and body are two writes; otherwise the second may wait 40 ms for an ACK.
    disable_nagle_algorithm = True
    # A request line without a version gets a status line, too.
    default_request_version = "HTTP/1.0"
    command = ""
    server: _Server
    _began = False  # whether the head of the current response has been sent

    def parse_request(self) -> bool:
        if self.raw_requestline.strip():
            return super().parse_request()
        self.requestline, self.request_version = "", self.default_request_version
        self.close_connection = True
        self.send_error(HTTPStatus.BAD_REQUEST)
        return False

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def __getattr__(self, name: str) -> Any:
        # The base class looks for a do_METHOD, and answers 501 without it.
        if name.startswith("do_"):
            return self._refuse
        raise AttributeError(name)

    def _refuse(self) -> None:
        # An unread body may follow: the connection cannot be used again.
        self.close_connection = True
        self.send_error(HTTPStatus.METHOD_NOT_ALLOWED)

    def _answer(self) -> None:
        self._began = False
        try:
            self._reply()
        except OSError:  # errors of the connection; errors of files are handled where they are read
            raise
        except Exception:
            if self._began:
                raise
            self.close_connection = True
            self.send_error(HTTPStatus.INTERNAL_SERVER_ERROR)

    def _reply(self) -> None:
        names = self.headers.get_all("Host", [])
        if len(names) != 1:
            self.send_error(
                HTTPStatus.BAD_REQUEST, explain="A request must have exactly one `Host` header."
            )
            return
        if not self.server.hosts.has(names[0], self.connection.getsockname()[0]):
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST, explain=self.server.hosts.refusal)
            return
        requested = url_path(self.path)
        if requested is None:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        named = _PAGE_PATH if requested == "/" else requested
        path, immutable = self.server.immutable_urls.resolve(named)
        if path in self.server.bundles:
            archive = self.server.bundles[path].archive()
            body = BytesIO(archive.data)
            etag = f'"{archive.etag}"'
            self._send(body, len(archive.data), etag, None, media_type(path), immutable)
            return
        made = self._made(path)
        if made is not None:
            etag = f'"{hashlib.sha256(made).hexdigest()[:32]}"'
            self._send(BytesIO(made), len(made), etag, None, media_type(path), immutable)
            return
        self._answer_file(path, immutable or path.startswith(self.server.runtime_path))

    def _answer_file(self, path: str, immutable: bool) -> None:
        file = find_file(self.server.mounts, path)
        if file is None:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        try:
            opened = file.open("rb")
        except OSError:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        with opened:
            status = file.stat()
            etag = f'"{status.st_mtime_ns:x}-{status.st_size:x}"'
            kind = media_type(file.name)
            self._send(opened, status.st_size, etag, status.st_mtime, kind, immutable)

    def _made(self, path: str) -> bytes | None:
        """Return a generated response; None for paths of plain files."""
        if path == _CONFIG_PATH:
            # Relative to the request's path, which may be one folder deeper.
            up = "." if url_path(self.path) == path else ".."
            start = self.server.bundles[f"/{START}"]
            version, address = self.server.version, f"{up}{self.server.runtime_path}"
            return page_config(self.server.runtime, start, version, address)
        if path == _GALLERY_PATH:
            installed = find_file(self.server.mounts, _INSTALLED_PATH)
            return gallery(self.server.web, installed, self.server.runtime)
        if path in (_PAGE_PATH, _EMBED_PATH):
            file = find_file(self.server.mounts, _PAGE_PATH)
            if file is not None:
                text = with_facts(file.read_text(encoding="utf-8"))
                text = self.server.immutable_urls.page(text)
                return (embed_page(text) if path == _EMBED_PATH else text).encode()
        return None

    def _send(
        self,
        body: BinaryIO,
        size: int,
        etag: str,
        modified: float | None,
        kind: str,
        immutable: bool = False,
    ) -> None:
        headers = {"Content-Type": kind, "Accept-Ranges": "bytes", "ETag": etag}
        if is_worth(kind, size):
            headers["Vary"] = "Accept-Encoding"
            if "Range" not in self.headers and takes_gzip(self.headers.get("Accept-Encoding")):
                etag = headers["ETag"] = f'{etag[:-1]}-gzip"'
                headers["Content-Encoding"] = "gzip"
                del headers["Accept-Ranges"]  # ranges are of the plain content
        if self._is_cached(etag, modified):
            self._head(HTTPStatus.NOT_MODIFIED, {"ETag": etag})
            return
        if "Content-Encoding" in headers:
            packed = self.server.copies.of(f"{self.path} {etag}", body.read())
            body, size = BytesIO(packed), len(packed)
        if immutable:
            headers["Cache-Control"] = "max-age=31536000, immutable"
        if modified is not None:
            headers["Last-Modified"] = formatdate(modified, usegmt=True)
        wanted = None
        if self.headers.get("If-Range", etag) == etag:
            wanted = byte_range(self.headers.get("Range"), size)
        if isinstance(wanted, str):
            self.send_error(
                HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE,
                headers={"Content-Range": f"bytes */{size}"},
            )
            return
        first, last = wanted or (0, size - 1)
        if wanted is not None:
            headers["Content-Range"] = f"bytes {first}-{last}/{size}"
        length = last - first + 1
        headers["Content-Length"] = str(length)
        self._head(HTTPStatus.OK if wanted is None else HTTPStatus.PARTIAL_CONTENT, headers)
        if self.command != "HEAD":
            self._copy(body, first, length)

    def _is_cached(self, etag: str, modified: float | None) -> bool:
        tags = self.headers.get("If-None-Match")
        if tags is not None:
            known = [tag.strip().removeprefix("W/") for tag in tags.split(",")]
            return etag in known or "*" in known
        since = self.headers.get("If-Modified-Since")
        if since is None or modified is None:
            return False
        try:
            return int(modified) <= parsedate_to_datetime(since).timestamp()
        except (ValueError, OverflowError, TypeError):
            return False

    def _head(self, status: HTTPStatus, headers: dict[str, str]) -> None:
        self._began = True
        if self.request_version == "HTTP/0.9":  # HTTP/0.9 has neither a status nor headers
            self.request_version = self.default_request_version
        self.send_response(status)
        common = {**COMMON_HEADERS, "Cache-Control": "no-cache"}
        if url_path(getattr(self, "path", "")) == _EMBED_PATH:  # a malformed request has no path
            common |= EMBED_HEADERS
        for name, value in {**common, **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def _copy(self, body: BinaryIO, first: int, length: int) -> None:
        body.seek(first)
        while length > 0:
            chunk = body.read(min(_CHUNK, length))
            if not chunk:
                # The file became shorter; only a broken connection can signal that now.
                self.close_connection = True
                return
            self.wfile.write(chunk)
            length -= len(chunk)

    def send_error(
        self,
        code: int,
        message: str | None = None,
        explain: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        """Send a short plain error with the common security headers."""
        status = HTTPStatus(code)
        lines = [f"{status.value} {status.phrase}", *([explain] if explain else [])]
        body = "".join(f"{line}\n" for line in lines).encode()
        more = {"Content-Type": "text/plain; charset=utf-8", "Content-Length": str(len(body))}
        if status is HTTPStatus.METHOD_NOT_ALLOWED:
            more["Allow"] = "GET, HEAD"
        if self.close_connection:
            more["Connection"] = "close"
        self._head(status, {**more, **(headers or {})})
        if self.command != "HEAD":
            self.wfile.write(body)

    def finish(self) -> None:
        """Read and discard unread data, so that the last response arrives."""
        super().finish()
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)
            self.connection.settimeout(_UNREAD_SECONDS)
            left = _UNREAD_BYTES
            while left > 0 and (unread := self.connection.recv(_CHUNK)):
                left -= len(unread)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Log nothing: the terminal shows only messages for the user."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # A second server on the same port must fail, not take over every other connection.
    allow_reuse_port = False

    def __init__(
        self,
        address: tuple[str, int],
        mounts: list[Mount],
        web: Path,
        bundles: dict[str, Bundle],
        runtime: Path,
        version: str,
        hosts: Hosts,
    ) -> None:
        """Serve `bundles` by path; `version` is the version of the files in `runtime`."""
        self.hosts = hosts
        self.runtime = runtime
        self.version = version
        self.runtime_path = f"/runtime/v-{version}/"  # never changes
        self.mounts = mounts
        self.immutable_urls = ImmutableUrls(web, list(bundles.values()), version)
        self.web = web
        self.bundles = bundles
        self.copies = CompressedCopies()
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore errors: a browser may close a connection early."""


class Site:
    """A running server. Stops at the end of the `with` block."""

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        mounts: Sequence[Mount] = (),
        web: Path = WEB,
        runtime: Path = RUNTIME,
        bundle: Bundle | None = None,
        names: Sequence[str] = (),
    ) -> None:
        """Create a server; `names` are accepted as `Host` besides localhost."""
        version = runtime_version(runtime)
        runtimes = [Mount(path, runtime) for path in ("/runtime/", f"/runtime/v-{version}/")]
        package = bundle or package_bundle()
        start, sources = start_bundles(web, runtime / SOURCES, package)
        bundles: dict[str, Bundle] = {
            "/webpte.zip": package,
            f"/{START}": start,
            f"/{SOURCE_ARCHIVE}": sources,
            "/suites.zip": suites_bundle(),
        }
        every = [Mount("/", web), *runtimes, *mounts]
        try:
            self._server = _Server(
                (host, port), every, web, bundles, runtime, version, Hosts(names)
            )
        except (OSError, OverflowError) as error:
            raise HostError(_listen_message(host, port, error)) from error
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        # The name rather than the address: both are secure contexts, and people type the name.
        return f"http://localhost:{self.port}/"

    @contextlib.contextmanager
    def mounted(self, *mounts: Mount) -> Iterator[None]:
        """Serve more folders until the end of the `with` block."""
        before = self._server.mounts
        self._server.mounts = [*before, *mounts]
        try:
            yield
        finally:
            self._server.mounts = before

    def wait(self) -> None:
        """Wait until Ctrl-C, which is raised here."""
        while self._thread.is_alive():
            self._thread.join(1.0)

    def __enter__(self) -> Site:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _listen_message(host: str, port: int, error: OSError | OverflowError) -> str:
    if isinstance(error, OverflowError):
        return f"{port} is not a port: take one from 1 to 65535, or 0 for any free one."
    if error.errno == errno.EADDRINUSE:
        return (
            f"port {port} is taken by another program (or another serve.py).\n"
            "Stop that one, or choose another port: python3 serve.py --port 0 takes any free one."
        )
    if error.errno == errno.EACCES:
        return f"port {port} may not be used by this user: choose one from 1024 on (--port 8000)."
    return f"cannot listen on {host}, port {port}: {error.strerror or error}."

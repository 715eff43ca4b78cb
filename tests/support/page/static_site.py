"""The static site, served like `python3 -m http.server` in its parent folder."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class _Quiet(SimpleHTTPRequestHandler):
    more_headers: Mapping[str, str] = {}

    def log_message(self, format: str, *arguments: Any) -> None:
        pass

    def end_headers(self) -> None:
        for name, value in self.more_headers.items():
            self.send_header(name, value)
        super().end_headers()


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore connections that a reloaded page has closed."""


class StaticHost:
    """A host that sends no extra headers, unless some are given, and can be switched off."""

    def __init__(self, folder: Path, headers: Mapping[str, str]) -> None:
        handler = type("Handler", (_Quiet,), {"more_headers": headers})

        def answer(*connection: Any) -> SimpleHTTPRequestHandler:
            return handler(*connection, directory=str(folder))

        self._server = _Server(("127.0.0.1", 0), answer)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True)
        self._thread.start()
        self.url = f"http://localhost:{self._server.server_address[1]}/"

    def stop(self) -> None:
        """Stop the host; a second call does nothing."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextmanager
def static_host(folder: Path, headers: Mapping[str, str] | None = None) -> Iterator[StaticHost]:
    host = StaticHost(folder, headers or {})
    try:
        yield host
    finally:
        host.stop()

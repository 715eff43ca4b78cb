"""A local imitation of the Hugging Face Hub: its paths, lists by page, redirects, ranges, tokens.

Files over LARGE bytes are stored as in LFS: their content comes from a second server, to which the
first redirects.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

LARGE = 20_000
TOKEN = "hf_test"  # of an account that may read all repositories


class _Handler(BaseHTTPRequestHandler):
    site: HubSite
    stores = False  # whether this is the server of large files

    def do_OPTIONS(self) -> None:
        self._answer(204, b"", {"Access-Control-Allow-Headers": "*"})

    def do_GET(self) -> None:
        place = urlsplit(self.path)
        asked = unquote(place.path)
        self.site.free.wait()
        site, token = self.site, self.headers.get("Authorization", "")
        with site.lock:
            site.asked.append((self.stores, asked, self.headers.get("Range", ""), token))
        if self.stores:
            self._file(site.contents.get(asked.rpartition("/")[2], b""))
            return
        parts = re.fullmatch(
            r"(?:/api/models)?/([^/]+/[^/]+)/(tree|resolve)/([^/]+)(?:/(.*))?", place.path
        )
        repository = site.repositories.get(parts[1]) if parts is not None else None
        allowed = token == f"Bearer {TOKEN}"
        if parts is None or (repository is None and not allowed):
            self._refuse(401, "RepoNotFound")
        elif repository is None:
            self._refuse(404, "RepoNotFound")
        elif parts[1] in site.gated and not allowed:
            self._refuse(401, "GatedRepo")
        elif parts[1] in site.closed and not allowed:
            self._refuse(401, "RepoNotFound")
        elif unquote(parts[3]) not in ("main", "v1", "refs/pr/1"):
            self._refuse(404, "RevisionNotFound")
        elif parts[2] == "tree":
            self._list(repository, place.path, parse_qs(place.query))
        else:
            self._resolve(repository, unquote(parts[4] or ""))

    def _list(self, files: Mapping[str, bytes], path: str, query: Mapping[str, list[str]]) -> None:
        begin, step = int(query.get("cursor", ["0"])[0]), self.site.page
        entries: list[dict[str, Any]] = [{"type": "directory", "path": "a", "oid": "0", "size": 0}]
        for name in list(files)[begin : begin + step]:
            data = files[name]
            entry = {"type": "file", "path": name, "size": len(data), "oid": _blob(data)}
            if len(data) > LARGE:
                entry["lfs"] = {"oid": _sha256(data), "size": len(data), "pointerSize": 130}
            entries.append(entry)
        more = {}
        if begin + step < len(files):
            following = f"{self.site.url}{path}?recursive=true&cursor={begin + step}"
            more = {"Link": f'<{following}>; rel="next"'}
        self._answer(
            200, json.dumps(entries).encode(), {"Content-Type": "application/json", **more}
        )

    def _resolve(self, files: Mapping[str, bytes], path: str) -> None:
        data = files.get(path)
        if data is None:
            self._refuse(404, "EntryNotFound")
        elif len(data) > LARGE:
            stored = f"{self.site.store_url}/{quote(path.rpartition('/')[2])}/{_sha256(data)}"
            self._answer(302, b"", {"Location": stored, "X-Linked-Etag": f'"{_sha256(data)}"'})
        else:
            self._file(data)

    def _file(self, data: bytes) -> None:
        marks = {"ETag": f'"{_sha256(data)}"', "Accept-Ranges": "bytes"}
        found = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if found is None:
            self._answer(200, data, marks)
            return
        first, last = int(found[1]), min(int(found[2] or len(data)), len(data) - 1)
        if first > last:
            self._answer(416, b"", {"Content-Range": f"bytes */{len(data)}"})
            return
        marks["Content-Range"] = f"bytes {first}-{last}/{len(data)}"
        self._answer(206, data[first : last + 1], marks)

    def _refuse(self, status: int, code: str) -> None:
        self._answer(status, b"no", {"X-Error-Code": code})

    def _answer(self, status: int, data: bytes, headers: Mapping[str, str]) -> None:
        site = self.site
        sent = data
        if self.stores and site.cut:
            site.cut -= 1
            sent = data[: len(data) // 2]
        self.send_response(status)
        exposed = "ETag, Link, X-Error-Code, Content-Range, Accept-Ranges"
        for name, value in {
            "Access-Control-Allow-Origin": "*",
            "Access-Control-Expose-Headers": exposed,
            **headers,
            "Content-Length": str(len(data)),
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(sent)
        if len(sent) < len(data):
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        pass


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _blob(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class HubSite:
    """Two servers: of the Hub, and of its large files.

    repositories  files by path, by name of the repository
    gated, closed names of repositories that need the token
    page          files in a page of a list
    cut           answers of the second server that break off in the middle
    asked         requests: whether to the second server, the path, the range, the token
    """

    def __init__(self) -> None:
        self.repositories: dict[str, dict[str, bytes]] = {}
        self.gated: set[str] = set()
        self.closed: set[str] = set()
        self.page = 1000
        self.cut = 0
        self.asked: list[tuple[bool, str, str, str]] = []
        self.contents: dict[str, bytes] = {}
        self.lock = threading.Lock()
        self.free = threading.Event()
        self.free.set()
        self._servers = [
            ThreadingHTTPServer(
                ("127.0.0.1", 0), type("Of", (_Handler,), {"site": self, "stores": stores})
            )
            for stores in (False, True)
        ]
        self.url, self.store_url = (
            f"http://127.0.0.1:{server.server_address[1]}" for server in self._servers
        )

    def add(self, name: str, files: Mapping[str, bytes]) -> None:
        """Add a repository."""
        self.repositories[name] = dict(files)
        self.contents |= {_sha256(data): data for data in files.values()}

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let no request be answered meanwhile."""
        self.free.clear()
        try:
            yield
        finally:
            self.free.set()

    def __enter__(self) -> HubSite:
        for server in self._servers:
            threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._servers:
            server.shutdown()
            server.server_close()

    def paths(self) -> list[str]:
        """Return the paths that were asked for since the last call."""
        with self.lock:
            found, self.asked = [path for _, path, *_ in self.asked], []
        return found


def files_of(folder: Path) -> dict[str, bytes]:
    """Read all files below a folder, by path."""
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def repositories(samples: Path, models: Path) -> dict[str, dict[str, bytes]]:
    """Return a repository in each layout, made of samples and small models of tests.

    Programs for other backends are texts that no test opens.
    """
    chat = {name: (samples / f"stories.{name}").read_bytes() for name in ("pte", *_TOKENIZER)}
    tokenizer = {name: chat[name] for name in _TOKENIZER}
    listed = {
        "stories.pte": chat["pte"],
        "tokenizer/notes.txt": b"not listed",
        **tokenizer,
    }
    manifest = {
        "schema": 1,
        "task": "chat",
        "files": [
            {"path": path, "role": role, "sha256": _sha256(listed[path]), "size": len(listed[path])}
            for path, role in {"stories.pte": "decoder", "tokenizer.json": "tokenizer"}.items()
        ],
    }
    config = {"model": "stories", "capabilities": ["text-generation"], "variants": []}
    by_backend = {
        f"{size}/{backend}/stories_{size}_{backend}_{precision}.pte": data
        for size, backend, precision, data in (
            ("1b", "vulkan", "fp32", chat["pte"] + bytes(8)),
            ("1b", "vulkan", "8da4w", chat["pte"]),
            ("1b", "xnnpack", "8da4w", b"x"),
            ("1b", "coreml", "fp16", b"c"),
            ("3b", "mlx", "int4", b"m"),
            ("3b", "vulkan", "fp16", chat["pte"] + bytes(16)),
        )
    }
    words = {path: (models / "feelings" / path).read_bytes() for path in _FEELINGS}
    return {
        "executorch-community/Stories-ExecuTorch-WebGPU": {
            "README.md": b"---\npipeline_tag: text-generation\n---\nstories",
            "manifest.json": json.dumps(manifest).encode(),
            **listed,
        },
        "software-mansion/Stories-ExecuTorch": {
            "config.json": b'{"model_name": "stories"}',
            **{
                f"{path.rpartition('/')[0]}/config.json": json.dumps(config).encode()
                for path in by_backend
            },
            **by_backend,
            **tokenizer,
        },
        "someone/feelings": words,
    }


_TOKENIZER = ("tokenizer.json", "tokenizer_config.json")
_FEELINGS = ("model.pte", "config.json", *_TOKENIZER)

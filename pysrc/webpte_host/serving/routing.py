"""What a URL means: which file it names, its media type, and the headers it is sent with."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import unquote_to_bytes

# What the page may load. Tried out in Chromium: PyScript does not start without `unsafe-eval`
# (which includes WebAssembly), and webpte installs its dispatch loop with run_js; both are
# scripts from here. PyScript's worker is a blob. No inline scripts, no inline styles.
# `connect-src` is open because a model may be opened from any address that the user types in.
CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self' 'unsafe-eval'",
        "worker-src 'self' blob:",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "font-src 'self'",
        "manifest-src 'self'",
        "frame-src 'self'",
        "connect-src 'self' blob: data: https: http:",
        "frame-ancestors 'self'",
        "base-uri 'none'",
        "form-action 'none'",
    )
)

# Cross-origin isolation gives the page SharedArrayBuffer, which PyScript's worker needs to wait
# for the main thread.
COMMON_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}

# Not the system's table: it differs from machine to machine, and `nosniff` makes it matter.
_MEDIA_TYPES = {
    ".cjs": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".jpg": "image/jpeg",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json; charset=utf-8",
    ".md": "text/markdown; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".png": "image/png",
    ".py": "text/x-python; charset=utf-8",
    ".svg": "image/svg+xml",
    ".toml": "application/toml; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
    ".wasm": "application/wasm",
    ".webmanifest": "application/manifest+json; charset=utf-8",
    ".webp": "image/webp",
    ".wgsl": "text/wgsl; charset=utf-8",
    ".whl": "application/zip",
    ".woff2": "font/woff2",
    ".zip": "application/zip",
}
_BINARY = "application/octet-stream"
_HOST = re.compile(r"(?P<name>\[[0-9A-Fa-f:.%]+\]|[^\s:\[\]/@]+)(?::[0-9]{1,5})?")


def media_type(name: str) -> str:
    return _MEDIA_TYPES.get(Path(name).suffix.lower(), _BINARY)


@dataclass(frozen=True)
class Mount:
    """A folder under a URL prefix, which starts and ends with a slash."""

    prefix: str
    folder: Path


class Hosts:
    """Names that a server is asked by: localhost, the address that it is asked at, and given ones.

    A page can let a name of its own lead to any address, but no address to another. So an address
    in `Host` is as good as the connection, and a name is good if it is known.
    """

    def __init__(self, names: Sequence[str] = ()) -> None:
        self._names = {"localhost", *(name.lower().rstrip(".") for name in names)}

    @property
    def refusal(self) -> str:
        return (
            f"This server answers to {', '.join(sorted(self._names))} and to its address only. "
            "`serve.py --allow-host NAME` adds a name."
        )

    def has(self, header: str, address: str) -> bool:
        """Whether to answer a request with this `Host` that came to this address of ours."""
        found = _HOST.fullmatch(header.strip())
        if found is None:
            return False
        name = found["name"].lower().rstrip(".")
        if name in self._names:
            return True
        try:
            asked, ours = (
                ip_address(text.strip("[]").partition("%")[0]) for text in (name, address)
            )
        except ValueError:
            return False
        # An IPv6 socket may be asked by IPv4, and says so in its own way.
        ours = getattr(ours, "ipv4_mapped", None) or ours
        return asked == ours or (asked.is_loopback and ours.is_loopback)


def url_path(target: str) -> str | None:
    """The decoded path of a request target, or None if it is not one that we would ever serve."""
    path = target.split("?", 1)[0].split("#", 1)[0]
    if not path.startswith("/"):
        return None
    try:
        decoded = unquote_to_bytes(path).decode("utf-8")
    except UnicodeDecodeError:
        return None
    if any(ord(char) < 32 or char in "\\:\x7f" for char in decoded):
        return None
    # Dotfiles, `.` and `..` alike; and `//`, which some systems read as another root.
    segments = decoded[1:].split("/")
    if any(part.startswith(".") for part in segments) or "" in segments[:-1]:
        return None
    return decoded


def find_file(mounts: list[Mount], path: str) -> Path | None:
    """The file behind a path from `url_path`; the longest matching prefix decides."""
    for mount in sorted(mounts, key=lambda mount: len(mount.prefix), reverse=True):
        if path.startswith(mount.prefix):
            return _inside(mount.folder, path[len(mount.prefix) :] or "index.html")
    return None


def _inside(folder: Path, relative: str) -> Path | None:
    if relative.endswith("/"):
        return None
    try:
        root = folder.resolve()
        # Resolved, so that a symbolic link counts as the place that it leads to.
        file = (root / relative).resolve()
        return file if file.is_relative_to(root) and file.is_file() else None
    except (OSError, ValueError, RuntimeError):
        return None


def byte_range(header: str | None, size: int) -> tuple[int, int] | str | None:
    """(first, last) of a single range; None: send everything; "unsatisfiable"."""
    if header is None or not header.startswith("bytes=") or "," in header:
        return None
    first, dash, last = header.removeprefix("bytes=").strip().partition("-")
    if not dash or not (first or last) or not _digits(first) or not _digits(last):
        return None
    if not first:
        start, end = max(0, size - _number(last)), size - 1
    else:
        start, end = _number(first), min(_number(last), size - 1) if last else size - 1
        if last and _number(last) < start:
            return None
    return (start, end) if start <= end and start < size else "unsatisfiable"


def _digits(text: str) -> bool:
    return not text or (text.isascii() and text.isdigit())


def _number(digits: str) -> int:
    """An integer; Python refuses those of thousands of digits, which are beyond any file anyway."""
    return int(digits) if len(digits) < 4000 else 10**4000

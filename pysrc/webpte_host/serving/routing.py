"""Maps URLs to files, media types and headers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import unquote_to_bytes

from webpte_serve.api.host_header import host_name

# The sources that the page may load from. PyScript does not start in Chromium without `unsafe-eval`
# (which includes WebAssembly), and webpte installs its dispatch loop with run_js; both are scripts
# of this server. PyScript's worker is a blob. Inline scripts and styles are forbidden.
# `connect-src` is open because the user may open a model from any address.
CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self' 'unsafe-eval'",
        "worker-src 'self' blob:",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "media-src 'self' blob:",
        "font-src 'self'",
        "manifest-src 'self'",
        "frame-src 'self'",
        "connect-src 'self' blob: data: https: http:",
        "frame-ancestors 'self'",
        "base-uri 'none'",
        "form-action 'none'",
    )
)

# Cross-origin isolation gives the page SharedArrayBuffer, through which it interrupts Python, and
# with which PyScript's worker waits for the main thread.
COMMON_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}

# The system's table is not used: it differs between machines, and `nosniff` makes types binding.
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


def media_type(name: str) -> str:
    return _MEDIA_TYPES.get(Path(name).suffix.lower(), _BINARY)


@dataclass(frozen=True)
class Mount:
    """A folder under a URL prefix, which starts and ends with a slash."""

    prefix: str
    folder: Path


class Hosts:
    """The values of `Host` that a server accepts: localhost, its own address, and given names.

    An attacker can point a DNS name at any address, but cannot redirect an address. So an address
    in `Host` is accepted if it is the connection's, and a name only if it is known.
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
        """Return whether to answer a request with this `Host` at this address of the server."""
        found = host_name(header)
        if found is None:
            return False
        name = found.rstrip(".")
        if name in self._names:
            return True
        try:
            requested, ours = (
                ip_address(text.strip("[]").partition("%")[0]) for text in (name, address)
            )
        except ValueError:
            return False
        # An IPv6 socket reports the address of an IPv4 connection in mapped form.
        ours = getattr(ours, "ipv4_mapped", None) or ours
        return requested == ours or (requested.is_loopback and ours.is_loopback)


def url_path(target: str) -> str | None:
    """Decode the path of a request target; None for a path that is never served."""
    path = target.split("?", 1)[0].split("#", 1)[0]
    if not path.startswith("/"):
        return None
    try:
        decoded = unquote_to_bytes(path).decode("utf-8")
    except UnicodeDecodeError:
        return None
    if any(ord(char) < 32 or char in "\\:\x7f" for char in decoded):
        return None
    # Refuse dotfiles, `.` and `..`, and `//`, which some systems read as another root.
    segments = decoded[1:].split("/")
    if any(part.startswith(".") for part in segments) or "" in segments[:-1]:
        return None
    return decoded


def find_file(mounts: list[Mount], path: str) -> Path | None:
    """Return the file of a path from `url_path`; the longest matching prefix decides."""
    for mount in sorted(mounts, key=lambda mount: len(mount.prefix), reverse=True):
        if path.startswith(mount.prefix):
            return _inside(mount.folder, path[len(mount.prefix) :] or "index.html")
    return None


def _inside(folder: Path, relative: str) -> Path | None:
    if relative.endswith("/"):
        return None
    try:
        root = folder.resolve()
        # Resolve the path, so that a symbolic link counts as its target.
        file = (root / relative).resolve()
        return file if file.is_relative_to(root) and file.is_file() else None
    except (OSError, ValueError, RuntimeError):
        return None


def byte_range(header: str | None, size: int) -> tuple[int, int] | str | None:
    """Parse a single range to (first, last); None: send everything; or "unsatisfiable"."""
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
    """Parse an integer, clamped: Python refuses thousands of digits, which exceed any file."""
    return int(digits) if len(digits) < 4000 else 10**4000

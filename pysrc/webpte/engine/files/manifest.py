"""Manifests: a JSON file that names the files of a program, with their sizes and hashes.

    {
      "program": "model.pte",
      "data": ["weights.ptd"],
      "tokenizer": "tokenizer.json",
      "task": "text-classification",
      "files": [
        {"name": "model.pte", "bytes": 4096, "sha256": "9f86d081..."},
        {"name": "weights.ptd", "bytes": 943718400, "sha256": "60303ae2..."}
      ]
    }

Names are relative to the manifest. `data`, `tokenizer` and `task` (a name of `webpte.tasks`) may be
missing, and so may `files`, or a file's size and hash. The card of an installed model
(docs/use/export.md) is a manifest, too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from webpte.engine.files.json_reader import Table, parse_table
from webpte.errors import ManifestError

MAX_BYTES = 1 << 20
MAX_FILES = 1000
NAME = "webpte.json"  # the name that `serve.py export` writes

_SHA256 = re.compile(r"[0-9a-f]{64}")
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:")


@dataclass(frozen=True)
class ManifestPart:
    """A file of a program; an absent size or hash is not checked."""

    name: str
    size: int | None = None
    sha256: str = ""


@dataclass(frozen=True)
class Manifest:
    """The files of a program: the `.pte`, its `.ptd` files, and its tokenizer.

    task   the model's task; on the card of a model it may be a description
    """

    program: ManifestPart
    data: tuple[ManifestPart, ...] = ()
    tokenizer: ManifestPart | None = None
    task: str = ""


def read_manifest(data: bytes | str, name: str) -> Manifest:
    """Parse a manifest; errors use the file's `name`."""
    if len(data) > MAX_BYTES:
        raise ManifestError(f"{name} has {len(data):,} bytes; a manifest has at most {MAX_BYTES:,}")
    table = parse_table(data, name, ManifestError)
    listed = table.listed("files", [])
    if len(listed) > MAX_FILES:
        raise ManifestError(f"{name} lists {len(listed):,} files; at most {MAX_FILES:,} are read")
    known: dict[str, ManifestPart] = {}
    for entry in table.tables("files"):
        part = _part(entry)
        if part.name in known:
            raise ManifestError(f"{entry.name}: {part.name!r} is listed twice")
        known[part.name] = part

    def find(file: object, key: str) -> ManifestPart:
        if not isinstance(file, str):
            raise ManifestError(f"{name}: {key} must name files")
        _check_name(file, f"{name}: {key}")
        return known.get(file, ManifestPart(file))

    tokenizer = table.text("tokenizer", None)
    files = table.listed("data", [])
    if len(files) > MAX_FILES:
        raise ManifestError(
            f"{name}: data has {len(files):,} files; at most {MAX_FILES:,} are read"
        )
    return Manifest(
        find(table.text("program"), "program"),
        tuple(find(file, "data") for file in files),
        None if tokenizer is None else find(tokenizer, "tokenizer"),
        table.text("task", ""),
    )


def _part(entry: Table) -> ManifestPart:
    name = entry.text("name")
    _check_name(name, f"{entry.name}: name")
    sha256 = entry.text("sha256", "").lower()
    if sha256 and not _SHA256.fullmatch(sha256):
        raise ManifestError(f"{entry.name}: sha256 must have 64 hexadecimal digits")
    return ManifestPart(name, entry.integer("bytes", None, low=0), sha256)


def _check_name(name: str, where: str) -> None:
    """Raise unless a name is a relative path that stays below the manifest's folder."""
    parts = name.split("/")
    outside = name.startswith("/") or _SCHEME.match(name) or ".." in parts or "" in parts
    if outside or not name.isprintable() or any(mark in name for mark in "\\?#%"):
        raise ManifestError(
            f"{where} must be a path below the manifest's folder, such as model.pte, not {name!r}"
        )

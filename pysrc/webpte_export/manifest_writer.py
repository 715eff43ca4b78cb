"""Writes the manifest of an export: its files, with sizes and hashes, for `webpte.load`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

TOKENIZER = "tokenizer.json"


def write_manifest(program: Path, beside: Sequence[str] = ()) -> Path:
    """Write PROGRAM.manifest.json; `beside` has names of further files in the same folder."""
    names = [program.name, *beside]
    content: dict[str, Any] = {"program": program.name}
    if TOKENIZER in beside:
        content["tokenizer"] = TOKENIZER
    content["files"] = [_described(program.with_name(name)) for name in names]
    path = program.with_suffix(".manifest.json")
    _write(path, content)
    return path


def _write(path: Path, content: dict[str, Any]) -> None:
    draft = path.with_suffix(".json.part")
    draft.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    draft.replace(path)


def _described(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    return {"name": path.name, "bytes": path.stat().st_size, "sha256": sha256}


def add_task(program: Path, task: str) -> None:
    """Write the name of a program's task in `webpte.tasks` into its manifest."""
    path = program.with_suffix(".manifest.json")
    content = json.loads(path.read_text(encoding="utf-8"))
    _write(path, {"task": task, **content})

"""Records of the library's files, read from the browser's disk.

Records are checked, because any page of the site can write there, and so can older versions of this
page.
"""

from __future__ import annotations

from typing import Any

from webpte.engine.files.json_reader import Table, parse_json

Record = dict[str, Any]


def read_record(text: str) -> Record | None:
    """Parse and check a record; None if it is invalid."""
    try:
        return _checked(parse_json(text, "a record of the library", ValueError))
    except ValueError:
        return None


def read_records(text: str) -> list[Record]:
    """Parse a list of records; invalid records are left out."""
    try:
        found = parse_json(text, "the records of the library", ValueError)
    except ValueError:
        return []
    records = []
    for content in found if isinstance(found, list) else []:
        try:
            records.append(_checked(content))
        except ValueError:
            continue  # the others may be valid
    return records


def _checked(content: object) -> Record:
    if not isinstance(content, dict):
        raise ValueError("a record is a table")
    record = Table(content, "a record of the library", ValueError)
    parts = record.listed("parts", [])
    if not all(isinstance(part, str) for part in parts):
        raise ValueError("parts are addresses")
    return {
        "address": record.text("address"),
        "name": record.text("name"),
        "size": record.integer("size", low=0),
        "etag": record.text("etag", ""),
        "modified": record.text("modified", ""),
        "kept": record.number("kept", 0),
        "used": record.number("used", 0),
        "parts": tuple(parts),
        "missing": record.integer("missing", 0, low=0),
        "sha256": record.text("sha256", ""),
    }

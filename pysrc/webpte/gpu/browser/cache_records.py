"""Records of the library's files, as they come from the browser's disk.

Any page of the site can write there, and an older version of this one may have.
"""

from __future__ import annotations

from typing import Any

from webpte.json_reader import Table, parse_json

Record = dict[str, Any]


def read_record(text: str) -> Record | None:
    """A record, checked; None if it is none."""
    try:
        return _checked(parse_json(text, "a record of the library", ValueError))
    except ValueError:
        return None


def read_records(text: str) -> list[Record]:
    """Keep the items of a list that are records."""
    try:
        found = parse_json(text, "the records of the library", ValueError)
    except ValueError:
        return []
    records = []
    for content in found if isinstance(found, list) else []:
        try:
            records.append(_checked(content))
        except ValueError:
            continue  # the others are still there
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
    }

"""Records of the library that others may have written: valid ones are used, others ignored."""

from __future__ import annotations

import json

from support.harness import extent
from support.harness.bounded import bounded_work
from support.harness.mutants import Random, damaged_json, outcomes
from webpte.engine.browser.cache_records import read_record, read_records
from webpte.engine.open.library import Entry

RECORD = {
    "address": "https://example.org/model.pte",
    "name": "model.pte",
    "size": 5,
    "etag": "a",
    "modified": "",
    "kept": 1.5,
    "used": 2.5,
    "parts": ["local:model.ptd"],
    "data": "0.bin",  # for the JavaScript that reads them
}


def test_records_are_read() -> None:
    record = read_record(json.dumps(RECORD))
    assert record is not None
    entry = Entry(**record)
    assert (entry.name, entry.size, entry.parts) == ("model.pte", 5, ("local:model.ptd",))
    old = {key: RECORD[key] for key in ("address", "name", "size")}
    assert [one["name"] for one in read_records(json.dumps([RECORD, old]))] == ["model.pte"] * 2


def test_bad_ones_are_not_there_and_the_others_are() -> None:
    bad = [5, {}, {**RECORD, "used": "now"}, {**RECORD, "parts": [1]}, {**RECORD, "size": -1}]
    assert [read_record(json.dumps(one)) for one in bad] == [None] * len(bad)
    assert len(read_records(json.dumps([*bad, RECORD]))) == 1
    assert read_records("[" * 100_000) == read_records("{}") == []


def test_damaged_records() -> None:
    def read(data: bytes) -> None:
        text = data.decode("utf-8", "replace")
        record = read_record(text)
        for one in [*read_records(f"[{text}]"), *([record] if record else [])]:
            entry = Entry(**one)
            assert isinstance(entry.name, str)
            assert -entry.used <= 0 or entry.used < 0

    def make(rng: Random) -> bytes:
        return damaged_json(RECORD, rng)

    with bounded_work():
        outcomes(read, make, extent.count(1000, 20_000), (), "records")

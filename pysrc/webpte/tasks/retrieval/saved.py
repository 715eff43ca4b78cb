"""An index as a file: a `.safetensors` with two tensors and metadata.

    __metadata__  format, version, and the model: the hash of the program and how it is used
    vectors       F32 [passages, width], in the order of the passages
    documents     U8: JSON with names, texts, sections and the places of passages

The file may come from anywhere, so nothing in it is trusted: sizes are limited, places must be in
their texts, and vectors must have the right number and width, or InputError is raised.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from webpte.engine.files.json_reader import Table, parse_json, parse_table
from webpte.engine.files.source import ByteSource, Region
from webpte.engine.format.safetensors import BYTES, FLOATS, LENGTH, parse_safetensors, read_header
from webpte.errors import InputError, SourceError
from webpte.program import fingerprint_of
from webpte.tasks.retrieval.documents import (
    MOST_CHARACTERS,
    MOST_NAME,
    Document,
    Section,
)
from webpte.tasks.retrieval.embedder import Embedder
from webpte.tasks.retrieval.passages import PassagePlace

FORMAT, VERSION = "webpte retrieval", "1"
MOST_TEXT = 128 << 20  # bytes of the documents
_ALIGNMENT = 8


@dataclass(frozen=True)
class IndexedDocument:
    """A document of an index, and the places of its passages."""

    document: Document
    places: tuple[PassagePlace, ...]


@dataclass(frozen=True)
class SavedIndex:
    """The contents of a file, except for its vectors."""

    entries: tuple[IndexedDocument, ...]
    vectors: Region
    count: int


def documents_json(entries: Sequence[IndexedDocument]) -> bytes:
    """Return the documents as JSON; raise InputError if they are too large to be read again."""
    data = json.dumps([_plain(entry) for entry in entries], separators=(",", ":")).encode()
    if len(data) > MOST_TEXT:
        raise InputError(
            f"an index with {len(data):,} bytes of documents is too large to save: at most "
            f"{MOST_TEXT:,} are read"
        )
    return data


def _plain(entry: IndexedDocument) -> dict[str, Any]:
    document = entry.document
    sections = [[one.start, one.end, one.page, one.heading] for one in document.sections]
    places = [[one.start, one.end, document.section_number(one.start)] for one in entry.places]
    return {"name": document.name, "text": document.text, "sections": sections, "places": places}


async def head_of(embedder: Embedder, entries: Sequence[IndexedDocument]) -> bytes:
    """Return the first bytes of a file, up to the vectors."""
    count, text = sum(len(entry.places) for entry in entries), len(documents_json(entries))
    end = 4 * count * embedder.width
    head = {
        "__metadata__": {"format": FORMAT, "version": VERSION, "model": await _model(embedder)},
        "vectors": _described("F32", [count, embedder.width], 0, end),
        "documents": _described("U8", [text], end, end + text),
    }
    data = json.dumps(head).encode()
    data += b" " * (-len(data) % _ALIGNMENT)
    return LENGTH.pack(len(data)) + data


def _described(dtype: str, shape: list[int], begin: int, end: int) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


async def _model(embedder: Embedder) -> str:
    return f"{await fingerprint_of(embedder.program)} {embedder.key}"


async def write_whole(path: Path, chunks: AsyncGenerator[bytes]) -> None:
    """Write a file under another name, and rename it when complete."""
    temporary = path.with_name(f"{path.name}.part")
    try:
        async with aclosing(chunks):
            with temporary.open("wb") as file:
                async for chunk in chunks:
                    file.write(chunk)
        os.replace(temporary, path)
    except OSError as error:
        raise SourceError(f"{path} cannot be written: {error.strerror}") from error
    finally:
        temporary.unlink(missing_ok=True)


async def read_saved(source: ByteSource, embedder: Embedder) -> SavedIndex:
    """Read a file for an embedder, but not its vectors."""
    header = await read_header(source, InputError)
    name = source.name
    known = parse_table(header, f"{name}: the header", InputError).table("__metadata__", None)
    if known is None or known.text("format", "") != FORMAT:
        raise InputError(f"{name} is not a saved index, but another safetensors file")
    if known.text("version", "") != VERSION:
        raise InputError(
            f"{name} has version {known.text('version', '')[:20]!r}, and this webpte reads "
            f"{VERSION}: add the documents anew"
        )
    if known.text("model", "") != await _model(embedder):
        raise InputError(
            f"{name} was made with another program than {embedder.program.name}: open that, or "
            "add the documents anew"
        )
    tensors = parse_safetensors(header, source.size, name, InputError, FLOATS | BYTES)
    vectors, documents = tensors.get("vectors"), tensors.get("documents")
    if vectors is None or documents is None or documents.dtype != "U8":
        raise InputError(f"{name} lacks the vectors or the documents of an index")
    if documents.span.size > MOST_TEXT:
        raise InputError(
            f"{name} has {documents.span.size:,} bytes of documents; at most {MOST_TEXT:,} are read"
        )
    data = await source.read(documents.span.offset, documents.span.size)
    listed = parse_json(data, f"{name}: the documents", InputError, max_bytes=MOST_TEXT)
    entries = tuple(_entries(listed, name))
    count = sum(len(entry.places) for entry in entries)
    if (vectors.dtype, vectors.shape) != ("F32", (count, embedder.width)):
        raise InputError(
            f"{name} has vectors of {vectors.dtype} {list(vectors.shape)} for {count} passages of "
            f"width {embedder.width}: the file is damaged"
        )
    region = Region(source, vectors.span.offset, vectors.span.size)
    return SavedIndex(entries, region, count)


def _entries(listed: Any, name: str) -> Iterator[IndexedDocument]:
    if not isinstance(listed, list):
        raise InputError(f"{name}: the documents must be a list")
    seen: set[str] = set()
    for at, one in enumerate(listed):
        where = f"{name}: document {at}"
        if not isinstance(one, dict):
            raise InputError(f"{where} must be a table")
        entry = _entry(Table(one, where, InputError))
        if entry.document.name in seen:
            raise InputError(f"{where} has the name of another one")
        seen.add(entry.document.name)
        yield entry


def _entry(table: Table) -> IndexedDocument:
    name, text = table.text("name"), table.text("text")
    if not 0 < len(name) <= MOST_NAME or len(text) > MOST_CHARACTERS:
        raise InputError(f"{table.name} has a name or a text of a length that is not allowed")
    sections: list[Section] = []
    for row in table.listed("sections"):
        if not _is_section(row):
            raise InputError(f"{table.name}: a section must be [start, end, page, heading]")
        sections.append(Section(*row))
    begin = 0
    for section in sections:
        if not begin <= section.start <= section.end <= len(text):
            raise InputError(f"{table.name}: its sections are not in order, or not in its text")
        begin = section.end
    places: list[PassagePlace] = []
    for row in table.listed("places"):
        if not _are_sizes(row, 3) or row[2] >= len(sections):
            raise InputError(f"{table.name}: a place must be [start, end, section]")
        section = sections[row[2]]
        if not section.start <= row[0] < row[1] <= section.end:
            raise InputError(f"{table.name}: a passage is not in its section")
        places.append(PassagePlace(row[0], row[1], section.page, section.heading))
    if not places:
        raise InputError(f"{table.name} has no passages")
    return IndexedDocument(Document(name, text, tuple(sections)), tuple(places))


def _is_section(row: Any) -> bool:
    if not isinstance(row, list) or len(row) != 4 or not isinstance(row[3], str):
        return False
    return _are_sizes(row[:2], 2) and (row[2] is None or _are_sizes(row[2:3], 1))


def _are_sizes(row: Any, count: int) -> bool:
    return (
        isinstance(row, list)
        and len(row) == count
        and all(type(one) is int and 0 <= one < 1 << 40 for one in row)
    )

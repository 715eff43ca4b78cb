"""Reads documents: text files, Markdown and PDF.

Files are untrusted: their sizes are limited, and an unreadable file raises a DocumentError with its
name.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from webpte.engine.open.open_source import open_source
from webpte.errors import DocumentError
from webpte.tasks.retrieval.documents import Document
from webpte.tasks.retrieval.pdf import read_pdf

MOST_FILE_BYTES = 256 << 20

_MARKDOWN = (".md", ".markdown", ".mdown")
_PDF, _PDF_WITHIN = b"%PDF-", 1024  # the mark of a PDF is within these bytes
_BEYOND_TEXT = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f]")


async def read_document(source: Any, name: str | None = None) -> Document:
    """Read a document.

    source  a Document, which is returned unchanged; a file: bytes, a path, in the browser also a
            URL or a Blob; a PDF is known by its first bytes, Markdown by its name
    name    its name in lists and citations; by default the file's
    """
    if isinstance(source, Document):
        return source
    given = name or (source.name if isinstance(source, Path) else None)
    file = await open_source(source, name=given)
    given = given or file.name
    if file.size > MOST_FILE_BYTES:
        raise DocumentError(
            f"{given} has {file.size:,} bytes; documents of at most {MOST_FILE_BYTES:,} are read"
        )
    data = await file.read(0, file.size)
    if _PDF in data[:_PDF_WITHIN]:
        return Document.of_pages(await read_pdf(data, given), given)
    return document_of(_decoded(data, given), given)


def document_of(text: str, name: str) -> Document:
    """Make a document of a text, as Markdown if the name ends so."""
    if name.lower().endswith(_MARKDOWN):
        return Document.of_markdown(text, name)
    return Document.of_text(text, name)


def _decoded(data: bytes, name: str) -> str:
    """Return the text of a file; raise DocumentError for other contents."""
    wide = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    try:
        text = data.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise DocumentError(
            f"{name} is not a text file (byte {error.start} is not UTF-8) or a PDF"
        ) from error
    found = _BEYOND_TEXT.search(text)
    if found is not None:
        raise DocumentError(
            f"{name} is not a text: character {found.start()} is {found.group()!r}; text, Markdown "
            "and PDF are read"
        )
    return text.replace("\r\n", "\n").replace("\r", "\n")

"""Text of PDF files, page by page, by the package pypdf: loaded when the first PDF is read."""

from __future__ import annotations

import asyncio
import io
import logging
from typing import Any

from webpte.engine.open.libraries import python_package
from webpte.errors import DocumentError
from webpte.tasks.retrieval.documents import MOST_CHARACTERS

MOST_PAGES = 5000
_PAGES_AT_ONCE = 4  # pages between two turns of the event loop


async def read_pdf(data: bytes, name: str) -> list[str]:
    """Return the text of each page; raise for a file of scanned pictures, which has no text."""
    pypdf = await python_package("pypdf", "documents")
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # the errors that matter are raised below
    reader = _opened(pypdf, data, name)
    found: list[str] = []
    try:
        count = len(reader.pages)
        if count > MOST_PAGES:
            raise DocumentError(f"{name} has {count:,} pages; at most {MOST_PAGES:,} are read")
        room = MOST_CHARACTERS
        for number in range(count):
            found.append(_plain(reader.pages[number].extract_text()))
            room -= len(found[-1]) + 1
            if room < 0:
                raise DocumentError(
                    f"{name} has over {MOST_CHARACTERS:,} characters up to page {number + 1}: "
                    "split it"
                )
            if number % _PAGES_AT_ONCE == 0:
                await asyncio.sleep(0)
    except DocumentError:
        raise
    except MemoryError as error:
        raise DocumentError(f"{name} does not fit into memory when it is unpacked") from error
    except Exception as error:  # a broken file may raise anything
        raise _broken(name, f"page {len(found) + 1}", error) from error
    if not any(page.strip() for page in found):
        pages = "its page" if len(found) == 1 else f"its {len(found)} pages"
        raise DocumentError(f"{name} has no text in {pages}. It looks scanned: run OCR first")
    return found


def _opened(pypdf: Any, data: bytes, name: str) -> Any:
    try:
        reader = pypdf.PdfReader(io.BytesIO(data))
        locked = reader.is_encrypted and not reader.decrypt("")
    except Exception as error:
        if type(error).__name__ == "DependencyError":  # it needs a package for ciphers
            locked = True
        else:
            raise _broken(name, "its structure", error) from error
    if locked:
        raise DocumentError(f"{name} is encrypted: save it without a password, then add it again")
    return reader


def _plain(text: str) -> str:
    """Return the text of a page without characters that do not belong to a text."""
    return "".join(c if c.isprintable() or c in "\n\t" else " " for c in text).rstrip()


def _broken(name: str, where: str, error: Exception) -> DocumentError:
    why = " ".join(f"{type(error).__name__}: {error}".split())[:200]
    return DocumentError(f"{name} is a broken PDF, or one that cannot be read ({where}): {why}")

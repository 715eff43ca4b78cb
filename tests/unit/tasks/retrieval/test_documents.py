"""Documents of text, Markdown and PDF, and the files that are refused."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from support.write.pdf_writer import encrypted, write_pdf
from webpte.errors import DocumentError, SourceError
from webpte.tasks.retrieval import (
    Document,
    Section,
    documents,
    pdf,
    read_document,
    reading,
)

PAGES = [["The first page.", "It has (two) lines."], [], ["The third page ends."]]


def read(data: bytes, name: str) -> Document:
    return asyncio.run(read_document(data, name))


def test_text_is_one_section() -> None:
    found = read("\ufeffZürich\r\nis a town.\rYes.".encode(), "towns.txt")
    assert found.text == "Zürich\nis a town.\nYes."
    assert found.sections == (Section(0, len(found.text)),)
    assert read("Größe".encode("utf-16"), "a.txt").text == "Größe"


def test_markdown_has_a_section_for_each_heading() -> None:
    text = "Before.\n# One #\nText.\n```\n# no heading\n```\n### Deep\nMore.\n## Two\n#hash\n# Last"
    found = read(text.encode(), "notes.MD")
    parts = [(one.heading, found.text[one.start : one.end]) for one in found.sections]
    assert parts == [
        ("", "Before.\n"),
        ("One", "# One #\nText.\n```\n# no heading\n```\n"),
        ("One > Deep", "### Deep\nMore.\n"),
        ("One > Two", "## Two\n#hash\n"),
        ("Last", "# Last"),
    ]
    assert [found.section_number(at) for at in (0, 8, 9, len(text))] == [0, 1, 1, 4]


def test_pdf_has_a_section_for_each_page() -> None:
    found = read(write_pdf(PAGES), "manual.pdf")
    assert [one.page for one in found.sections] == [1, 2, 3]
    pages = [found.text[one.start : one.end].split("\n") for one in found.sections]
    assert pages == [["The first page.", "It has (two) lines."], [""], ["The third page ends."]]


def test_paths_and_documents(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_text("# Head\nText.", encoding="utf-8")
    found = asyncio.run(read_document(path))
    assert (found.name, found.sections[0].heading) == ("a.md", "Head")
    assert asyncio.run(read_document(found)) is found
    with pytest.raises(SourceError):
        asyncio.run(read_document(tmp_path / "none.txt"))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"abc\xffdef", "not a text file .byte 3 is not UTF-8. or a PDF"),
        (b"\x7fELF\x00\x01", "character 4 is"),
        (encrypted(write_pdf(PAGES), "secret"), "is encrypted"),
        (write_pdf([[], []]), "has no text in its 2 pages"),
        (write_pdf([[]]), "has no text in its page."),
        (b"%PDF-1.4\nnothing else", "is a broken PDF"),
        (write_pdf(PAGES)[:200], "is a broken PDF|has no text"),
    ],
    ids=["bytes", "binary", "encrypted", "pictures", "picture", "head only", "cut off"],
)
def test_refused_files(data: bytes, why: str) -> None:
    with pytest.raises(DocumentError, match=why) as caught:
        read(data, "given.file")
    assert "given.file" in str(caught.value)


def test_pdf_with_an_empty_password_opens() -> None:
    assert "third page" in read(encrypted(write_pdf(PAGES), ""), "open.pdf").text


def test_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(pdf, "MOST_PAGES", 2)
        with pytest.raises(DocumentError, match="3 pages; at most 2"):
            read(write_pdf(PAGES), "a.pdf")
    with monkeypatch.context() as patch:
        patch.setattr(pdf, "MOST_CHARACTERS", 20)
        with pytest.raises(DocumentError, match="over 20 characters up to page 1"):
            read(write_pdf(PAGES), "a.pdf")
    monkeypatch.setattr(documents, "MOST_CHARACTERS", 5)
    with pytest.raises(DocumentError, match="at most 5: split it"):
        read(b"123456", "a.txt")
    monkeypatch.setattr(reading, "MOST_FILE_BYTES", 5)
    with pytest.raises(DocumentError, match="6 bytes"):
        read(b"123456", "a.txt")


def test_damaged_pdfs_are_read_or_refused() -> None:
    whole, chance, refused = bytearray(write_pdf(PAGES)), random.Random(5), list[str]()
    for _ in range(60):
        damaged = bytearray(whole)
        for _ in range(chance.randint(1, 30)):
            damaged[chance.randrange(9, len(damaged))] = chance.randrange(256)
        try:
            read(bytes(damaged), "damaged.pdf")
        except DocumentError as error:
            refused.append(str(error))
    assert refused
    assert all("damaged.pdf" in why for why in refused)

"""Writes small PDF files: a page for each list of lines, in Helvetica."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pypdf


def write_pdf(pages: Sequence[Sequence[str]]) -> bytes:
    """Return a PDF with these lines on its pages; they are Latin letters."""
    objects: list[bytes] = []
    kids = " ".join(f"{4 + 2 * at} 0 R" for at in range(len(pages)))
    objects.append(b"<< /Type /Catalog /Pages 2 0 R >>")
    objects.append(f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode())
    objects.append(b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
    for at, lines in enumerate(pages):
        resources = "/Resources << /Font << /F1 3 0 R >> >> /MediaBox [0 0 595 842]"
        page = f"<< /Type /Page /Parent 2 0 R {resources} /Contents {5 + 2 * at} 0 R >>"
        objects.append(page.encode())
        drawn = b"BT /F1 12 Tf 60 780 Td 16 TL " + b" ".join(map(_shown, lines)) + b" ET"
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(drawn), drawn))
    return _joined(objects)


def _shown(line: str) -> bytes:
    text = line.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")
    return f"({text}) Tj T*".encode("latin-1")


def _joined(objects: Sequence[bytes]) -> bytes:
    """Return the file: the objects, the table of where they are, and where that is."""
    file, places = io.BytesIO(b"%PDF-1.4\n"), []
    file.seek(0, io.SEEK_END)
    for number, content in enumerate(objects, 1):
        places.append(file.tell())
        file.write(b"%d 0 obj\n%s\nendobj\n" % (number, content))
    table = file.tell()
    file.write(b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1))
    file.write(b"".join(b"%010d 00000 n \n" % place for place in places))
    file.write(b"trailer\n<< /Size %d /Root 1 0 R >>\n" % (len(objects) + 1))
    file.write(b"startxref\n%d\n%%%%EOF\n" % table)
    return file.getvalue()


def encrypted(data: bytes, password: str) -> bytes:
    """Return a PDF that only opens with a password."""
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(data))
    writer.encrypt(password, algorithm="RC4-128")
    file = io.BytesIO()
    writer.write(file)
    return file.getvalue()

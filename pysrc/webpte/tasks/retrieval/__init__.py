"""Search in documents: passages, their vectors, and the nearest to a query.

    task = await webpte.tasks.open("retrieval", "out/minilm")
    await task.add(["manual.pdf", "notes.md"])
    for found in await task("How is it cleaned?"):
        print(found["score"], found["document"], found["page"], found["text"])

The task uses `Index`, which takes any embedder. See docs/use/documents.md.
"""

from __future__ import annotations

from webpte.tasks.retrieval.answer import Citation, CitedReply, answer
from webpte.tasks.retrieval.documents import Document, Section
from webpte.tasks.retrieval.embedder import Embedder, encodes_texts
from webpte.tasks.retrieval.index import Index, Passage
from webpte.tasks.retrieval.passages import PassagePlace, cut_document
from webpte.tasks.retrieval.reading import read_document

__all__ = [
    "Citation",
    "CitedReply",
    "Document",
    "Embedder",
    "Index",
    "Passage",
    "PassagePlace",
    "Section",
    "answer",
    "cut_document",
    "encodes_texts",
    "read_document",
]

"""The index of documents: their passages, a vector for each, and the search for the nearest.

    index = webpte.retrieval.Index(embedder)
    await index.add(Path("manual.pdf"))
    for found in await index.search("How is it cleaned?", top_k=5):
        print(found.score, found.document, found.page, found.text)

The search is exact: the cosine of the query's vector with every passage's vector, computed on the
GPU of the embedder's program, or in NumPy.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from webpte.engine.open.open_source import open_source
from webpte.errors import ClosedError, DeviceLostError, DocumentError, InputError
from webpte.tasks.retrieval.documents import Document
from webpte.tasks.retrieval.embedder import Embedder
from webpte.tasks.retrieval.passages import PassagePlace, cut_document
from webpte.tasks.retrieval.reading import read_document
from webpte.tasks.retrieval.saved import (
    IndexedDocument,
    documents_json,
    head_of,
    read_saved,
    write_whole,
)
from webpte.tasks.retrieval.search_graph import MOST_FOUND
from webpte.tasks.retrieval.vectors import GpuVectors, HostVectors, Span, Vectors

Array = np.ndarray
Progress = Callable[[int, int], None]  # passages embedded so far, and all passages

MOST_PASSAGES = 1_000_000
_BATCH = 32  # passages that are embedded together


@dataclass(frozen=True)
class Passage:
    """A passage that was found, its place in its document, and its cosine to the query.

    `start` and `end` count characters of the document's text; pages count from 1.
    """

    text: str
    score: float
    document: str
    page: int | None
    heading: str
    start: int
    end: int

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as a dict."""
        return asdict(self)


class Index:
    """Documents that can be searched. Calls may overlap; changes wait for each other.

    embedder  makes vectors of texts
    most      tokens of a passage; by default the embedder's limit, up to 256
    overlap   tokens that neighbouring passages have in common; by default an eighth of `most`
    """

    def __init__(
        self, embedder: Embedder, *, most: int | None = None, overlap: int | None = None
    ) -> None:
        self.embedder = embedder
        self.most = min(256, embedder.most_tokens) if most is None else most
        self.overlap = self.most // 8 if overlap is None else overlap
        if not 0 <= self.overlap < self.most <= embedder.most_tokens:
            raise InputError(
                f"passages of {self.most} tokens with {self.overlap} in common: the embedder takes "
                f"up to {embedder.most_tokens}, and fewer must be in common"
            )
        self._entries: dict[str, IndexedDocument] = {}
        self._vectors = self._new_vectors()
        self._changing = asyncio.Lock()
        self._using = asyncio.Lock()
        self._closed = False

    def _new_vectors(self) -> Vectors:
        program, width = self.embedder.program, self.embedder.width
        if program.device_info.kind == "numpy":
            return HostVectors(width)
        return GpuVectors(program.device, width)

    # Contents

    def __len__(self) -> int:
        """Return the number of passages."""
        return sum(len(entry.places) for entry in self._entries.values())

    @property
    def documents(self) -> Mapping[str, Document]:
        """The documents by name, in the order in which they were added."""
        return {name: entry.document for name, entry in self._entries.items()}

    @property
    def entries(self) -> Sequence[IndexedDocument]:
        """The documents with the places of their passages, in the order of their vectors."""
        return tuple(self._entries.values())

    @property
    def vectors(self) -> Vectors:
        """The vectors, in the order of the passages."""
        return self._vectors

    # Changes

    async def add(
        self, source: Any, name: str | None = None, *, progress: Progress | None = None
    ) -> Document:
        """Add a document, or replace the document of the same name.

        source    an argument of `read_document`
        progress  called as progress(done, total), in passages

        If adding fails or is cancelled, the index is unchanged.
        """
        document = await read_document(source, name)
        places = await self._cut(document)
        if not places:
            raise DocumentError(f"{document.name} has no text to search in")
        async with self._changing:
            old = self._entries.get(document.name)
            count = len(self) + len(places) - (len(old.places) if old else 0)
            if count > MOST_PASSAGES:
                raise InputError(
                    f"{document.name} would make it {count:,} passages; an index holds "
                    f"{MOST_PASSAGES:,}"
                )
            self._check()
            try:
                await self._embed(document, places, progress)
                async with self._using:
                    if old is not None:  # the new vectors come after all others
                        new = (len(self), len(self) + len(places))
                        await self._vectors.keep([*self._spans_without(document.name), new])
                        del self._entries[document.name]
                    self._vectors.commit()
                    self._entries[document.name] = IndexedDocument(document, tuple(places))
            except BaseException:
                if not self._closed and not self._vectors.lost:
                    self._vectors.discard()
                raise
        return document

    async def _cut(self, document: Document) -> list[PassagePlace]:
        return cut_document(document, self.most, self.overlap, self.embedder.count_tokens)

    async def _embed(
        self, document: Document, places: Sequence[PassagePlace], progress: Progress | None
    ) -> None:
        """Append the vectors of passages, uncommitted."""
        if progress is not None:
            progress(0, len(places))
        for first in range(0, len(places), _BATCH):
            some = places[first : first + _BATCH]
            texts = [document.text[place.start : place.end] for place in some]
            rows = await self.embedder.embed(texts)
            async with self._using:
                self._check()
                await self._vectors.append(rows)
            if progress is not None:
                progress(first + len(some), len(places))
            await asyncio.sleep(0)  # lets the task be cancelled between computations in NumPy

    def _spans_without(self, name: str) -> list[Span]:
        spans, first = [], 0
        for entry in self._entries.values():
            end = first + len(entry.places)
            if entry.document.name != name:
                spans.append((first, end))
            first = end
        return spans

    async def remove(self, name: str) -> None:
        """Remove a document."""
        async with self._changing, self._using:
            self._check()
            if name not in self._entries:
                raise InputError(f"there is no document {name!r} in the index")
            await self._vectors.keep(self._spans_without(name))
            del self._entries[name]

    async def rebuild(self, *, progress: Progress | None = None) -> None:
        """Embed all passages again, after a lost device; `recover` the program first."""
        async with self._changing:
            if self._closed:
                raise ClosedError("the index was closed")
            done, total = 0, len(self)
            made = self._new_vectors()
            try:
                for entry in self._entries.values():
                    for first in range(0, len(entry.places), _BATCH):
                        some = entry.places[first : first + _BATCH]
                        texts = [entry.document.text[one.start : one.end] for one in some]
                        await made.append(await self.embedder.embed(texts))
                        done += len(some)
                        if progress is not None:
                            progress(done, total)
            except BaseException:
                made.close()
                raise
            made.commit()
            await self._replace_vectors(made, self.entries)

    # Files

    async def chunks(self) -> AsyncGenerator[bytes]:
        """Yield the bytes of a file of the index: a `.safetensors`, see saved.py."""
        async with self._changing:
            self._check()
            yield await head_of(self.embedder, self.entries)
            async for rows in self._vectors.parts():
                yield rows.tobytes()
            yield documents_json(self.entries)

    async def save(self, path: str | Path) -> None:
        """Write the index to a file, whole or not at all."""
        await write_whole(Path(path), self.chunks())

    async def load(self, source: Any) -> None:
        """Replace all documents by a file's documents; vectors go straight to the GPU.

        source  bytes, a path, in the browser also a URL, a Blob or a file of `library.open`

        The file must come from an index with the same program. If loading fails, the index is
        unchanged.
        """
        found = await read_saved(await open_source(source), self.embedder)
        async with self._changing:
            if self._closed:
                raise ClosedError("the index was closed")
            made = self._new_vectors()
            try:
                await made.fill(found.vectors, found.count)
            except BaseException:
                made.close()
                raise
            await self._replace_vectors(made, found.entries)

    async def _replace_vectors(self, made: Vectors, entries: Sequence[IndexedDocument]) -> None:
        async with self._using:
            old, self._vectors = self._vectors, made
            self._entries = {entry.document.name: entry for entry in entries}
            if not old.lost:
                old.close()

    # Search

    async def search(self, query: str, top_k: int = 5) -> list[Passage]:
        """Return the passages that are nearest to a query, the nearest first.

        Of equal scores, the passage that was added first comes first. An empty index returns an
        empty list.
        """
        if type(top_k) is not int or not 1 <= top_k <= MOST_FOUND:
            raise InputError(f"top_k is {top_k!r}; a search finds 1 to {MOST_FOUND} passages")
        self._check()
        if not len(self):
            return []
        (vector,) = await self.embedder.embed([query])
        async with self._using:
            self._check()
            count = min(top_k, len(self))
            if not count:
                return []
            scores, rows = await self._vectors.search(vector, count)
            pairs = zip(scores.tolist(), rows.tolist(), strict=True)
            return [self._passage(row, score) for score, row in pairs if np.isfinite(score)]

    def _passage(self, row: int, score: float) -> Passage:
        for entry in self._entries.values():
            if row < len(entry.places):
                place, text = entry.places[row], entry.document.text
                name, inside = entry.document.name, text[place.start : place.end]
                where = (place.page, place.heading, place.start, place.end)
                return Passage(inside, min(score, 1.0), name, *where)
            row -= len(entry.places)
        raise AssertionError("a row without a passage")

    def _check(self) -> None:
        if self._closed:
            raise ClosedError("the index was closed")
        if self._vectors.lost:
            raise DeviceLostError(
                "the vectors of the passages were lost with their device; `recover` the program, "
                "then `rebuild` the index, which embeds all passages again"
            )

    def close(self) -> None:
        """Free the memory of the vectors; a second call does nothing."""
        if not self._closed:
            self._closed = True
            if not self._vectors.lost:
                self._vectors.close()

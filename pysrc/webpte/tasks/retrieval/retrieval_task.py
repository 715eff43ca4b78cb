"""retrieval: the passages of documents that are nearest to a query."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from webpte.errors import InputError
from webpte.llm.text.sequences import room_for
from webpte.tasks.encoder import checked_text
from webpte.tasks.feature_extraction import FeatureExtraction
from webpte.tasks.files import ModelFiles
from webpte.tasks.retrieval.documents import Document
from webpte.tasks.retrieval.index import Index
from webpte.tasks.retrieval.reading import document_of
from webpte.tasks.task import task

Array = np.ndarray
_POOLINGS = ("mean", "cls")


@task("retrieval", view="documents")
class Retrieval(FeatureExtraction):
    """Finds passages of documents by their meaning.

    await task.add(["manual.pdf", "notes.md"])
    found = await task("How is it cleaned?", top_k=3)
    # [{"text", "score", "document", "page", "heading", "start", "end"}]

    The folder has a model for feature-extraction, such as a sentence encoder. `index` has
    the documents: `await task.index.save(path)`, `await task.index.load(path)`.
    """

    calls: ClassVar[Sequence[str]] = ("add",)

    def __init__(self, files: ModelFiles) -> None:
        super().__init__(files)
        self._pooling = "mean"
        self.most_tokens = room_for(self.tokenizer, 1, self.longest)
        self.index = Index(self)

    @property
    def width(self) -> int:
        """The length of a vector."""
        return self.outputs[0].shape[-1]

    @property
    def key(self) -> str:
        """The way to compute vectors, as a text."""
        return self._pooling

    @property
    def pooling(self) -> str:
        """The vector of a text: the "mean" of its tokens' vectors, or "cls", the first token's."""
        return self._pooling

    @pooling.setter
    def pooling(self, pooling: str) -> None:
        if pooling not in _POOLINGS:
            raise InputError(f"pooling is {pooling!r}; there are {', '.join(_POOLINGS)}")
        if len(self.index) and pooling != self._pooling:
            raise InputError(f"the documents were added with pooling={self._pooling!r}")
        self._pooling = pooling

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of a text, without special tokens."""
        return len(self.encode(text).tokens)

    async def embed(self, texts: Sequence[str]) -> Array:
        """Return vectors (texts, width), each of length 1. Texts that are too long are cut."""
        made = super().__call__(list(texts), pooling=self._pooling, normalize=True, truncation=True)
        vectors: Array = await made
        return vectors

    async def add(
        self,
        documents: Any,
        *,
        progress: Callable[[int, int], None] | None = None,
    ) -> list[Document]:
        """Add a document or a list of documents; they replace documents of the same name.

        documents  each a path, a `webpte.retrieval.Document`, a dict {"name", "text"}, in the
                   browser also a URL or a Blob; text, Markdown and PDF are read
        progress   called for each document with done and total passages
        """
        many = isinstance(documents, list | tuple)
        return [
            await self.index.add(_given(one), progress=progress)
            for one in (documents if many else [documents])
        ]

    async def __call__(self, inputs: Any, *, top_k: int = 5, **unknown: Any) -> Any:
        """Return the passages that are nearest to a query, the nearest first; see the class.

        A list of queries gives a list of results for each.
        """
        if unknown:
            raise InputError(f"retrieval has no option {', '.join(unknown)}; there is top_k")
        if isinstance(inputs, list | tuple):
            return [await self(one, top_k=top_k) for one in inputs]
        found = await self.index.search(checked_text(inputs), top_k)
        return [passage.as_dict() for passage in found]

    async def __aenter__(self) -> Retrieval:
        return self

    def close(self) -> None:
        """Free the memory of the vectors and of the program."""
        self.index.close()
        super().close()


def _given(document: Any) -> Any:
    if not isinstance(document, dict):
        return document
    if set(document) != {"name", "text"}:
        raise InputError(f"a document as a dict has name and text, not {', '.join(document)}")
    return document_of(checked_text(document["text"]), checked_text(document["name"]))

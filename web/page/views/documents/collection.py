"""The documents of one encoder: an index, and its file in the library."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing

from page.browser import Browser
from page.core.session import Session
from page.shared.persistence.codec import Codec
from webpte.engine.open.library import LOCAL
from webpte.errors import WebpteError
from webpte.program import fingerprint_of
from webpte.tasks.files import ModelFiles
from webpte.tasks.retrieval import Document, Index
from webpte.tasks.retrieval.retrieval_task import Retrieval

_ENDING = ".documents.safetensors"


class Collection:
    """The documents that an open encoder can search; `problem` says why kept ones are not there."""

    def __init__(self, task: Retrieval, browser: Browser, name: str) -> None:
        self._task = task
        self._browser = browser
        self._name = name
        self.problem = ""

    @classmethod
    async def open(cls, session: Session, codec: Codec, browser: Browser) -> Collection:
        """Open the documents that were kept for a session's encoder, if there are any."""
        task = Retrieval(ModelFiles(session.program, session.source.name, codec.tokenizer))
        name = f"{(await fingerprint_of(session.program))[:20]}{_ENDING}"
        made = cls(task, browser, name)
        await made.restore()
        return made

    @property
    def index(self) -> Index:
        return self._task.index

    async def restore(self) -> None:
        """Load the kept documents, also after a lost device."""
        address = f"{LOCAL}{self._name}"
        kept = {entry.address for entry in await self._browser.library.entries()}
        if address not in kept:
            return
        try:
            source = await self._browser.fetch(address, lambda stage, done, total: None)
            await self.index.load(source.data)
        except WebpteError as error:
            self.problem = f"The documents of the last visit could not be opened: {error}"

    async def keep(self) -> None:
        """Write the documents to the library; without any, delete the file there."""
        if not len(self.index):
            await self._browser.library.delete(f"{LOCAL}{self._name}")
            return
        async with aclosing(self.index.chunks()) as chunks:
            parts = [chunk async for chunk in chunks]
        await self._browser.library.add(self._browser.file_of(parts, self._name), self._name)

    async def add(
        self, source: object, name: str | None, progress: Callable[[int, int], None]
    ) -> Document:
        """Add a document, in place of one of the same name."""
        return await self.index.add(source, name, progress=progress)

    def close(self) -> None:
        """Free the memory of the vectors; the program stays open."""
        self.index.close()

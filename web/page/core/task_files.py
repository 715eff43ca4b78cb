"""The files beside a program that its task reads: how inputs are prepared, what labels mean."""

from __future__ import annotations

from collections.abc import Iterable

import webpte
from page.browser import Browser
from page.core.session import Session
from webpte.engine.open.library import LOCAL
from webpte.engine.open.manifest_files import beside
from webpte.engine.open.siblings import is_missing
from webpte.errors import SourceError
from webpte.tasks.files import matching
from webpte.tasks.task import Task


async def bind_task(name: str, session: Session, browser: Browser) -> Task:
    """Make a task of an open program and the files that came with it, or lie at its address.

    Raises SourceError if a file that the task needs is missing.
    """
    kind = webpte.tasks.find(name)
    near = {**session.source.beside, **session.source.places}
    names = (*kind.needed, *kind.wanted, *matching(near, kind.patterns))
    found = await read_beside(session, browser, names)
    return await webpte.tasks.bind(name, session.program, found)


async def read_beside(session: Session, browser: Browser, names: Iterable[str]) -> dict[str, bytes]:
    """Read the named files, as far as they came with a program or lie at the program's address."""
    source = session.source
    found: dict[str, bytes] = {}
    for file in names:
        if file in source.beside:
            found[file] = await browser.read(source.beside[file])
        elif source.places:
            if file in source.places:
                found[file] = await browser.fetch_bytes(source.places[file])
        elif source.address and not source.address.startswith(LOCAL):
            try:
                found[file] = await browser.fetch_bytes(str(beside(source.address, file)))
            except SourceError as error:
                if not is_missing(error):
                    raise
    return found

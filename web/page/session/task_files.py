"""The files beside a program that its task reads: how inputs are prepared, what labels mean."""

from __future__ import annotations

import webpte
from page.browser import Browser
from page.session.session import Session
from webpte.errors import SourceError
from webpte.runtime.base.manifest_files import beside
from webpte.runtime.base.siblings import is_missing
from webpte.tasks.task import Task


async def bind_task(name: str, session: Session, browser: Browser) -> Task:
    """Make a task of an open program and the files that came with it, or lie at its address.

    Raises SourceError if one that the task needs is missing.
    """
    kind, source = webpte.tasks.find(name), session.source
    found: dict[str, bytes] = {}
    for file in (*kind.needed, *kind.wanted):
        if file in source.beside:
            found[file] = await browser.read(source.beside[file])
        elif source.address:
            try:
                found[file] = await browser.fetch_bytes(str(beside(source.address, file)))
            except SourceError as error:
                if not is_missing(error):
                    raise
    return await webpte.tasks.bind(name, session.program, found)

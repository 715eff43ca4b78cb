"""Programs that are opened by a manifest, which names their files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from page.browser import Browser, Progress, Source
from webpte import Download
from webpte.engine.files.manifest import ManifestPart, read_manifest
from webpte.engine.open.manifest_files import beside, check_part
from webpte.engine.open.open_source import let_go
from webpte.engine.open.siblings import is_missing
from webpte.errors import SourceError

CARD, MANIFEST = "card.json", ".manifest.json"
# What a folder is opened by, the first that is there.
_ENTRIES = (f"model{MANIFEST}", CARD)


async def fetch_manifest(
    browser: Browser, url: str, progress: Progress, download: Download | None
) -> list[Source]:
    """Fetch the program of a manifest and its `.ptd` files, in order, and check them."""
    manifest = read_manifest(await browser.fetch_bytes(url), url)
    program, *parts = [
        await fetch_part(browser, str(beside(url, part.name)), part, progress, download)
        for part in (manifest.program, *manifest.data)
    ]
    return [replace(program, task=manifest.task), *parts]


async def entry_of(browser: Browser, url: str) -> str:
    """Return the address of a folder's manifest, card or program; any other address unchanged."""
    if not url.endswith("/"):
        return url
    for name in _ENTRIES:
        try:
            await browser.fetch_bytes(url + name)
        except SourceError as error:
            if not is_missing(error):
                raise
        else:
            return url + name
    return f"{url}model.pte"


async def read_dropped(
    browser: Browser, files: Sequence[Any], taken: Callable[[str], bool], is_kept: bool = False
) -> tuple[str, dict[str, Any]]:
    """Return the task of a model from files dropped together, and the files beside its program.

    Without a manifest or card among them, which names the program that is there, too, that is
    "" and nothing. `taken` tells for which names files are used otherwise. `is_kept`: the files
    are kept with their program, which may have another name there.
    """
    named = {browser.source(file).name: file for file in files}
    for name, file in named.items():
        if name != CARD and not name.endswith(MANIFEST):
            continue
        manifest = read_manifest(await browser.read(file), name)
        if manifest.task and (is_kept or manifest.program.name in named):
            parts = {part.name for part in (manifest.program, *manifest.data)}
            rest = {one: file for one, file in named.items() if one not in parts}
            return manifest.task, {one: file for one, file in rest.items() if not taken(one)}
    return "", {}


async def fetch_part(
    browser: Browser, url: str, part: ManifestPart, progress: Progress, download: Download | None
) -> Source:
    source = await browser.fetch(url, progress, download, part.sha256)
    if source.file is not None:
        try:
            await check_part(source.file, part, progress)
        except BaseException as error:
            let_go(source.file, error)
            raise
    return source

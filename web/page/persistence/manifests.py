"""Programs that are opened by a manifest, which names their files."""

from __future__ import annotations

from page.browser import Browser, Progress, Source
from webpte import Download
from webpte.manifest import ManifestPart, read_manifest
from webpte.runtime.base.manifest_files import beside, check_part
from webpte.runtime.base.open import let_go


async def fetch_manifest(
    browser: Browser, url: str, progress: Progress, download: Download | None
) -> list[Source]:
    """Fetch the program of a manifest and its `.ptd` files, in order, and check them."""
    manifest = read_manifest(await browser.fetch_bytes(url), url)
    return [
        await _fetch_part(browser, str(beside(url, part.name)), part, progress, download)
        for part in (manifest.program, *manifest.data)
    ]


async def _fetch_part(
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

"""Bundled programs (`.bpte`) as suites of `serve.py verify`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from webpte_host.base.errors import HostError


def is_bundle(suite: Path) -> bool:
    """Return whether a path is a bundled program; raises for any other file."""
    if not suite.is_file():
        return False
    with suite.open("rb") as file:
        identifier = file.read(8)[4:]
    if not identifier.startswith(b"BP"):
        raise HostError(
            f"{suite} is a file, but no bundled program (.bpte).\n"
            "A suite is a folder with a manifest.json, a .zip of one, or a .bpte."
        )
    return True


def unpack(bundle: Path, folder: Path) -> list[Any]:
    """Write the cases of a bundled program as a suite; returns its manifest."""
    from webpte import WebpteError
    from webpte_export.suites.bundle_suite import write_suite

    try:
        return list(write_suite(bundle, folder))
    except WebpteError as error:
        raise HostError(f"{bundle} cannot be verified: {error}") from error

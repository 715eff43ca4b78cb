"""The stages of a load, and the status after it: how long it took, and where the file came from."""

from __future__ import annotations

from page.core.session import Session
from page.shared.html.units import ms_text

STAGES = {
    "fetch": "Fetch the file",
    "check": "Check the file",
    "read": "Read the program",
    "compile": "Compile kernels",
    "constants": "Send constants to the GPU",
}


def _origin_text(came: str) -> str:
    """Return in a few words where the library says that a file came from."""
    for text, short in (
        ("from the library, as its server has it", "cached, up to date"),
        ("from the library, since its server cannot be asked", "cached, server unreachable"),
        ("from the library", "cached"),
    ):
        if came.startswith(text):
            return short + came.removeprefix(text)
    return came


def loaded_text(session: Session) -> str:
    """Say that the session's program is loaded."""
    file = session.source.file
    came = f" ({_origin_text(file.came)})" if file is not None and file.came else ""
    return f"{session.source.name} loaded in {ms_text(session.runner.timing.load or 0)}{came}"

"""An opening that failed: its remedies, and the programs that still work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from page.browser import Source
from page.sections.open.context_question import longest_context
from page.shared.cards.cards import Card
from page.shared.html.errors import causes
from webpte import MethodInfo
from webpte.errors import (
    ConstantError,
    DeviceLostError,
    FaultyDeviceError,
    OutOfMemoryError,
    SourceError,
    WebpteError,
)


@dataclass(frozen=True)
class FailedOpening:
    """A source that could not be opened, with its `.ptd` files and card, and why."""

    wanted: Source | str
    extra: tuple[Any, ...]
    card: Card | None
    error: Exception

    @property
    def takes_constants(self) -> bool:
        """Whether a `.ptd` file that is dropped now may be for it."""
        return bool(self.extra) or lacks_constants(self.error)


def lacks_constants(error: Exception) -> bool:
    """Tell whether an error is about constants, which a `.ptd` file may have."""
    return _is_one(error, ConstantError)


def actions_for(error: Exception, inspected: Mapping[str, MethodInfo] | None) -> dict[str, str]:
    """Return the buttons of an opening's error: act -> text."""
    actions = {}
    if _is_one(error, DeviceLostError, SourceError):
        actions = {"retry": "Try again"}
    elif _is_one(error, FaultyDeviceError):
        actions = {"retry": "Try again", "retry-on-numpy": "Open on NumPy"}
    if _is_one(error, OutOfMemoryError, MemoryError) and longest_context(inspected or {}):
        actions["shorter-context"] = "Open with a shorter context"
    return actions


def note_for(error: Exception, still: str, elsewhere: str) -> str:
    """Name unchanged programs: `still` stays open; `elsewhere` names programs of other tabs, which
    take memory, too."""
    note = ""
    if not isinstance(error, WebpteError | MemoryError):
        note = "This looks like an error in webpte: the details below say where. "
    if still:
        note += f"{still} is still open, with its inputs and results."
        if _is_one(error, OutOfMemoryError, MemoryError):
            note += " Close it first: that frees its memory."
    if _is_one(error, OutOfMemoryError):
        note = f"{note} {elsewhere}".strip()
    return note


def _is_one(error: Exception, *kinds: type[BaseException]) -> bool:
    return any(isinstance(cause, kinds) for cause in causes(error))

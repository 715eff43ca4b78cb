"""The languages that the session is shown in, in the order of their tabs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from page.core.session import Session
from page.views.python.code import as_python
from page.views.python.curl import as_curl, is_served
from page.views.python.javascript import as_compiled, as_javascript


@dataclass(frozen=True)
class Language:
    """A language of the session's code: its tab, its writer, and whether a program has it."""

    label: str
    write: Callable[[Session], str]
    fits: Callable[[Session], bool] = lambda session: True


PYTHON, COMPILED = "python", "compiled"
LANGUAGES = {
    PYTHON: Language("Python", as_python),
    "javascript": Language("JavaScript", as_javascript),
    COMPILED: Language("Compiled", as_compiled),
    "curl": Language("curl", as_curl, is_served),
}


def languages_of(session: Session) -> dict[str, Language]:
    """Return the languages for a program."""
    return {key: one for key, one in LANGUAGES.items() if one.fits(session)}

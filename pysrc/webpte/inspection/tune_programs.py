"""Tuning of all loaded programs together: `webpte.tune`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol
from weakref import WeakSet

from webpte.engine.files.download import Progress
from webpte.errors import ClosedError, InputError
from webpte.inspection.inspecting import Subject, can_tune, remembers
from webpte.inspection.tune.tuning import Measured, Tuning


class TunableProgram(Protocol):
    """A loaded program, as `tune` uses it."""

    @property
    def methods(self) -> Mapping[str, object]: ...

    def _subject(self) -> Subject: ...

    async def tune(
        self, method: str, *, progress: Progress | None = None, rest: float = 0.0
    ) -> Tuning: ...


LOADED: WeakSet[TunableProgram] = WeakSet()  # programs that are not closed


async def tune(
    *programs: TunableProgram, progress: Progress | None = None, rest: float = 0.0
) -> Tuning:
    """Time every tile config that kernels can have here, and keep the fastest: see `Program.tune`.

    Each method is tuned with the inputs of its last run; a method that has not run is left out. In
    the background: `asyncio.create_task(webpte.tune(rest=0.5))`, calls come in between.

    programs  by default all that are loaded on a GPU with a clock, until they are closed
    progress  called as progress("tune", done, total), from 0 on for each method
    rest      seconds that are left to other calls after each candidate
    """
    chosen = programs or tuple(each for each in LOADED if can_tune(each._subject()))
    found = [(each, name) for each in chosen for name in each.methods if _has_run(each, name)]
    if not found:
        raise InputError(
            "nothing to tune: load a program on a GPU that offers timestamps, and run it first"
        )
    rows, refused = dict[str, Measured](), list[str]()
    for program, name in found:
        try:
            if not _has_run(program, name):
                continue  # the inputs of its last run are gone meanwhile
            tuning = await program.tune(name, progress=progress, rest=rest)
        except ClosedError:
            if programs:
                raise
            continue  # in the background: the program was closed meanwhile
        rows |= {row.key: row for row in tuning.rows}
        refused += tuning.refused
    return Tuning(tuple(rows.values()), tuple(refused))


def _has_run(program: TunableProgram, method: str) -> bool:
    """Return whether the inputs of a method's last run still exist."""
    return remembers(program._subject(), method)

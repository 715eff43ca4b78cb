"""Programs that other tabs have open: each tab says so by the name of a lock, which all tabs see.

A browser gives the lock of a closed tab back, so that none is listed that is gone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from page.browser import OpenProgram
from webpte.engine.files.json_reader import parse_table
from webpte.inspection.report.forecast import megabytes

PREFIX = "webpte-open "
WORTH_TELLING = 10_000_000  # bytes of GPU memory


def lock_name(program: OpenProgram, tab: str) -> str:
    """Return the name of the lock of a tab, which names the tab's open program."""
    told = {"name": program.name, "key": program.key, "bytes": program.nbytes, "tab": tab}
    return PREFIX + json.dumps(told)


def open_elsewhere(locks: Iterable[str], tab: str) -> list[OpenProgram]:
    """Return the contents of other tabs' locks; skip names that no tab of this page wrote."""
    found = []
    for lock in locks:
        if not lock.startswith(PREFIX):
            continue
        try:
            told = parse_table(lock.removeprefix(PREFIX), "a lock", ValueError)
            program = OpenProgram(told.text("name"), told.text("key"), told.integer("bytes", low=0))
            if told.text("tab") != tab:
                found.append(program)
        except ValueError:
            continue
    return sorted(found, key=lambda program: -program.nbytes)


def elsewhere_text(programs: Sequence[OpenProgram]) -> str:
    """Say what other tabs hold in GPU memory; empty if it is little."""
    total = sum(program.nbytes for program in programs)
    if total < WORTH_TELLING:
        return ""
    if len(programs) == 1:
        return (
            f"Another tab has {programs[0].name} open, which holds {megabytes(total)} MB of GPU "
            "memory."
        )
    return f"{len(programs)} other tabs hold {megabytes(total)} MB of GPU memory."

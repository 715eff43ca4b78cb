"""The file section and the header: contents of the open program, and where operators run."""

from __future__ import annotations

from page.core.session import Session
from page.core.state import AppState
from page.sections.open.file_view import Placed, file_card
from page.sections.open.program_bar import program_bar
from page.shared.persistence.library_files import USUAL_NAMES
from webpte.engine.open.library import LOCAL


def draw_file(state: AppState) -> None:
    """Draw the file section: the contents of the open program, and where its operators run."""
    session = state.session
    state.browser.show(hidden={"about": session is None})
    if session is None:
        state.show(file="", program="")
        return
    address = session.source.address
    card = session.source.card
    title = card.title if card is not None else folder_title(session.source.name, address)
    can_share = bool(address) and not address.startswith(LOCAL)
    bar = program_bar(session.source.name, title, session.methods, session.method, can_share)
    shown = file_card(
        session.source.name,
        session.source.size,
        session.methods,
        session.method,
        state.limits,
        session.constant_values,
        _placed(session),
        folded=state.narrow,
        about=card.about if card is not None else "",
    )
    state.browser.show(text={"about-brief": session.source.name})
    state.show(file=shown, program=bar)


def folder_title(name: str, address: str) -> str:
    """Return the folder's name for a program that is called what most are called, else ""."""
    folder = address.partition("?")[0].rstrip("/").rpartition("/")[0].rpartition("/")[2]
    is_host = "." in folder or ":" in folder
    return "" if is_host or name not in USUAL_NAMES else folder


def _placed(session: Session) -> dict[str, Placed]:
    """Return where each operator runs; the slowest place counts if there are several."""
    rank = {"alias": 0, "gpu": 1, "host": 2}
    runs = max(session.runs[session.method], 1)
    placed: dict[str, Placed] = {}
    for row in session.program.report:
        known = placed.get(row.op, Placed("alias"))
        if row.method == session.method and rank[row.where] >= rank[known.where]:
            placed[row.op] = Placed(row.where, row.host_ms / runs)
    return placed

"""The file section: what the open program holds, and where its operators run."""

from __future__ import annotations

from page.parts.file_view import Placed, file_card
from page.session.session import Session
from page.session.state import AppState


class FileController:
    def __init__(self, stage: AppState) -> None:
        self._stage = stage

    def draw(self) -> None:
        stage, session = self._stage, self._stage.session
        if session is None:
            stage.show(file="")
            return
        card = file_card(
            session.source.name,
            session.source.size,
            session.methods,
            session.method,
            stage.adapter.limits if stage.adapter is not None else {},
            session.constant_values,
            _placed(session),
            folded=stage.narrow,
            about=session.source.card.about if session.source.card is not None else "",
        )
        stage.show(file=card)


def _placed(session: Session) -> dict[str, Placed]:
    """Operator -> where it runs; the slowest place counts if there are several."""
    rank = {"alias": 0, "gpu": 1, "host": 2}
    runs = max(session.runs[session.method], 1)
    placed: dict[str, Placed] = {}
    for row in session.program.report:
        known = placed.get(row.op, Placed("alias"))
        if row.method == session.method and rank[row.where] >= rank[known.where]:
            placed[row.op] = Placed(row.where, row.host_ms / runs)
    return placed

"""The two graphs of a method, optimized and original, with the links between their calls."""

from __future__ import annotations

from collections.abc import Sequence

from page.core.session import Session
from page.views.graph.names import Names
from webpte import TensorInfo
from webpte.inspection.report import MethodGraph, Node, links

PLANNED, FILE = "planned", "file"
Key = tuple[object, ...]


class StageGraphs:
    """The graphs of the open program, rebuilt for another method, or for the live shapes of another
    run."""

    def __init__(self) -> None:
        self._graphs: dict[str, tuple[Key, MethodGraph]] = {}
        self._names: dict[str, tuple[MethodGraph, Names]] = {}
        self._links: tuple[MethodGraph, MethodGraph, dict[int, tuple[int, ...]]] | None = None

    def forget(self) -> None:
        self._graphs, self._names, self._links = {}, {}, None

    def of(self, session: Session, stage: str) -> MethodGraph:
        program = session.program
        key = (session.method, program.generation, program.stats.executions)
        known = self._graphs.get(stage)
        current = known is not None and known[0][0] == session.method
        if known is None or not current or (known[0] != key and not session.runner.busy):
            known = key, program.graph(session.method, stage)
            self._graphs[stage] = known
        return known[1]

    def names(self, session: Session, stage: str) -> Names:
        graph, known = self.of(session, stage), self._names.get(stage)
        if known is None or known[0] is not graph:
            known = graph, Names(graph, *_ends(session))
            self._names[stage] = known
        return known[1]

    def linked(self, session: Session, stage: str, node: int) -> list[Node]:
        """Return the calls of the other graph that a call was made from, or became."""
        planned, file = self.of(session, PLANNED), self.of(session, FILE)
        if self._links is None or self._links[0] is not planned or self._links[1] is not file:
            self._links = planned, file, links(planned, file)
        found = self._links[2]
        if stage == PLANNED:
            return [file.nodes[one] for one in found.get(node, ())]
        return [planned.nodes[at] for at, origins in found.items() if node in origins]


def _ends(session: Session) -> tuple[Sequence[str], Sequence[str]]:
    """Return the names of the method's tensors: the card's names, where it has names."""
    info, card = session.methods[session.method], session.source.card
    sides = []
    for given, known in (
        (info.inputs, card.inputs if card is not None else ()),
        (info.outputs, card.outputs if card is not None else ()),
    ):
        names = [
            (known[at].name if at < len(known) else "") or one.name for at, one in enumerate(given)
        ]
        tensors = [isinstance(one, TensorInfo) for one in given]
        sides.append([name for name, keep in zip(names, tensors, strict=True) if keep])
    return sides[0], sides[1]

"""Choices of the graph view, and their labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

Act = Callable[[str], str]
DRAWINGS = {"drawn": "Diagram", "list": "List"}
STAGES = {"planned": "Optimized", "file": "Original"}
COLOURS = {"kind": "kind", "where": "device", "dtype": "dtype", "time": "time"}
PLACES = {
    "gpu": "GPU",
    "alias": "alias: shares memory, no work",
    "host": "host",
    "folded": "folded: computed at load",
    "delegate": "in a delegate",
}


@dataclass
class Choices:
    """The state of the view; `match` is the current search result, from 0 on."""

    drawing: str = "drawn"
    stage: str = "planned"
    colour: str = "kind"
    text: str = ""
    opened: set[str] = field(default_factory=set)  # keys of folds
    chosen: int | None = None  # the call that is open
    shaders: set[int] = field(default_factory=set)  # its kernels whose WGSL is open
    first: int = 0  # the first box of the list that is shown
    match: int | None = None
    full: bool = False  # the graph has the whole window

    @property
    def searching(self) -> bool:
        return bool(self.text.strip())

    def for_another_graph(self) -> Choices:
        """Return the choices for another graph: the view options stay, selections do not."""
        return Choices(self.drawing, self.stage, self.colour)

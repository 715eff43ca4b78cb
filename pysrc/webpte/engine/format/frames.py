"""Lines of the model's source, which exports have with `emit_stacktrace`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from webpte.engine.format.flat import FlatTable


@dataclass(frozen=True, slots=True)
class Frame:
    """A line of Python that made a call; the outermost line comes first."""

    file: str
    line: int
    function: str
    code: str  # the line's text

    def __str__(self) -> str:
        name = self.file.replace("\\", "/").rpartition("/")[2]
        where = f"{name}:{self.line}" + (f" in {self.function}" if self.function else "")
        return f"{where}: {self.code.strip()}" if self.code.strip() else where


def own_line(frames: Sequence[Frame]) -> Frame | None:
    """Return the innermost line of the model's code, not PyTorch's; None without lines."""
    own = [frame for frame in frames if "/torch/" not in frame.file.replace("\\", "/")]
    innermost = (own or list(frames))[-1:]
    return innermost[0] if innermost else None


def read_frames(chain: FlatTable, slot: int, instructions: int) -> Sequence[tuple[Frame, ...]]:
    """Return the source lines of each instruction of a chain; empty if the file lacks them."""
    frames = [
        tuple(
            Frame(
                item.text(0, "filename"),
                item.i32(1, "lineno"),
                item.text(2, "name"),
                item.text(3, "context"),
            )
            for item in listed.tables(0, "items")
        )
        for listed in chain.tables(slot, "stacktrace")
    ]
    if frames and len(frames) != instructions:
        message = f"{len(frames)} entries for {instructions} instructions"
        raise chain.error(slot, "stacktrace", message)
    return frames or [()] * instructions

"""The times of a program, and the stages of its load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median

STAGES = {
    "fetch": "Fetch the file",
    "check": "Check the file",
    "read": "Read the program",
    "compile": "Compile kernels",
    "constants": "Send constants to the GPU",
}


@dataclass
class Timing:
    """The times of one program, in milliseconds."""

    load: float | None = None
    stages: Mapping[str, float] = field(default_factory=dict)  # of the load
    first: float | None = None
    last: float | None = None
    repeats: list[float] = field(default_factory=list)
    wanted: int = 0

    @property
    def median(self) -> float | None:
        return median(self.repeats) if self.repeats else None

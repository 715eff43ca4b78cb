"""A result of a task, and the inputs it was made from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from page.shared.npy import Array


@dataclass(frozen=True)
class GivenPicture:
    """A picture: its pixels (height, width, 3) uint8, and an address that shows them."""

    name: str
    pixels: Array
    url: str


@dataclass(frozen=True)
class GivenSound:
    """A sound: its samples (count,), of which there are `rate` in a second."""

    name: str
    samples: Array
    rate: int

    @property
    def seconds(self) -> float:
        return len(self.samples) / self.rate


@dataclass(frozen=True)
class TaskAnswer:
    """A result, and its inputs: the picture, the sound, the texts by name, and the points."""

    task: str
    result: Any
    spent: float  # milliseconds
    picture: GivenPicture | None = None
    sound: GivenSound | None = None
    texts: dict[str, str] = field(default_factory=dict)
    points: Sequence[tuple[float, float]] = ()

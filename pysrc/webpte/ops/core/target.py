"""What a lowering may know of the device: which kernels suit it, never what they compute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")

TunedConfigs = tuple[tuple[str, str], ...]  # the key of a question, and the label that was chosen


@dataclass(frozen=True)
class Tunable:
    """Which of several cuts of a kernel is the fastest for a class of shapes, on one adapter."""

    key: str
    default: str
    labels: tuple[str, ...]

    @property
    def kernel(self) -> str:
        """How the names of the kernels begin that it is about."""
        return self.key.split()[0]


@dataclass(frozen=True)
class Target:
    """`software`: a CPU in disguise, where large kernels take minutes to compile.

    `storage_buffers`: how many a kernel may bind; 8 is what every GPU has. `shared_bytes`: of a
    workgroup's memory; 16 KB is what every GPU has. `matrices`: whether GEMMs may use subgroup
    matrices (gemm/subgroup_matrix.py). `choices` are what was measured to be the fastest, and
    `asked` takes the questions, if they are wanted.
    """

    software: bool = False
    storage_buffers: int = 8
    shared_bytes: int = 16384
    choices: TunedConfigs = ()
    matrices: bool = False
    asked: list[Tunable] | None = field(default=None, compare=False)

    @property
    def asks(self) -> bool:
        """Whether it makes a difference which candidates there are."""
        return self.asked is not None or bool(self.choices)

    def choice(self, name: str, shape_class: str, default: str, candidates: Mapping[str, T]) -> T:
        """The candidate that was measured to be the fastest for such shapes, or the default.

        Candidates are the same kernel at other cuts, any of which gives the same result up to the
        order of sums; where one rounds otherwise, its module says by how much. One that was chosen
        once and is none any more is as good as none chosen.
        """
        key = f"{name} {shape_class}"
        if self.asked is not None:
            self.asked.append(Tunable(key, default, tuple(candidates)))
        chosen = dict(self.choices).get(key, default)
        return candidates[chosen if chosen in candidates else default]


GPU = Target()

"""A LoRA's weights in the host's memory: two thin matrices for each linear layer it changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Factor:
    """The change of a linear layer's weights: B A, with the scale in B.

    a  (rank, inputs), b  (outputs, rank), both float32
    """

    a: np.ndarray = field(repr=False)
    b: np.ndarray = field(repr=False)

    @property
    def rank(self) -> int:
        return len(self.a)

    @property
    def inputs(self) -> int:
        return int(self.a.shape[1])

    @property
    def outputs(self) -> int:
        return len(self.b)


@dataclass(frozen=True)
class LoraWeights:
    """A LoRA: `factors` by the name of the layer in the model, such as "layers.0.q_proj"."""

    name: str
    factors: Mapping[str, Factor] = field(repr=False)

    @property
    def rank(self) -> int:
        """The largest rank of a layer."""
        return max((factor.rank for factor in self.factors.values()), default=0)

    @property
    def nbytes(self) -> int:
        """Bytes of all matrices."""
        return sum(factor.a.nbytes + factor.b.nbytes for factor in self.factors.values())

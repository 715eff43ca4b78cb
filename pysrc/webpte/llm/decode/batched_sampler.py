"""Graphs that sample a token from each row of a batched model's logits, and keep it on the GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass

import numpy as np

from webpte.engine.dtypes import DTYPES
from webpte.engine.format.vulkan import BoolValue, IntListValue, IntValue, NullValue
from webpte.engine.graph.graph import Call, Graph, Tensor, Value
from webpte.engine.ops.sampling.sample import SETTINGS
from webpte.engine.ops.sampling.sample_rows import SAMPLE_ROWS
from webpte.engine.ops.slots.slot_cache import PLACE_WORDS, UPDATE_SLOTS
from webpte.engine.shapes import numel
from webpte.llm.decode.sampling import SamplerSettings

HISTORY = 1  # the value id of the history in the graphs below


@dataclass(frozen=True)
class BatchedSamplerKind:
    """The sampler for all rows of a call: each row takes the steps that any row needs."""

    sampled: bool = False
    with_top_k: bool = False
    with_top_p: bool = False
    penalized: bool = False

    @classmethod
    def of(cls, rows: Sequence[SamplerSettings]) -> BatchedSamplerKind:
        """Return the kind for rows with these settings."""
        drawn = [one for one in rows if not one.is_greedy]
        flags = [any(row) for row in zip(*(one.flags for one in drawn), strict=True)]
        return cls(True, *flags) if drawn else cls()

    def with_flags_of(self, other: BatchedSamplerKind) -> BatchedSamplerKind:
        """Return the kind with the steps of both kinds."""
        pairs = zip(astuple(self), astuple(other), strict=True)
        return BatchedSamplerKind(*(a or b for a, b in pairs))

    def graph(self, logits: Tensor, history: Tensor) -> Graph:
        """Build the graph: inputs are logits, places, history and, if sampled, settings and seeds.

        Logits are [picks, V] or [1, picks, V], places int32 [picks, 4]: slot and position of the
        token to sample. The token is the output, and is also written to the history.
        """
        picks = numel(logits.dims[:-1])
        words = DTYPES["int32"]
        column = (1, picks, 1, 1)
        values: list[Value] = [
            Tensor(0, logits.dtype, logits.dims, None, None),
            Tensor(HISTORY, words, history.dims, None, None),
            Tensor(2, words, (picks, PLACE_WORDS), None, None),
            Tensor(3, words, (picks, 1) if self.sampled else logits.dims[:-1], None, None),
            IntListValue((1, -1, 1, 1)),
            Tensor(5, words, column, None, None),
            Tensor(6, words, (1,), None, None),
        ]
        inputs: tuple[int, ...] = (0, 2, HISTORY)
        at = len(values)
        if self.sampled:
            values += [
                Tensor(at, DTYPES["float32"], (picks, SETTINGS), None, None),
                Tensor(at + 1, words, (picks, 2), None, None),
                BoolValue(self.with_top_k),
                BoolValue(self.with_top_p),
                BoolValue(self.penalized),
                NullValue(),
            ]
            history_id = HISTORY if self.penalized else at + 5
            args = (0, history_id, 2, at, at + 1, at + 2, at + 3, at + 4, at + 5, 3)
            inputs += (at, at + 1)
            choose = Call(0, SAMPLE_ROWS, args)
        else:
            values += [IntValue(-1), BoolValue(False)]
            choose = Call(0, "aten.argmax.default", (0, at, at + 1, 3))
        calls = (
            choose,
            Call(1, "aten.view_copy.default", (3, 4, 5)),
            Call(2, UPDATE_SLOTS, (5, HISTORY, 2, 6)),
        )
        return Graph(tuple(values), calls, inputs, (3,))

    def inputs(self, rows: Sequence[SamplerSettings], picks: int) -> list[np.ndarray]:
        """Return the settings and seeds for the rows, padded to `picks`."""
        if not self.sampled:
            return []
        values, seeds = np.zeros((picks, SETTINGS), np.float32), np.zeros((picks, 2), np.int32)
        for at, one in enumerate(rows):
            values[at], seeds[at] = one.values, one.seed
        return [values, seeds]

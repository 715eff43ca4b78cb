"""Prompts of SAM's mask decoders: points and labels, or tokens that tables make of these.

A decoder takes the encoder's outputs, known by their shapes, and either points (1, N, 2) and labels
(1, N), or tokens (1, N, width) of a prompt encoder that is not in the program. Its weights are then
in files prompt_*.bin: a matrix of random frequencies, a vector for each label, and one for places
without a point.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from webpte.engine.call.info import MethodInfo, TensorInfo
from webpte.engine.dtypes import DTYPES
from webpte.errors import InputError

Array = np.ndarray
NOTHING = -1  # the label of a place without a point
_LABELS = 4  # a point outside and inside of the thing, and two corners
_FREQUENCIES, _ABSENT, _POINTS = (
    ("gauss", "freq", "positional", "pe_"),
    ("not_a", "pad"),
    ("point",),
)


@dataclass(frozen=True)
class PromptTables:
    """The weights of a prompt encoder.

    frequencies   (2, width / 2)
    labels        (4, width)
    absent        (width,)
    """

    frequencies: Array
    labels: Array
    absent: Array

    @classmethod
    def of(cls, arrays: Mapping[str, Array], width: int) -> PromptTables:
        """Find the tables among files by their names and sizes; InputError if one lacks."""
        given = {name.lower(): array for name, array in sorted(arrays.items())}
        absent = _taken(given, _ABSENT)
        frequencies = _taken(given, _FREQUENCIES)
        labels = _taken(given, _POINTS)
        sizes = [frequencies.size, labels.size, absent.size]
        if sizes != [width, _LABELS * width, width]:
            listed = ", ".join(f"{name}: {array.size}" for name, array in given.items()) or "none"
            raise InputError(
                f"the prompt encoder's tables have {sizes} numbers, and should have "
                f"{[width, _LABELS * width, width]} of frequencies, points and absent points; "
                f"files: {listed}"
            )
        return cls(frequencies.reshape(2, -1), labels.reshape(_LABELS, -1), absent)

    def tokens(self, places: Array, labels: Sequence[int], side: tuple[int, int]) -> Array:
        """Return the tokens (count, width) of points in pixels of the model's picture."""
        height, width = side
        shares = (places + 0.5) / np.array([width, height])
        waves = 2 * np.pi * ((2 * shares - 1) @ self.frequencies.astype(np.float64))
        found = np.concatenate([np.sin(waves), np.cos(waves)], axis=1)
        for at, label in enumerate(labels):
            if label == NOTHING:
                found[at] = self.absent
            else:
                found[at] += self.labels[label]
        return found.astype(np.float32)


def _taken(given: dict[str, Array], words: Sequence[str]) -> Array:
    """Return the numbers of the files whose names have a word, joined, and take them out."""
    named = [name for name in given if any(word in name for word in words)]
    found = [given.pop(name).reshape(-1) for name in named]
    return np.concatenate(found) if found else np.zeros(0, np.float32)


@dataclass(frozen=True)
class MaskDecoder:
    """The inputs of a mask decoder, by their places.

    encoded   the places of the encoder's outputs, in the encoder's order; None for unused outputs
    points    the place of points, or of tokens
    labels    the place of labels; None for tokens
    """

    info: MethodInfo
    encoded: tuple[int | None, ...]
    points: int
    labels: int | None

    @classmethod
    def of(cls, info: MethodInfo, encoded: Sequence[Any]) -> MaskDecoder | None:
        """Tell the inputs apart; None if this is not a mask decoder."""
        shapes = [_shape(one) for one in info.inputs]
        left, taken = list(range(len(shapes))), list[int | None]()
        for wanted in map(_shape, encoded):
            taken.append(next((one for one in left if shapes[one] == wanted is not None), None))
            if taken[-1] is not None:
                left.remove(taken[-1])
        kinds = [shapes[at] or () for at in left]
        if len(left) == 2:
            points, labels = kinds
            if points[-1:] == (2,) and points[:-1] == labels and len(points) in (3, 4):
                return cls(info, tuple(taken), *left)
        if len(left) == 1 and len(kinds[0]) == 3 and kinds[0][2] % 2 == 0:
            return cls(info, tuple(taken), left[0], None)
        return None

    @property
    def bounds(self) -> tuple[int, int]:
        """The least and the most points of a prompt."""
        points = self.info.inputs[self.points]
        assert isinstance(points, TensorInfo)
        return points.bounds[-2]

    @property
    def width(self) -> int:
        """The numbers of a token, or of a point."""
        return int(_shape(self.info.inputs[self.points])[-1])  # type: ignore[index]

    def inputs(
        self,
        encoded: Sequence[Any],
        places: Array,
        labels: Sequence[int],
        tables: PromptTables | None,
        side: tuple[int, int],
    ) -> list[Any]:
        """Return the inputs for a prompt, with places without points up to the least number."""
        missing = max(self.bounds[0] - len(labels), 0)
        labels = [*labels, *[NOTHING] * missing]
        places = np.concatenate([places, np.zeros((missing, 2))])
        pairs = zip(self.encoded, encoded, strict=True)
        given: dict[int, Any] = {at: one for at, one in pairs if at is not None}
        if self.labels is None:
            assert tables is not None
            given[self.points] = tables.tokens(places, labels, side)[None]
        else:
            rank = len(_shape(self.info.inputs[self.points]) or ())
            lead = (1,) * (rank - 2)
            given[self.points] = places.astype(np.float32).reshape(*lead, -1, 2)
            kind = self.info.inputs[self.labels]
            assert isinstance(kind, TensorInfo)
            given[self.labels] = np.array(labels, DTYPES[kind.dtype].numpy).reshape(*lead, -1)
        return [given[at] for at in range(len(given))]


def _shape(value: Any) -> tuple[int, ...] | None:
    return tuple(value.shape) if isinstance(value, TensorInfo) else None

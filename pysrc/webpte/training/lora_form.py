"""The form of a program that trains LoRAs: the inputs of its method `learn`, and its layers.

    learn(tokens int [B, T], targets int32 [B, T], settings [4], w [P], m [P], v [P])
        -> loss [1], w, m, v

w has all matrices of the LoRA, m and v AdamW's two moments. The constant method `get_lora` lists
the layers as JSON: {"rank", "alpha", "betas", "layers": {NAME: {"inputs", "outputs", "pairs"}}}. A
layer's matrices A (rank, inputs) and B (outputs, rank) are one after the other, the layers in the
order of the JSON.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from webpte.engine.call.info import MethodInfo, ScalarInfo
from webpte.engine.files.json_reader import Table, parse_table
from webpte.engine.load.program_file import OPTIONAL_METHODS
from webpte.errors import InputError
from webpte.llm.lora.slots import LinearModule
from webpte.training.learner import shapes_of

LEARN = "learn"
FACTS = OPTIONAL_METHODS[LEARN]
_LARGEST = 1 << 24  # largest width of a layer


@dataclass(frozen=True)
class TrainedLayer:
    """A linear layer with its two matrices in the flat vector.

    pairs  (heads, size of a head) if the rows of B are in the order of rotated pairs
    """

    name: str
    inputs: int
    outputs: int
    pairs: tuple[int, int] | None
    start: int
    rank: int

    @property
    def middle(self) -> int:
        """The start of B."""
        return self.start + self.rank * self.inputs

    @property
    def end(self) -> int:
        return self.middle + self.rank * self.outputs

    def matrices(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return A and B of a flat vector, as PEFT's files have them."""
        a = w[self.start : self.middle].reshape(self.rank, self.inputs)
        b = w[self.middle : self.end].reshape(self.outputs, self.rank)
        if self.pairs is not None:
            heads, size = self.pairs
            b = b.reshape(heads, size // 2, 2, -1).transpose(0, 2, 1, 3).reshape(b.shape)
        return a, b

    def put(self, w: np.ndarray, a: np.ndarray, b: np.ndarray) -> None:
        """Write A and B of a file into a flat vector: the inverse of `matrices`."""
        w[self.start : self.middle] = a.ravel()
        w[self.middle : self.end] = LinearModule(self.name, "", self.pairs).matrix(b).ravel()


@dataclass(frozen=True)
class LoraForm:
    """The form of a program that trains LoRAs.

    batch, length  rows of a step, and the tokens in each
    rank, alpha    the change of a layer's weights is alpha / rank * B A
    betas          of AdamW's decay rates
    """

    batch: int
    length: int
    rank: int
    alpha: float
    betas: tuple[float, float]
    layers: tuple[TrainedLayer, ...]

    @property
    def count(self) -> int:
        """Number of elements of the flat vector."""
        return self.layers[-1].end


def lora_form(methods: Mapping[str, MethodInfo]) -> LoraForm:
    """Return the form of a program; raise InputError if it does not train LoRAs."""
    if LEARN not in methods and FACTS in methods:
        raise InputError(
            f"{LEARN!r} was not read: load the program by `webpte.llm.load(..., training=True)`"
        )
    if LEARN not in methods or FACTS not in methods:
        listed = ", ".join(methods) or "none"
        raise InputError(
            f"a program that trains LoRAs has the methods {LEARN!r} and {FACTS!r}; this one has: "
            f"{listed}. Export it with `serve.py export FOLDER OUT --train lora`"
        )
    table, rank = _facts(methods)
    alpha, betas = float(table.number("alpha")), table.listed("betas")
    if len(betas) != 2 or not all(isinstance(one, float) and 0 <= one < 1 for one in betas):
        raise InputError(f"{FACTS!r}: betas must be two numbers from 0 to 1")
    layers = tuple(_layers(table.table("layers"), rank))
    batch, length = _sizes(methods[LEARN], layers)
    return LoraForm(batch, length, rank, alpha, (betas[0], betas[1]), layers)


def _facts(methods: Mapping[str, MethodInfo]) -> tuple[Table, int]:
    """Return a program's description of its LoRA, and the LoRA's rank."""
    outputs = methods[FACTS].outputs
    said = outputs[0] if len(outputs) == 1 else None
    if not isinstance(said, ScalarInfo) or not isinstance(said.value, str):
        raise InputError(f"{FACTS!r} does not return a text that describes the LoRA")
    table = parse_table(said.value, FACTS, InputError)
    return table, table.integer("rank", low=1, high=1 << 16)


def lora_rank(methods: Mapping[str, MethodInfo]) -> int:
    """Return the rank of the LoRAs that a program trains, loaded with or without `training`.

    The rank is 0 for a program that does not train LoRAs.
    """
    try:
        return _facts(methods)[1] if FACTS in methods else 0
    except InputError:
        return 0


def can_train_lora(methods: Mapping[str, MethodInfo]) -> bool:
    """Return whether a LoraTrainer accepts a program with these methods."""
    try:
        lora_form(methods)
    except InputError:
        return False
    return True


def _layers(table: Table, rank: int) -> Iterator[TrainedLayer]:
    start = 0
    for name in table.content:
        one = table.table(name)
        inputs, outputs = (one.integer(key, low=1, high=_LARGEST) for key in ("inputs", "outputs"))
        pairs = one.listed("pairs", None)
        fits = pairs is None or (
            len(pairs) == 2
            and all(type(size) is int and size > 0 for size in pairs)
            and math.prod(pairs) == outputs
            and pairs[1] % 2 == 0
        )
        if not fits:
            raise InputError(f"{one.name}: pairs {pairs} do not fit {outputs} outputs")
        layer = TrainedLayer(
            name, inputs, outputs, None if pairs is None else (pairs[0], pairs[1]), start, rank
        )
        yield layer
        start = layer.end


def _sizes(learn: MethodInfo, layers: tuple[TrainedLayer, ...]) -> tuple[int, int]:
    """Return the rows and tokens of a step; raise InputError if `learn` is another method."""
    count = layers[-1].end if layers else 0
    taken, given = shapes_of(learn.inputs), shapes_of(learn.outputs)
    rows = taken[0] if taken else ()
    state = [(count,)] * 3
    if len(rows) != 2 or taken != [rows, rows, (4,), *state] or given != [(1,), *state]:
        raise InputError(
            f"{LEARN!r} takes tokens [B, T], targets [B, T], settings [4] and three vectors of "
            f"{count:,} elements, and gives a loss and these; it takes {taken} and gives {given}"
        )
    return rows[0], rows[1]

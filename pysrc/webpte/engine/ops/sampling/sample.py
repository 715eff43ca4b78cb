"""The sampler: draws a language model's next token from its logits. An operator of webpte's own.

    webpte.sample.default(logits, history, position, settings, seed,
                          with_top_k, with_top_p, penalized, allowed, row) -> out (int) [1, 1]

  logits     [1, V], or [1, S, V] with the row that `row` names, or else the last
  history    tokens, in any shape; tokens before `position` are penalized, ids outside of the
             vocabulary are ignored
  position   live: the position of the token to draw; each position has its own random numbers
  settings   [8]: temperature (0: greedy), top_k (0: off), top_p (1: off), min_p (0: off),
             repetition penalty (1: off), and unused numbers
  seed       int32 [2]: a 64-bit seed
  flags      with_top_k, with_top_p and penalized select the kernels; the settings are tensors, so
             that they can change from call to call without relowering
  allowed    int32 [ceil(V / 32)], or null: a bit per token, lowest bit first. Other tokens count as
             if their logit were NaN
  row        the row of the logits, which then have any rank; -1 is the last row

Steps, in this order: a penalized logit l becomes l / penalty if it is positive, else l * penalty;
all logits are divided by the temperature; top-k keeps logits that are not below the k-th largest;
top-p keeps the smallest set of the largest kept logits whose probabilities reach its share of their
sum, with all logits that equal the smallest in the set; min-p keeps tokens with at least its share
of the largest probability. An exponential race draws among the kept tokens: each has a waiting time
of -log(u) / probability, and the shortest wins.

A NaN or -inf is drawn only without other logits: then the first -inf, or else the first NaN.
+inf and everything above 2^126 count as the largest number, which no penalty makes smaller.
Subnormal numbers are 0.

Probabilities are integers (ops/core/fixed_point.py): the reference and every GPU draw the same
token for the same seed, in any order of additions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from webpte.engine.ops.core.args import Args, TensorArg
from webpte.engine.ops.core.records import Binding, Dispatch, Scratch, SymIntBound, ceil_div, pack
from webpte.engine.ops.core.registry import register
from webpte.engine.ops.core.row_reduction import (
    ONE_LANE,
    THREADS,
    RowThreads,
    check_floats,
    contiguous_layout,
)
from webpte.engine.ops.sampling.sample_numpy import WORD_BITS, Settings, choose_token
from webpte.engine.shapes import Dims, numel
from webpte.errors import GraphError

Array = np.ndarray

SIGNATURE = (
    "logits: tensor, history: tensor?, position: live, settings: tensor, seed: tensor, "
    "with_top_k: bool = False, with_top_p: bool = False, penalized: bool = False, "
    "allowed: tensor? = None, row: int = -1 -> tensor"
)

SETTINGS = 8
PART, SOFTWARE_PART = 1024, 256  # tokens per workgroup, or per thread of a software adapter

DIGITS, STAGE_WORDS = 4, 2 * 256 + 4  # also in wgsl/lib/sampling/selection.wgsl


def sample_shape(args: Args) -> tuple[Dims]:
    logits, settings, seed = args.tensor("logits"), args.tensor("settings"), args.tensor("seed")
    check_floats(args, logits, settings)
    check_row(args, logits)
    if settings.dims != (SETTINGS,) or seed.dims != (2,) or not is_word(seed):
        raise GraphError(
            f"{args.call}: settings must be [{SETTINGS}] and the seed [2] of int32, not "
            f"settings {list(settings.dims)} and a seed {list(seed.dims)} of {seed.dtype.name}"
        )
    history = args.optional_tensor("history")
    if args.flag("penalized") and (history is None or not is_word(history)):
        raise GraphError(f"{args.call}: a penalty needs a history of int32")
    allowed, words = args.optional_tensor("allowed"), ceil_div(logits.dims[-1], WORD_BITS)
    if allowed is not None and (allowed.numel != words or not is_word(allowed)):
        raise GraphError(
            f"{args.call}: allowed tokens must be {words} words of int32, not "
            f"{allowed.dtype.name} {list(allowed.dims)}"
        )
    if not is_word(args.out):
        raise GraphError(f"{args.call}: tokens are int32 or int64, not {args.out.dtype.name}")
    return ((1, 1),)


def check_row(args: Args, logits: TensorArg) -> None:
    """Raise if the logits do not have the row that the arguments name."""
    row = args.integer("row")
    if logits.numel == 0 or (row < 0 and (logits.rank not in (2, 3) or logits.dims[0] != 1)):
        raise GraphError(
            f"{args.call}: logits {list(logits.dims)} are not [1, vocabulary] or "
            "[1, tokens, vocabulary], or are empty"
        )
    rows = numel(logits.dims[:-1])
    if not -1 <= row < rows:
        raise GraphError(f"{args.call}: there is no row {row}: the logits have {rows}")


def first_of_row(args: Args, logits: TensorArg) -> int:
    """Return the index of the row's first logit."""
    row, length = args.integer("row"), logits.dims[-1]
    return logits.numel - length if row < 0 else row * length


def row_of(args: Args) -> Array:
    """Return the row of the logits that the arguments name, (V,)."""
    logits = args.array("logits")
    return np.asarray(logits.reshape(-1, logits.shape[-1])[args.integer("row")])


def is_word(tensor: TensorArg) -> bool:
    return tensor.dtype.stored == "int32"


def sample_bounds(args: Args) -> list[SymIntBound]:
    if not args.flag("penalized"):
        return args.bound("position", 0, 2**31 - 1, "a position")
    history = args.tensor("history").numel
    return args.bound("position", 0, history, f"a history of {history} tokens")


# Lowering


@dataclass(frozen=True)
class SampleDispatches:
    """Builder of a call's dispatches, which share scratch memory and the split of the rows.

    position  the binding of the position, or a tensor with the places of all rows
    first     the first logit of the first row
    history   tokens of a slot of the history
    """

    args: Args
    length: int
    part: int
    layout: RowThreads
    position: Binding
    first: int = 0
    rows: int = 1
    history: int = 0

    @classmethod
    def of(
        cls, args: Args, position: Binding, first: int = 0, rows: int = 1, history: int = 0
    ) -> SampleDispatches:
        """Return the builder for a call with these logits, split for the target."""
        length, software = args.tensor("logits").dims[-1], args.target.software
        layout = ONE_LANE if software else RowThreads(THREADS)
        part = SOFTWARE_PART if software else PART
        return cls(args, length, part, layout, position, first, rows, history)

    def dispatches(self) -> list[Dispatch]:
        tables = [self.fill_table(stage) for stage in range(self.stages)]
        return [self.find_keys(), *tables, self.draw(), self.merge()]

    @property
    def parts(self) -> int:
        return ceil_div(self.length, self.part)

    @property
    def stages(self) -> int:
        """Number of digit tables, see wgsl/lib/sampling/selection.wgsl."""
        return DIGITS * (self.args.flag("with_top_k") + self.args.flag("with_top_p"))

    @property
    def first_top_p_stage(self) -> int:
        return DIGITS if self.args.flag("with_top_k") else 0

    @property
    def keys(self) -> Scratch:
        return Scratch("sample keys", 4 * self.rows * self.length)

    @property
    def tops(self) -> Scratch:
        return Scratch("sample tops", 4 * self.rows * self.parts)

    @property
    def tables(self) -> Scratch:
        return Scratch("sample tables", 4 * self.rows * STAGE_WORDS * max(self.stages, 1))

    @property
    def pairs(self) -> Scratch:
        return Scratch("sample pairs", 8 * self.rows * self.parts)

    def find_keys(self) -> Dispatch:
        args, logits = self.args, self.args.tensor("logits")
        history, penalized = args.optional_tensor("history"), args.flag("penalized")
        allowed = args.optional_tensor("allowed")
        alone = self.layout == ONE_LANE
        words = self.part // WORD_BITS if penalized else 1
        cleared = STAGE_WORDS * self.stages
        return self._dispatch(
            "sample_keys",
            (
                *(logits.id, history.id if history and penalized else None),
                None if allowed is None else allowed.id,
                *(args.tensor("settings").id, self.keys, self.tops, self.tables),
                self.position,
            ),
            pack("6I", self.first, *self._sizes, cleared, self.history),
            (
                ("FLOAT", logits.dtype.wgsl),
                ("OWN_WORDS", str(words if alone else 1)),
                ("SEEN_WORDS", str(1 if alone else words)),
                *self._place_types,
            ),
            (("PENALIZED", penalized), ("MASKED", allowed is not None)),
        )

    def fill_table(self, stage: int) -> Dispatch:
        return self._dispatch(
            "sample_table",
            (self.keys, self.tops, self.args.tensor("settings").id, self.tables),
            pack("6I", *self._sizes, self.stages, stage, self.first_top_p_stage),
        )

    def draw(self) -> Dispatch:
        args = self.args
        return self._dispatch(
            "sample_draw",
            (
                *(self.keys, self.tops, args.tensor("settings").id, args.tensor("seed").id),
                *(self.tables, self.pairs, self.position),
            ),
            pack("5I", *self._sizes, self.stages, self.first_top_p_stage),
            self._place_types,
        )

    def merge(self) -> Dispatch:
        layout = contiguous_layout(self.parts, self.args.target)
        return Dispatch(
            kernel="argreduce_merge",
            bindings=(self.pairs, self.args.out.id),
            params=pack("2I", self.rows, self.parts),
            grid=layout.grid(self.rows),
            overrides=layout.overrides,
        )

    @property
    def _place_types(self) -> tuple[tuple[str, str], ...]:
        of_rows = isinstance(self.position, int)
        return (
            ("PLACES", "storage, read" if of_rows else "uniform"),
            ("PLACE_TYPE", "array<vec4<i32>>" if of_rows else "array<vec4<i32>, 1>"),
        )

    @property
    def _sizes(self) -> tuple[int, int, int]:
        return self.length, self.parts, self.part

    def _dispatch(
        self,
        kernel: str,
        bindings: tuple[Binding, ...],
        params: bytes,
        types: tuple[tuple[str, str], ...] = (),
        overrides: tuple[tuple[str, float], ...] = (),
    ) -> Dispatch:
        return Dispatch(
            kernel=kernel,
            bindings=bindings,
            params=params,
            grid=(*self.layout.grid(self.parts)[:2], self.rows),
            types=(*types, ("SETTING", self.args.tensor("settings").dtype.wgsl)),
            overrides=(*self.layout.overrides, *overrides),
        )


def lower_sample(args: Args) -> list[Dispatch]:
    first = first_of_row(args, args.tensor("logits"))
    return SampleDispatches.of(args, args.uniform("position"), first).dispatches()


def run_sample(args: Args) -> Array:
    flags = (args.flag("with_top_k"), args.flag("with_top_p"), args.flag("penalized"))
    position, history = args.integer("position"), args.optional_array("history")
    token = choose_token(
        row_of(args),
        Settings.of(args.array("settings"), *flags),
        args.array("seed"),
        position,
        () if history is None else history.reshape(-1)[:position],
        args.optional_array("allowed"),
    )
    return np.array([[token]], np.int32)


register(
    "webpte.sample.default",
    SIGNATURE,
    shape=sample_shape,
    lower=lower_sample,
    reference=run_sample,
    bounds=sample_bounds,
)

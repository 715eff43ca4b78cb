"""Calls of ops that work on rows: mixed arguments, several outputs, and sizes that change.

An array among the arguments is an input of the program; everything else is written into the file.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias, TypeGuard

import numpy as np

import webpte
from support.cases.cases import Arg, Array, write_arg
from support.write.pte_writer import GraphWriter, write_pte

Given: TypeAlias = "Array | Arg"


@dataclass(frozen=True)
class RowCase:
    """One call. `expect` gets its arguments, floats widened to float64, and gives the outputs.

    `outs` are their dtypes. `live` has further inputs, not larger, for the same program: the
    dims of the first are then upper bounds.
    """

    op: str
    args: tuple[Given, ...]
    expect: Callable[..., Any]
    outs: tuple[str, ...] = ("float32",)
    label: str = ""
    rtol: float = 1e-5
    atol: float = 1e-6
    live: tuple[tuple[Array, ...], ...] = ()

    def __str__(self) -> str:
        shown = [f"{a.dtype}{list(a.shape)}" if is_array(a) else str(a) for a in self.args]
        return " ".join([self.op, *shown, self.label]).strip().replace(" ", "-")

    @property
    def steps(self) -> list[tuple[Array, ...]]:
        """The inputs of every call, the largest first."""
        return [tuple(a for a in self.args if is_array(a)), *self.live]

    def expected(self, inputs: tuple[Array, ...]) -> list[Array]:
        """Floats stay float64, so as not to round twice."""
        if all(one is other for one, other in zip(inputs, self.steps[0], strict=True)):
            return self._first  # which the program has asked for, too
        return self._compute(inputs)

    @cached_property
    def _first(self) -> list[Array]:
        return self._compute(self.steps[0])

    def _compute(self, inputs: tuple[Array, ...]) -> list[Array]:
        arrays = iter(x.astype(np.float64) if x.dtype.kind == "f" else x for x in inputs)
        with np.errstate(all="ignore"):
            result = self.expect(*(next(arrays) if is_array(a) else a for a in self.args))
        results = list(result) if isinstance(result, tuple) else [result]
        return [
            np.asarray(x).astype(np.float64 if np.dtype(dtype).kind == "f" else dtype)
            for x, dtype in zip(results, self.outs, strict=True)
        ]

    def program(self) -> bytes:
        g = GraphWriter()
        ids = [write_given(g, given) for given in self.args]
        inputs = [i for i, a in zip(ids, self.args, strict=True) if is_array(a)]
        shapes = [x.shape for x in self.expected(self.steps[0])]
        outs = [g.tensor(shape, out) for shape, out in zip(shapes, self.outs, strict=True)]
        g.op(self.op, *ids, g.value_list(outs) if len(outs) > 1 else outs[0])
        g.inputs(*inputs)
        g.outputs(*outs)
        for value_id in (*inputs, *outs):
            g.host(value_id, dynamic=bool(self.live))
        return write_pte(g)

    def check(self, results: tuple[Array, ...], inputs: tuple[Array, ...]) -> None:
        for result, wanted, dtype in zip(results, self.expected(inputs), self.outs, strict=True):
            assert result.dtype == np.dtype(dtype), f"{self}: {result.dtype}"
            assert result.shape == wanted.shape, f"{self}: {result.shape}, not {wanted.shape}"
            if result.dtype.kind == "f":
                np.testing.assert_allclose(
                    result, wanted.astype(dtype), rtol=self.rtol, atol=self.atol, err_msg=str(self)
                )
            else:
                np.testing.assert_array_equal(result, wanted, err_msg=str(self))

    async def run_reference(self) -> None:
        """Every step on one loaded program, on NumPy, against the expectations."""
        async with await webpte.load(self.program(), device="numpy") as program:
            for inputs in self.steps:
                self.check(await program.forward(*inputs), inputs)


def is_array(given: Given) -> TypeGuard[Array]:
    return isinstance(given, np.ndarray)


def write_given(g: GraphWriter, given: Given) -> int:
    if isinstance(given, np.ndarray):
        return g.tensor(given.shape, str(given.dtype))
    return write_arg(g, given)


def normal(shape: tuple[int, ...], seed: int = 1, scale: float = 1.0, shift: float = 0.0) -> Array:
    x = np.random.default_rng(seed).normal(shift, scale, shape)
    return np.asarray(x).astype(np.float32)


def as_json(cases: list[RowCase]) -> str:
    """Return the cases for a page: programs, inputs and tolerances."""
    return json.dumps(
        [
            {
                **program_json(str(case), case.program(), case.steps),
                "rtol": case.rtol,
                "atol": case.atol,
            }
            for case in cases
        ]
    )


def program_json(name: str, program: bytes, steps: Sequence[Sequence[Array]]) -> dict[str, Any]:
    """Return a program with the inputs of its steps for a page."""
    return {
        "name": name,
        "program": base64.b64encode(program).decode(),
        "steps": [
            [(str(x.dtype), x.shape, base64.b64encode(x.tobytes()).decode()) for x in step]
            for step in steps
        ],
    }

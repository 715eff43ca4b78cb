"""One operator call with its inputs and its expected result: a row of the tables of tests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

import webpte
from support.write.pte_writer import GraphWriter, write_pte
from webpte.engine.ops import lookup, registered_names

Array: TypeAlias = "np.ndarray[Any, Any]"
Arg: TypeAlias = "bool | int | float | str | list[int] | None"


@dataclass(frozen=True)
class Case:
    """`expect` gets the inputs, floats widened to float64, and returns the expected output.

    `args` follow the tensors. `copied` makes the op write its output twice, so that a view
    cannot share the memory of its source and has to be copied.
    """

    op: str
    inputs: tuple[Array, ...]
    expect: Callable[..., Any]
    args: tuple[Arg, ...] = ()
    out: str | None = None  # dtype; by default the first input's
    label: str = ""
    rtol: float = 1e-5
    atol: float = 1e-6
    copied: bool = False

    def __str__(self) -> str:
        shapes = " ".join(f"{x.dtype}{list(x.shape)}" for x in self.inputs)
        args = "".join(f" {arg}" for arg in self.args)
        return f"{self.op} {shapes}{args}{' ' if self.label else ''}{self.label}".replace(" ", "-")

    @property
    def out_dtype(self) -> str:
        return self.out or str(self.inputs[0].dtype)

    @cached_property
    def expected(self) -> Array:
        """In the output's dtype; floats stay float64, so as not to round twice."""
        wide = [x.astype(np.float64) if x.dtype.kind == "f" else x for x in self.inputs]
        with np.errstate(all="ignore"):
            result = np.asarray(self.expect(*wide))
        dtype = np.dtype(self.out_dtype)
        return result.astype(np.float64 if dtype.kind == "f" else dtype)

    def program(self) -> bytes:
        """A `.pte` whose method `forward` is this call."""
        g = GraphWriter()
        tensors = [g.tensor(x.shape, str(x.dtype)) for x in self.inputs]
        args = [write_arg(g, arg) for arg in self.args]
        out = g.tensor(self.expected.shape, self.out_dtype)
        for _ in range(2 if self.copied else 1):
            g.op(self.op, *tensors, *args, out)
        g.inputs(*tensors)
        g.outputs(out)
        return write_pte(g)

    def check(self, result: Array, against: Array | None = None) -> None:
        """`result` is `expected`, or `against`, with the output's shape and dtype."""
        wanted = self.expected if against is None else against
        assert result.dtype == np.dtype(self.out_dtype), f"{self}: {result.dtype}"
        assert result.shape == wanted.shape, f"{self}: {result.shape}, not {wanted.shape}"
        if result.dtype.kind == "f":
            with np.errstate(over="ignore"):
                rounded = wanted.astype(result.dtype)
            np.testing.assert_allclose(
                result, rounded, rtol=self.rtol, atol=self.atol, err_msg=str(self)
            )
        else:
            np.testing.assert_array_equal(result, wanted, err_msg=str(self))


def write_arg(g: GraphWriter, arg: Arg) -> int:
    match arg:
        case None:
            return g.null()
        case bool():
            return g.bool_(arg)
        case int():
            return g.int(arg)
        case float():
            return g.double(arg)
        case str():
            return g.string(arg)
    return g.int_list(arg)


def check_reference(case: Case) -> None:
    """The program on NumPy gives the case's expected output."""

    async def run() -> None:
        program = await webpte.load(case.program(), device="numpy")
        (result,) = await program.forward(*case.inputs)
        case.check(result)

    asyncio.run(run())


def ops_of_family(family: str) -> set[str]:
    """The operators that a module of `webpte.engine.ops` registers."""
    return {
        name
        for name in registered_names()
        if (op := lookup(name)) and op.lower.__module__.endswith(f".{family}")
    }

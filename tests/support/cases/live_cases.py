"""One operator call of any signature, executed once or, with other shapes and SymInts, often.

Arguments are written as Python has them: arrays are inputs, `Const` arrays are constants, `Sym`s
are SymInts read from an input, lists become lists of ints, of tensors (None for null) or, with a
`Sym` among them, of values. Tensors are declared as large as the largest that a step brings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

import webpte
from support.cases.cases import Array, write_arg
from support.graphs.graphs import make_planner, read_graph, wait
from support.write.pte_writer import GraphWriter, write_pte
from webpte.engine.graph.live_state import LiveState
from webpte.engine.ops import lookup, registered_names
from webpte.engine.ops.core.records import Dispatch
from webpte.engine.plan.planner import Planner

WIDTHS = ("float32", "uint8")  # elements of a word, and of a byte
UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


@dataclass(frozen=True)
class Sym:
    """A SymInt. The file declares the value of the first step."""

    value: int


@dataclass(frozen=True)
class Const:
    """A constant; the same in all steps."""

    array: Array


def bits(array: Array) -> Array:
    return np.ascontiguousarray(array).view(UNSIGNED[array.dtype.itemsize]).reshape(array.shape)


@dataclass(frozen=True)
class LiveCase:
    """`expect` gets the arguments of a step and returns the expected output.

    Without a tolerance results are compared bit by bit, and `expect` gets and gives arrays of
    those bits. `out` is the dtype, by default the first tensor's.
    """

    op: str
    steps: Sequence[tuple[Any, ...]]
    expect: Callable[..., Any]
    out: str | None = None
    label: str = ""
    rtol: float = 0
    exact: bool = True

    def __str__(self) -> str:
        parts = " ".join(_describe(arg) for arg in self.steps[0])
        more = f" x{len(self.steps)}" if len(self.steps) > 1 else ""
        return f"{self.op.removeprefix('aten.')} {parts}{more} {self.label}".strip().replace(
            " ", "-"
        )

    @cached_property
    def out_dtype(self) -> np.dtype[Any]:
        tensors = _tensors(self.steps[0])
        return np.dtype(self.out or next(tensors).dtype)

    @cached_property
    def expected(self) -> list[list[Array]]:
        """The outputs of each step."""
        return [self._expect(step) for step in self.steps]

    def _expect(self, step: tuple[Any, ...]) -> list[Array]:
        with np.errstate(all="ignore"):
            results = self.expect(*(self._plain(arg) for arg in step))
        several = results if isinstance(results, list) else [results]
        if self.exact:
            dtype = UNSIGNED[self.out_dtype.itemsize]
            return [np.asarray(r).astype(dtype).view(self.out_dtype) for r in several]
        return [np.asarray(result).astype(self.out_dtype) for result in several]

    def _plain(self, arg: Any) -> Any:
        match arg:
            case Sym():
                return arg.value
            case Const():
                return self._plain(arg.array)
            case np.ndarray():
                return bits(arg) if self.exact and arg.dtype.kind == "f" else arg
            case list():
                return [self._plain(item) for item in arg]
        return arg

    def program(self) -> bytes:
        builder = _Builder(self)
        args = [builder.add(list(versions)) for versions in zip(*self.steps, strict=True)]
        outs = [builder.tensor([step[i] for step in self.expected]) for i in range(self.outputs)]
        g = builder.graph
        several = isinstance(self.expect(*map(self._plain, self.steps[0])), list)
        g.op(self.op, *args, g.value_list(outs) if several else outs[0])
        g.inputs(*builder.inputs)
        g.outputs(*outs)
        return write_pte(g)

    @property
    def outputs(self) -> int:
        return len(self.expected[0])

    def inputs(self, step: int) -> list[Array]:
        """Return the program's inputs: tensors and SymInts in order."""
        return list(_inputs(self.steps[step]))

    def check(self, step: int, results: Sequence[Array]) -> None:
        assert len(results) == self.outputs, str(self)
        for result, wanted in zip(results, self.expected[step], strict=True):
            assert result.dtype == wanted.dtype, f"{self}: {result.dtype}, not {wanted.dtype}"
            assert result.shape == wanted.shape, f"{self}: {result.shape}, not {wanted.shape}"
            if self.exact:
                np.testing.assert_array_equal(bits(result), bits(wanted), err_msg=str(self))
            else:
                np.testing.assert_allclose(
                    result, wanted, rtol=self.rtol, atol=self.rtol, err_msg=str(self)
                )


def _describe(arg: Any) -> str:
    match arg:
        case np.ndarray():
            return f"{arg.dtype}{list(arg.shape)}"
        case Sym():
            return f"s{arg.value}"
        case Const():
            return f"const {_describe(arg.array)}"
        case list():
            return f"[{' '.join(_describe(item) for item in arg)}]"
    return str(arg)


def _tensors(args: Sequence[Any]) -> Iterator[Array]:
    for arg in args:
        if isinstance(arg, np.ndarray):
            yield arg
        elif isinstance(arg, Const):
            yield arg.array
        elif isinstance(arg, list):
            yield from _tensors(arg)


def _inputs(args: Sequence[Any]) -> Iterator[Array]:
    seen: list[Any] = []
    for arg in args:
        if isinstance(arg, list):
            yield from _inputs(arg)
        elif isinstance(arg, np.ndarray) and not any(arg is other for other in seen):
            seen.append(arg)
            yield arg
        elif isinstance(arg, Sym):
            yield np.array([arg.value], np.int32)


@dataclass
class _Builder:
    case: LiveCase
    graph: GraphWriter = field(default_factory=GraphWriter)
    inputs: list[int] = field(default_factory=list)

    def add(self, versions: list[Any]) -> int:
        """One argument, from its value in each step."""
        g, first = self.graph, versions[0]
        match first:
            case np.ndarray():
                value_id = self.tensor(versions)
                self.inputs.append(value_id)
                return value_id
            case Const():
                dtype = str(first.array.dtype)
                return g.tensor(first.array.shape, dtype, constant=first.array)
            case Sym():
                source = g.tensor((1,), "int32")
                self.inputs.append(source)
                select = (source, g.int(0), g.int(0), g.symint(first.value))
                return g.op("et_vk.select_as_symint.default", *select)
            case list() if any(not isinstance(item, int) for item in first):
                return g.value_list(
                    [self.add(list(items)) for items in zip(*versions, strict=True)]
                )
        return write_arg(g, first)

    def tensor(self, versions: Sequence[Array]) -> int:
        shapes = [version.shape for version in versions]
        dims = tuple(max(sizes) for sizes in zip(*shapes, strict=True))
        value_id = self.graph.tensor(dims, str(versions[0].dtype))
        self.graph.host(value_id, dynamic=len(set(shapes)) > 1)
        return value_id


# What tests do with a case


def check_reference(case: LiveCase) -> None:
    """Run every step on NumPy, on one loaded program."""

    async def run() -> None:
        async with await webpte.load(case.program(), device="numpy") as program:
            for step in range(len(case.steps)):
                case.check(step, await program.forward(*case.inputs(step)))

    wait(run())


def lowered(case: LiveCase) -> tuple[Planner, LiveState]:
    """A planner after its first lowering, at the largest shapes; raises the lowering's errors."""
    planner, live = make_planner(read_graph(case.program()))
    planner.lower_all()
    return planner, live


def dispatch_of(case: LiveCase) -> Dispatch:
    """The only dispatch of a case."""
    (dispatch,) = lowered(case)[0].dispatches()
    return dispatch


def family_ops(module: str) -> set[str]:
    """The operators that a family registers."""
    return {
        name
        for name in registered_names()
        if (op := lookup(name)) and op.lower.__module__.endswith(f".{module}")
    }


# What tables are made of


def random_bits(shape: tuple[int, ...] | int, dtype: str = "float32") -> Array:
    """Any bits at all: NaNs with payloads, -0.0, subnormals."""
    kind = np.dtype(dtype)
    rng = np.random.default_rng(np.prod(shape, dtype=int) + kind.itemsize)
    if dtype == "bool":
        return np.asarray(rng.random(shape) < 0.5)
    return (
        np.asarray(rng.integers(0, 256, (*np.atleast_1d(shape), kind.itemsize), np.uint8))
        .view(kind)
        .reshape(shape)
    )


def scalar_bits(dtype: str = "float32") -> Array:
    return random_bits(1, dtype).reshape(())


def each(shape: Iterable[int], dtype: Any, function: Callable[..., Any]) -> Array:
    """The array whose element at i, j, .. is function(i, j, ..)."""
    out = np.zeros(tuple(shape), dtype)
    for index in np.ndindex(*out.shape):
        out[index] = function(*index)
    return out

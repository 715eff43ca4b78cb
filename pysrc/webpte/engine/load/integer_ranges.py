"""Ranges of integers: which int64 values of a method never leave the 32 bits that a GPU has.

Indices, comparisons, constants and bytes have known ranges, and a rule for each operator gives the
range of its result. A call whose int64 arguments and results all fit computes the same on a GPU as
on the host. Inputs of the method may be anything, as may results without a rule. A buffer that the
method writes back has a range if that range does not grow from call to call.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from webpte.engine.dtypes import INT32_MAX, INT32_MIN, DType, dtype_of_program
from webpte.engine.format.program import (
    DelegateCall,
    FreeCall,
    IntListRef,
    KernelCall,
    OptionalTensorList,
    TensorList,
    TensorMeta,
)
from webpte.engine.format.vulkan import BoolValue, DoubleValue, IntValue, ValueListValue
from webpte.engine.graph.graph import PREPACK, Call, Graph, Tensor
from webpte.engine.load.program_file import MethodContents
from webpte.engine.load.state import Cell, State
from webpte.engine.load.writes import Writes, targets
from webpte.engine.ops.core.registry import definition_of
from webpte.engine.portable import PortableKernel, lookup_kernel
from webpte.engine.shapes import numel

Range = tuple[float, float]  # the least and the largest value
Rule = Callable[..., Range]
Constants = Mapping[tuple[int, int], Range]

ANYTHING: Range = (-math.inf, math.inf)
WORD: Range = (INT32_MIN, INT32_MAX)
TRUTH: Range = (0, 1)
EXACT_FLOATS = 2**24  # integers up to here are float32 values
MOST_READ = 1 << 16  # bytes of a constant
ROUNDS = 4  # in which the range of a buffer has to become stable

_OF_TYPE: dict[str, Range] = {
    "bool": TRUTH,
    "uint8": (0, 255),
    "int8": (-128, 127),
    "int16": (-(2**15), 2**15 - 1),
    "int32": WORD,
}


def fits(found: Range, limit: Range = WORD) -> bool:
    return limit[0] <= found[0] and found[1] <= limit[1]


def union(*ranges: Range) -> Range:
    """Return the range of all values of some ranges; of none, nothing is known."""
    if not ranges:
        return ANYTHING
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def is_finite(*ranges: Range) -> bool:
    return all(math.isfinite(end) for found in ranges for end in found)


def corners(function: Callable[[Any, Any], Any], x: Range, y: Range) -> Range:
    """Return the range of a function that is largest and least at the ends of its arguments."""
    if not is_finite(x, y):
        return ANYTHING
    results = [function(a, b) for a in x for b in y]
    return min(results), max(results)


def added(x: Range, y: Range, alpha: Range = (1, 1)) -> Range:
    more = corners(lambda a, b: a * b, y, alpha)
    return x[0] + more[0], x[1] + more[1]


def subtracted(x: Range, y: Range, alpha: Range = (1, 1)) -> Range:
    return added(x, y, (-alpha[1], -alpha[0]))


def quotient(x: Range, y: Range, mode: object = "floor") -> Range:
    if y[0] <= 0 <= y[1] or mode is None:
        return ANYTHING
    down = corners(lambda a, b: a // b, x, y)
    return union(down, corners(lambda a, b: -(-a // b), x, y))


def modulo(x: Range, y: Range) -> Range:
    """Return the range of a remainder with the divisor's sign."""
    if y[0] <= 0 <= y[1]:
        return ANYTHING
    return (0, y[1] - 1) if y[0] > 0 else (y[0] + 1, 0)


def remainder(x: Range, y: Range) -> Range:
    """Return the range of a remainder with the dividend's sign."""
    if y[0] <= 0 <= y[1]:
        return ANYTHING
    most = max(abs(y[0]), abs(y[1])) - 1
    return (-most if x[0] < 0 else 0), (most if x[1] > 0 else 0)


def clamped(x: Range, low: Range | None = None, high: Range | None = None) -> Range:
    if low is not None:
        x = max(x[0], low[0]), max(x[1], low[1])
    return x if high is None else (min(x[0], high[0]), min(x[1], high[1]))


def conjunction(x: Range, y: Range) -> Range:
    """Return the range of a bitwise and: of two numbers, one of which is not negative."""
    bounds = [high for low, high in (x, y) if low >= 0]
    return (0, min(bounds)) if bounds else ANYTHING


def magnitude(x: Range, *_: object) -> Range:
    low = 0 if x[0] <= 0 <= x[1] else min(abs(x[0]), abs(x[1]))
    return low, max(abs(x[0]), abs(x[1]))


def first(x: Range, *_: object) -> Range:
    return x


def listed(items: Sequence[Range], *_: object) -> Range:
    return union(*items)


def truth(*_: object) -> Range:
    return TRUTH


def counted(start: Range, end: Range, *_: object) -> Range:
    """Return the range of numbers from `start` on, without `end`."""
    return union(start, end) if is_finite(start, end) else ANYTHING


def written_or_added(x: Range, indices: object, values: Range, accumulate: Range) -> Range:
    return union(x, values) if accumulate == (0, 0) else ANYTHING


def numbers(value: Any) -> Range:
    return value if isinstance(value, tuple) else ANYTHING


# Operators by name, without namespace and overload. A rule gets an argument's range, a list of
# ranges, or whatever else the argument is.
RULES: dict[str, Rule] = {
    **dict.fromkeys(
        (
            *("alias_copy", "as_strided_copy", "clone", "_clone_dim_order", "detach_copy"),
            *("diagonal_copy", "et_view", "expand_copy", "flip", "gather", "index", "index_select"),
            *("lift_fresh_copy", "permute", "permute_copy", "permuted_view", "prepack", "repeat"),
            *("select_copy", "slice_copy", "split_copy", "split_with_sizes_copy", "squeeze_copy"),
            *("t_copy", "transpose_copy", "unbind_copy", "unfold_copy", "unsqueeze_copy", "view"),
            *("view_copy", "_to_copy", "_to_dim_order_copy", "amax", "amin"),
        ),
        first,
    ),
    **dict.fromkeys(("cat", "stack"), listed),
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge"), truth),
    **dict.fromkeys(("logical_and", "logical_or", "logical_xor", "logical_not"), truth),
    **dict.fromkeys(("copy", "copy_", "full_like"), lambda x, y, *_: numbers(y)),
    **dict.fromkeys(("index_put", "index_put_"), written_or_added),
    **dict.fromkeys(("select_scatter", "slice_scatter"), lambda x, y, *_: union(x, y)),
    **dict.fromkeys(("scatter", "index_copy", "index_fill"), lambda x, dim, at, y: union(x, y)),
    "arange": counted,
    "constant_pad_nd": lambda x, pad, value=(0, 0): union(x, numbers(value)),
    "where": lambda condition, x, y: union(x, y),
    "masked_fill": lambda x, mask, value: union(x, value),
    "add": added,
    "sub": subtracted,
    "rsub": lambda x, y, alpha=(1, 1): subtracted(y, x, alpha),
    "mul": lambda x, y: corners(lambda a, b: a * b, x, y),
    "div": quotient,
    "floor_divide": quotient,
    "remainder": modulo,
    "fmod": remainder,
    "neg": lambda x: (-x[1], -x[0]),
    "abs": magnitude,
    "clamp": clamped,
    "clamp_min": clamped,
    "clamp_max": lambda x, high: clamped(x, None, high),
    "maximum": lambda x, y: (max(x[0], y[0]), max(x[1], y[1])),
    "minimum": lambda x, y: (min(x[0], y[0]), min(x[1], y[1])),
    "bitwise_and": conjunction,
}
SUMS = {"sum", "cumsum"}
# Operators that give places in their first argument, and operators that give values and places.
PLACES = {"argmax", "argmin", "argsort", "nonzero"}
WITH_VALUES = {
    *("cummax", "cummin", "kthvalue", "max", "median", "min", "sort", "topk"),
    *("max_pool2d_with_indices", "max_pool3d_with_indices"),
}
OF_TWO = {"max": "maximum", "min": "minimum"}  # what their overloads without a dim mean


def short_name(name: str) -> str:
    """Return the name of an operator without namespace and overload."""
    return name.replace("::", ".").partition(".")[2].partition(".")[0]


def has_rule(name: str) -> bool:
    return short_name(name) in RULES.keys() | SUMS | PLACES | WITH_VALUES


def result_range(name: str, arguments: Sequence[Any], elements: int, number: int) -> Range:
    """Return the range of output `number` of a call, if it is an integer.

    The first tensor has `elements`.
    """
    short = short_name(name)
    if short in PLACES or (short in WITH_VALUES and number == 1):
        return (0, max(elements - 1, 0))
    try:
        if short in OF_TWO and "dim" not in name and len(arguments) > 1:
            short = OF_TWO[short]
        elif short in WITH_VALUES:
            return numbers(arguments[0])
        if short in SUMS:
            low, high = arguments[0]
            known = is_finite((low, high))
            return (min(0, elements * low), max(0, elements * high)) if known else ANYTHING
        rule = RULES.get(short)
        return ANYTHING if rule is None else numbers(rule(*arguments))
    except (IndexError, TypeError, ValueError):  # an argument of a kind that the rule does not know
        return ANYTHING


def of_type(dtype: DType) -> Range:
    return _OF_TYPE.get(dtype.name, ANYTHING)


def of_array(array: np.ndarray) -> Range:
    return (int(array.min()), int(array.max())) if array.size else (0, 0)


async def read_constants(method: MethodContents) -> Constants:
    """Read the ranges of small constants of integers in delegates, if kernels may need them."""
    if not any(isinstance(i, KernelCall) for i in method.plan.instructions):
        return {}
    found = {}
    for number, graph in enumerate(method.graphs):
        for tensor in [] if graph is None or not gives_integers(graph) else graph.tensors():
            constant, whole = tensor.constant, tensor.dtype.stored == "int32"
            if constant is None or not whole or not 0 < tensor.file_bytes <= MOST_READ:
                continue
            if constant.region.size:
                data = await constant.region.read(0, tensor.file_bytes)
                found[number, tensor.id] = of_array(tensor.dtype.from_bytes(data))
    return found


def gives_integers(graph: Graph) -> bool:
    """Return whether an output is an integer: exporters narrow int64 to int32 in delegates."""
    values = (graph.values[value_id] for value_id in graph.outputs)
    return any(isinstance(v, Tensor) and v.dtype.stored == "int32" for v in values)


class IntegerRanges:
    """The ranges of the values of a method, by index."""

    def __init__(self, method: MethodContents, state: State, constants: Constants) -> None:
        """Take the ranges of constants in delegates, by the numbers of the delegate and value."""
        self._method, self._plan, self._constants = method, method.plan, constants
        self._writes = Writes(method)
        self._found: dict[int, Range] = {}
        self._given = initial = {i: self._initial(i, cell) for i, cell in state.items()}
        for _ in range(ROUNDS):
            if (grown := self._after_call(initial)) == self._given:
                return
            self._given = grown
        # It may grow for ever: a call makes a range of anything, which the next call gets.
        self._given = {index: self._bounds(index) for index in initial}
        self._given = self._after_call(initial)
        self._walk()

    def _after_call(self, initial: Mapping[int, Range]) -> dict[int, Range]:
        """Return the ranges of buffers after calls that begin with the current ones."""
        self._walk()
        return {index: union(found, self._found[index]) for index, found in initial.items()}

    def __getitem__(self, index: int) -> Range:
        found = self._found.get(index, self._bounds(index))
        return union(found, self._given[index]) if index in self._given else found

    def is_exact(self, kernel: PortableKernel, call: KernelCall) -> bool:
        """Return whether a call of integers computes the same with 32 bits as on the host."""
        if not has_rule(kernel.name):
            return False
        taken = call.args[: kernel.arguments]
        given = {*taken, *(item for index in taken for item in self._items(index))}
        arguments = [self.argument(index) for index in taken]
        results = [
            result_range(kernel.name, arguments, self._elements(taken), number)
            for number, index in enumerate(targets(self._plan, kernel, call))
            if self._is_integer(index)
        ]
        scalars = (self._plan.values[index] for index in given)
        return (
            all(map(fits, results))
            and all(fits(self[index]) for index in given if self._is_integer(index))
            # A number becomes a float32 tensor for operators of two tensors.
            and all(
                float(n).is_integer() and abs(n) <= EXACT_FLOATS
                for n in scalars
                if isinstance(n, int | float)
            )
        )

    def _items(self, index: int) -> Sequence[int]:
        value = self._plan.values[index]
        if not isinstance(value, TensorList | OptionalTensorList):
            return ()
        return [item for item in value.items if item >= 0]

    def _is_integer(self, index: int) -> bool:
        value = self._plan.values[index]
        if not isinstance(value, TensorMeta):
            return False
        return not dtype_of_program(value.scalar_type, f"value {index}").is_float

    def _initial(self, index: int, cell: Cell) -> Range:
        return of_array(cell.array) if cell.dtype.name == "int64" else self._bounds(index)

    def _bounds(self, index: int) -> Range:
        """Return the range of a value's type."""
        value = self._plan.values[index]
        if isinstance(value, bool | int | float):
            return ANYTHING if index in self._writes else (value, value)
        if not isinstance(value, TensorMeta):
            return ANYTHING
        return of_type(dtype_of_program(value.scalar_type, f"value {index}"))

    def _walk(self) -> None:
        """Visit the instructions in order; with jumps, nothing is known."""
        self._found = dict(self._given)
        for instruction in self._plan.instructions:
            if isinstance(instruction, KernelCall):
                self._visit_kernel(instruction)
            elif isinstance(instruction, DelegateCall):
                self._visit_delegate(instruction)
            elif not isinstance(instruction, FreeCall):
                self._found = self._given = {i: self._bounds(i) for i in self._given}
                return

    def argument(self, index: int) -> Any:
        """Return an argument for a rule: a range, a list of ranges, None, or something else."""
        value = self._plan.values[index]
        if isinstance(value, IntListRef | TensorList | OptionalTensorList):
            return [None if item < 0 else self[item] for item in value.items]
        if value is None or isinstance(value, str):
            return value
        return self[index]

    def _visit_kernel(self, call: KernelCall) -> None:
        kernel = lookup_kernel(self._plan.operators[call.op_index].full_name)
        if kernel is None:
            return
        taken = call.args[: kernel.arguments]
        arguments = [self.argument(index) for index in taken]
        for number, index in enumerate(targets(self._plan, kernel, call)):
            found = result_range(kernel.name, arguments, self._elements(taken), number)
            self._found[index] = self._within(index, found)

    def _elements(self, indices: Iterable[int]) -> int:
        values = (self._plan.values[index] for index in indices)
        return next((numel(v.sizes) for v in values if isinstance(v, TensorMeta)), 0)

    def _within(self, index: int, found: Range) -> Range:
        """Return a range, or the range of the value's type if the value can have wrapped."""
        bounds = self._bounds(index)
        return found if fits(found, bounds) else bounds

    def _visit_delegate(self, call: DelegateCall) -> None:
        graph = self._method.graphs[call.delegate_index]
        if graph is None:
            return
        if not gives_integers(graph):
            return
        count, number = len(graph.inputs), call.delegate_index
        constants = {i: found for (at, i), found in self._constants.items() if at == number}
        inside = _GraphRanges(graph, [self[index] for index in call.args[:count]], constants)
        for index, value_id in zip(call.args[count:], graph.outputs, strict=True):
            self._found[index] = inside[value_id]


class _GraphRanges:
    """The ranges of the values of a delegate's graph, whose int64 values are words."""

    def __init__(
        self, graph: Graph, given: Sequence[Range], constants: Mapping[int, Range]
    ) -> None:
        self._graph = graph
        changed = {value_id for call in graph.calls for value_id in self._changed(call)}
        self._found = {i: found for i, found in constants.items() if i not in changed}
        for value_id, found in zip(graph.inputs, given, strict=True):
            self._store(value_id, found)
        for call in graph.calls:
            self._visit(call)

    def __getitem__(self, value_id: int) -> Range:
        if value_id in self._found:
            return self._found[value_id]
        value = self._graph.values[value_id]
        if isinstance(value, IntValue | DoubleValue | BoolValue):
            return (value.value, value.value)
        return self._bounds(value_id)

    def _bounds(self, value_id: int) -> Range:
        value = self._graph.values[value_id]
        if not isinstance(value, Tensor):
            return ANYTHING
        return WORD if value.dtype.name == "int64" else of_type(value.dtype)

    def _store(self, value_id: int, found: Range) -> None:
        bounds = self._bounds(value_id)
        self._found[value_id] = found if fits(found, bounds) else bounds

    def _argument(self, value_id: int) -> Any:
        value = self._graph.values[value_id]
        if isinstance(value, ValueListValue):
            return [self[item] for item in value.items]
        known = isinstance(value, Tensor | IntValue | DoubleValue | BoolValue)
        return self[value_id] if known else getattr(value, "value", None)

    def _changed(self, call: Call) -> tuple[int, ...]:
        """Return the values that a call may change, beside its outputs."""
        definition = definition_of(call)
        known = call.name == PREPACK or definition is not None
        mutates = not known or call.parts or (definition is not None and definition.mutates)
        return self._graph.expand(call.args) if mutates else call.args[-1:]

    def _visit(self, call: Call) -> None:
        *taken, last = call.args
        changed = self._changed(call)
        if len(changed) > 1:
            self._found |= {value_id: self._bounds(value_id) for value_id in changed}
            return
        arguments = [self._argument(value_id) for value_id in taken]
        tensors = (self._graph.values[value_id] for value_id in taken)
        elements = next((numel(v.dims) for v in tensors if isinstance(v, Tensor)), 0)
        value = self._graph.values[last]
        outputs = value.items if isinstance(value, ValueListValue) else (last,)
        for number, value_id in enumerate(outputs):
            self._store(value_id, result_range(call.name, arguments, elements, number))

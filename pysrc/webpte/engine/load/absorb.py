"""Moves the numbers that a method computes on the host into its only graph.

Exports for XNNPACK compute sizes and positions by kernels: the number of tokens, the first of the
positions, their sum, the positions as floats. Once the delegates are one graph, these kernels alone
stand between the inputs and the graph. The graph then takes the method's inputs, and has calls for
the numbers, as programs for Vulkan have: the method is a single delegate, whose next step can be
submitted before the host has seen the token.

A kernel that is not known here leaves the method unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from webpte.engine.dtypes import dtype_of_program
from webpte.engine.format.program import (
    DelegateCall,
    FreeCall,
    Instruction,
    KernelCall,
    TensorMeta,
)
from webpte.engine.format.vulkan import SymIntValue, ValueListValue
from webpte.engine.graph.graph import Constant, Graph, Tensor
from webpte.engine.graph.graph_writer import GraphWriter, LiveSize
from webpte.engine.load.offload_call import constant_of
from webpte.engine.load.program_file import MethodContents
from webpte.engine.load.state import State
from webpte.engine.load.writes import Writes
from webpte.engine.ops.move.symint import ARITHMETIC, SELECT_AS_SYMINT

SIZE, ELEMENT = "aten::sym_size.int", "aten::_local_scalar_dense"
SELECT, UNSQUEEZE = "aten::select_copy.int_out", "aten::unsqueeze_copy.out"
CAST = "aten::_to_copy.out"
ARITHMETIC_KERNELS = {f"executorch_prim::{name}.Scalar": name for name in ARITHMETIC}
SELECT_OP, COMPARED = "aten.select_copy.int", ("lt", "le", "gt", "ge")
POSITIONS = frozenset({"int64", "int32"})
FROM_NUMBER = "aten::scalar_tensor.out"
# Operators for kernels of integers and masks; each argument is a tensor (t) or a number (n).
TENSORS = {
    UNSQUEEZE: ("aten.unsqueeze_copy.default", "tn"),
    CAST: ("aten.alias_copy.default", "t"),
    FROM_NUMBER: (SELECT_OP, ""),
    "aten::arange.start_out": ("aten.arange.start_step", "nnn"),
    "aten::add.out": ("aten.add.Tensor", "ttn"),
    "aten::sub.out": ("aten.sub.Tensor", "ttn"),
    **{f"aten::{name}.Tensor_out": (f"aten.{name}.Tensor", "tt") for name in COMPARED},
}


def absorb(method: MethodContents, state: State) -> MethodContents:
    """Return a method without kernels if all of them give numbers to its only delegate."""
    plan = method.plan
    steps = [i for i in plan.instructions if not isinstance(i, FreeCall)]
    kernels = [i for i in steps if isinstance(i, KernelCall)]
    last = steps[-1] if steps else None
    if not kernels or len(kernels) != len(steps) - 1 or not isinstance(last, DelegateCall):
        return method
    graph = method.graphs[last.delegate_index]
    taken = 0 if graph is None else len(graph.inputs)
    if graph is None or last.args[taken:] != plan.outputs:
        return method
    changed = _Absorber(method, state, kernels, graph).absorbed(last.args[:taken])
    if changed is None:
        return method
    at, graphs = last.delegate_index, list(method.graphs)
    graphs[at] = changed
    chain: tuple[Instruction, ...] = (replace(last, args=(*plan.inputs, *plan.outputs)),)
    names = (plan.operators[kernel.op_index].full_name for kernel in kernels)
    return replace(
        method,
        plan=replace(plan, chains=(chain,)),
        graphs=tuple(graphs),
        stitched={**method.stitched, at: (*names, *method.steps(at))},
        hosted={},
    )


@dataclass(frozen=True)
class _Elements:
    """Elements of an input with a single dim: all of them, or the `picked` element.

    axes  for each dim, whether it has the elements; other dims have the size 1
    """

    source: int
    axes: tuple[bool, ...] = (True,)
    picked: int | None = None

    def selected(self, dim: int, index: int) -> _Elements | None:
        if not -len(self.axes) <= dim < len(self.axes):
            return None
        at = dim % len(self.axes)
        rest = (*self.axes[:at], *self.axes[at + 1 :])
        if self.axes[at]:
            return replace(self, axes=rest, picked=index)
        return replace(self, axes=rest) if index in (0, -1) else None

    def unsqueezed(self, dim: int) -> _Elements | None:
        if not -len(self.axes) - 1 <= dim <= len(self.axes):
            return None
        at = dim % (len(self.axes) + 1)
        return replace(self, axes=(*self.axes[:at], False, *self.axes[at:]))


class _Absorber(GraphWriter):
    """Writer of a graph with calls for the kernels before it."""

    def __init__(
        self, method: MethodContents, state: State, kernels: Iterable[KernelCall], graph: Graph
    ) -> None:
        super().__init__()
        self._plan, self._state, self._graph = method.plan, state, graph
        self.values = list(graph.values)
        self._writes = Writes(method)
        self._writers: dict[int, list[KernelCall]] = {}
        for kernel in kernels:
            self._writers.setdefault(kernel.args[-1], []).append(kernel)
        self._inputs: dict[int, Tensor] = {}  # by input of the method
        self._tensors: dict[int, Tensor] = {}  # by other tensors of the method
        self._numbers: dict[tuple[object, ...], LiveSize] = {}  # by the call that gives them
        self._cast: set[int] = set()  # inputs whose elements become floats
        self._read: set[int] = set()  # inputs that are positions or indices

    def absorbed(self, args: Sequence[int]) -> Graph | None:
        """Return the graph with the method's inputs, or None if a kernel is not known.

        `args` are the values of the method that the graph takes.
        """
        graph, pairs = self._graph, list(zip(args, self._graph.inputs, strict=True))
        for index in self._plan.inputs:
            taken = next((value_id for other, value_id in pairs if other == index), None)
            found = self._new(index) if taken is None else graph.value(taken)
            if not isinstance(found, Tensor):
                return None
            self._inputs[index] = found
            if taken is not None:
                self._read.add(index)
        known: dict[int, int] = {}
        for index, value_id in pairs:
            made = self._number(index) if graph.is_symint(value_id) else self._tensor(index)
            wanted = graph.value(value_id)
            if isinstance(made, Tensor) and isinstance(wanted, Tensor):
                same = (made.dtype, made.dims) == (wanted.dtype, wanted.dims)
            else:
                same = isinstance(made, int | LiveSize)
            if not same:
                return None
            known[value_id] = self.add(made)
        # Floats are exact for positions in a cache; of other integers nothing is known.
        return self._replaced(known) if self._cast <= self._read else None

    def _replaced(self, known: Mapping[int, int]) -> Graph:
        """Return the graph after the new calls, with other ids for its old inputs."""
        for value_id, value in enumerate(self.values):
            if isinstance(value, ValueListValue):
                items = tuple(known.get(item, item) for item in value.items)
                self.values[value_id] = ValueListValue(items)
        for call in self._graph.calls:
            args = tuple(known.get(value_id, value_id) for value_id in call.args)
            self.calls.append(replace(call, index=len(self.calls), args=args))
        inputs = [self._inputs[index].id for index in self._plan.inputs]
        return self.written(inputs, [known.get(i, i) for i in self._graph.outputs])

    def _writer(self, index: int) -> tuple[str, tuple[int, ...]]:
        """Return name and arguments of the only kernel that writes a value; "", () without one."""
        writers = self._writers.get(index, [])
        if len(writers) != 1 or len(writers[0].args) < 2:
            return "", ()
        return self._plan.operators[writers[0].op_index].full_name, writers[0].args

    def _integer(self, index: int) -> int | None:
        """Return an integer of the file."""
        value = self._plan.values[index]
        fixed = index not in self._writers and not isinstance(value, bool)
        return int(value) if isinstance(value, int) and fixed else None

    # Numbers

    def _number(self, index: int) -> int | LiveSize | None:
        """Return a number of the method: an integer of the file, or a SymInt."""
        name, args = self._writer(index)
        if name == SIZE:
            source, dim = self._inputs.get(args[0]), self._integer(args[1])
            known = source is not None and dim is not None
            return self._symint("sym_size.int", source, dim) if known else None
        if name == ELEMENT:
            found = self._elements(args[0])
            single = found is not None and self._inputs[found.source].dims == (1,)
            if found is None or (any(found.axes) and not single):
                return None
            self._read.add(found.source)
            place = 0 if single else found.picked
            return self._symint(SELECT_AS_SYMINT, self._inputs[found.source], 0, place)
        if name in ARITHMETIC_KERNELS:
            terms = [self._number(i) for i in args[:2]]
            return None if None in terms else self._symint(ARITHMETIC_KERNELS[name], *terms)
        return self._integer(index)

    def _symint(self, name: str, *args: Tensor | LiveSize | int | None) -> LiveSize:
        """Return the SymInt that a call gives; the same for equal calls."""
        key = (name, *(arg.id if isinstance(arg, Tensor) else arg for arg in args))
        if key not in self._numbers:
            self._numbers[key] = LiveSize(self.append(SymIntValue(0)))
            self.call(name, args, self._numbers[key])
        return self._numbers[key]

    # Tensors

    def _elements(self, index: int) -> _Elements | None:
        """Return the elements of an input that a tensor of the method is a view of."""
        if index in self._inputs:
            tensor = self._inputs[index]
            listed = len(tensor.dims) == 1 and tensor.dtype.name in POSITIONS
            return _Elements(index) if listed else None
        name, args = self._writer(index)
        source = self._elements(args[0]) if name in (SELECT, UNSQUEEZE) else None
        numbers = [self._integer(i) for i in args[1:3]]
        if source is None or numbers[0] is None:
            return None
        if name == UNSQUEEZE:
            return source.unsqueezed(numbers[0])
        return None if numbers[1] is None else source.selected(numbers[0], numbers[1])

    def _tensor(self, index: int) -> Tensor | None:
        """Return the tensor of the graph for a tensor of the method."""
        if index in self._inputs:
            return self._inputs[index]
        if index not in self._tensors:
            made = self._constant(index) or self._computed(index)
            if made is None:
                return None
            self._tensors[index] = made
        return self._tensors[index]

    def _constant(self, index: int) -> Tensor | None:
        data = constant_of(self._plan, self._state, self._writes, index)
        return None if data is None else self._new(index, data)

    def _new(self, index: int, constant: Constant | None = None) -> Tensor | None:
        value = self._plan.values[index]
        if not isinstance(value, TensorMeta) or value.is_unbounded:
            return None
        dtype = dtype_of_program(value.scalar_type, f"value {index}")
        return self.new_tensor(dtype, value.sizes, constant)

    def _computed(self, index: int) -> Tensor | None:
        """Add the call for a kernel that gives a tensor; None if the kernel is not known."""
        name, given = self._writer(index)
        if name == CAST and self._writer(given[0])[0] == FROM_NUMBER:
            name, given = self._writer(given[0])  # a position as a float, and back
        op, kinds = TENSORS.get(name, ("", ""))
        args: list[Tensor | LiveSize | int | None] = [
            self._tensor(i) if kind == "t" else self._number(i)
            for kind, i in zip(kinds, given, strict=False)
        ]
        if name == FROM_NUMBER and self._writer(given[0])[0] == ELEMENT:
            # a picked position, as a tensor again
            found = self._elements(self._writer(given[0])[1][0])
            args = [] if found is None else [self._inputs[found.source], 0, found.picked or 0]
        out = None if not args or None in args else self._new(index)
        if out is None:
            return None
        first = args[0]
        if name == CAST and isinstance(first, Tensor) and first.dtype != out.dtype:
            found = self._elements(given[0])
            if found is None or found.picked is not None or out.dtype.name != "float32":
                return None
            self._cast.add(found.source)
            op = "aten._to_copy.default"
        elif out.dtype.name not in (*POSITIONS, "bool"):
            return None
        self.call(op, args, out)
        return out

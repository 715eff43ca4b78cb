"""Fused calls: their shapes, their reference, and how to run them part by part.

`rewrite.fusion` builds a fused call where a single kernel can do the work of several calls, its
parts; families register the kinds of fused calls here, each with its lowering. A fused call's
arguments and outputs are lists:

    inputs    tensors that its parts read         sizes   SymInts that shapes depend on
    changed   tensors that they change in place   live    SymInts that kernels read live

The graph plans no memory for values between the parts. Where no kernel does everything at once (for
other sizes, or on another device), `lower_parts` lowers part by part, with scratch memory for these
values.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from webpte.engine.graph.graph import Call
from webpte.engine.ops.core.args import Args, TensorArg
from webpte.engine.ops.core.records import Binding, Dispatch, Scratch, SymIntBound
from webpte.engine.ops.core.registry import (
    Lowering,
    OpDef,
    definition_of,
    no_bounds,
    register_fused,
)
from webpte.engine.ops.core.signature import parse_signature
from webpte.engine.shapes import Dims
from webpte.errors import GraphError, ResizeError

Array = np.ndarray
Part = tuple[OpDef, Args]

SIGNATURE = parse_signature("inputs: tensors, changed: tensors, sizes: ints, live: any -> tensors")
SMALLEST_SCRATCH = 1 << 12


def register_fusion(name: str, lower: Lowering) -> None:
    """Register a kind of fused call; `lower` may be `lower_parts`."""
    definition = OpDef(
        name,
        SIGNATURE,
        shape=fused_shape,
        lower=lower,
        reference=run_parts,
        mutates=("changed",),
        bounds=fused_bounds,
    )
    register_fused(name, definition)


def definition(call: Call) -> OpDef:
    op = definition_of(call)
    if op is None:
        raise GraphError(f"{call}: the operator is unknown")
    return op


def parts_of(args: Args, arrays: dict[int, Array] | None = None) -> Iterator[Part]:
    """Yield the parts of a fused call with their arguments."""
    for call in args.call.parts:
        op = definition(call)
        yield op, args.of_part(op.signature, call, arrays)


def is_view(op: OpDef, part: Args) -> bool:
    """Return whether a part returns its input's elements under another shape."""
    return op.alias_of is not None and part.tensor(op.alias_of).dtype == part.out.dtype


def fused_shape(args: Args) -> list[Dims]:
    """Return the dims of the outputs; set the live dims of all values that parts read."""
    outs = {out.id: out.dims for out in args.outs}
    last = args.outs[-1].id
    for op, part in parts_of(args):
        for out, dims in zip(part.outs, op.shape(part), strict=True):
            if out.id in outs:
                outs[out.id] = tuple(dims)
            if out.id == last:  # no part reads it
                continue
            try:
                args.set_inner_dims(out.id, tuple(dims))
            except ResizeError as error:
                raise ResizeError(f"{part.call}: {error}") from error
    return list(outs.values())


def fused_bounds(args: Args) -> list[SymIntBound]:
    found: list[SymIntBound] = []
    for call in args.call.parts:
        op = definition(call)
        if op.bounds is not no_bounds:  # few parts have any
            found += op.bounds(args.of_part(op.signature, call))
    return found


def run_parts(args: Args) -> list[Array]:
    """Run the parts' references in order, rounding each result to its dtype."""
    arrays = dict(args.all_arrays)
    for op, part in parts_of(args, arrays):
        results = op.reference(part)
        if isinstance(results, np.ndarray | np.generic):
            results = [np.asarray(results)]
        for out, result in zip(part.outs, results, strict=True):
            rounded = out.dtype.cast(result)
            half = rounded.dtype == np.float16
            arrays[out.id] = rounded.astype(np.float32) if half else rounded
    return [arrays[out.id] for out in args.outs]


@dataclass(frozen=True)
class FusedStep:
    """Parts to lower in order, or at once if `lower` returns dispatches for all of them."""

    parts: tuple[Part, ...]
    lower: Callable[[Sequence[Part]], list[Dispatch] | None] | None = None


def single_steps(parts: Iterable[Part]) -> list[FusedStep]:
    """Return a step per part."""
    return [FusedStep((part,)) for part in parts]


class PartMemory:
    """Scratch memory for values between the parts; views share their source's."""

    def __init__(self, args: Args, steps: Sequence[FusedStep] | None = None) -> None:
        steps = single_steps(parts_of(args)) if steps is None else steps
        self._target = args.target
        self._kept = {out.id for out in args.outs}
        self._roots: dict[int, int] = {}
        self._last: dict[int, int] = {}  # root to the last step that reads it
        self._slot_of: dict[int, int] = {}
        self._places: dict[int, Scratch] = {}
        for index, (op, part) in [(i, part) for i, step in enumerate(steps) for part in step.parts]:
            for value_id in part.tensor_ids:
                self._last[self.root(value_id)] = index
            if is_view(op, part) and part.out.id not in self._kept:
                source = part.tensor(op.alias_of or "").id
                self._roots[part.out.id] = self.root(source)

    def root(self, value_id: int) -> int:
        return self._roots.get(value_id, value_id)

    def is_alias(self, value_id: int) -> bool:
        return value_id in self._roots

    def is_read_after(self, value_id: int, index: int) -> bool:
        return self._last.get(value_id, -1) > index

    def add(self, out: TensorArg, index: int) -> None:
        """Allocate scratch for an output of step `index`; reuse slots after their last read."""
        if out.id in self._kept or out.id in self._roots:
            return
        taken = {slot for i, slot in self._slot_of.items() if self._last.get(i, -1) >= index}
        slot = next(i for i in range(len(taken) + 1) if i not in taken)
        least = min(SMALLEST_SCRATCH, self._target.binding_bytes)
        needed = max(out.numel * out.dtype.storage.itemsize, least)
        nbytes = self._target.scratch_bytes(needed)
        self._slot_of[out.id] = slot
        self._last.setdefault(out.id, index)
        self._places[out.id] = Scratch(f"between parts {slot}", nbytes)

    def place(self, binding: Binding) -> Binding:
        """Return the binding to use for a value: its scratch memory, or its view's source."""
        if not isinstance(binding, int):
            return binding
        root = self.root(binding)
        return self._places.get(root, root)


def lower_parts(args: Args, steps: Sequence[FusedStep] | None = None) -> list[Dispatch]:
    """Lower the parts in order, or by `steps`, which may lower several parts at once."""
    steps = single_steps(parts_of(args)) if steps is None else steps
    between, dispatches = PartMemory(args, steps), list[Dispatch]()
    for index, step in enumerate(steps):
        outs = {out.id: out for _, part in step.parts for out in part.outs}
        found = step.lower(step.parts) if step.lower else None
        if found is None:
            found = [
                dispatch
                for op, part in step.parts
                if not any(between.is_alias(out.id) for out in part.outs)
                for dispatch in op.lower(part)
            ]
        bound = {b for dispatch in found for b in dispatch.bindings if isinstance(b, int)}
        for value_id, out in outs.items():
            # No dispatch writes an empty value, but a dispatch may still bind it.
            if value_id in bound or between.is_read_after(value_id, index):
                between.add(out, index)
        dispatches += [
            replace(dispatch, bindings=tuple(map(between.place, dispatch.bindings)))
            for dispatch in found
        ]
    return dispatches


def grouped(
    parts: Sequence[Part],
    names: Collection[str],
    lower: Callable[[Sequence[Part]], list[Dispatch] | None],
) -> list[FusedStep]:
    """Return steps with the parts of these names in a single step, if they can run together."""
    return gathered(parts, [i for i, (op, _) in enumerate(parts) if op.name in names], lower)


def gathered(
    parts: Sequence[Part],
    places: Collection[int],
    lower: Callable[[Sequence[Part]], list[Dispatch] | None],
) -> list[FusedStep]:
    """Return steps with the parts at these places in a single step, if they can run together."""
    inside = [part for i, part in enumerate(parts) if i in places]
    given = {out.id for _, part in inside for out in part.outs}
    before, after, later = list[Part](), list[Part](), set[int]()
    for i, (op, part) in enumerate(parts):
        if i in places:
            if not later.isdisjoint(part.tensor_ids):
                return single_steps(parts)
        elif (given | later).isdisjoint(part.tensor_ids):
            before.append((op, part))
        else:
            after.append((op, part))
            later |= {out.id for out in part.outs}
    return [*single_steps(before), FusedStep(tuple(inside), lower), *single_steps(after)]

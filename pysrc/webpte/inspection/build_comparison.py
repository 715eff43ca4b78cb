"""Builds the result of `Program.compare` from the records of a comparing run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from webpte.engine.call.info import MethodInfo, TensorInfo
from webpte.engine.files.arrays import read_array_file
from webpte.errors import InputError
from webpte.inspection.recorder import Arrays, CheckedCall, ValueRecorder
from webpte.inspection.report import (
    CallComparison,
    Comparison,
    FirstMismatch,
    KeptValues,
    MethodGraph,
    NamedArray,
    Node,
    OutputComparison,
)
from webpte.inspection.report.difference import Tolerance, difference, facts_of, window
from webpte.inspection.report.method_graph import key_of


def build_comparison(
    graph: MethodGraph,
    recorder: ValueRecorder,
    device: str,
    outputs: Sequence[OutputComparison],
) -> Comparison:
    """Build the comparison, with calls named as in the graph."""
    nodes = {(node.place, node.call): node for node in graph.nodes}
    calls = [_call(nodes[each.place, each.call], each) for each in recorder.calls]
    pairs = list(zip(calls, recorder.calls, strict=True))
    nan = next((c for c, each in pairs if each.nans and not each.given[0]), None)
    infinity = next((c for c, each in pairs if each.infinities and not each.given[1]), None)
    return Comparison(
        graph.program,
        graph.method,
        device,
        recorder.tolerance,
        tuple(calls),
        _first_mismatch(nodes, calls, recorder),
        nan,
        infinity,
        tuple(outputs),
        kept_of(graph, recorder),
    )


def kept_of(graph: MethodGraph, recorder: ValueRecorder) -> dict[int, KeptValues]:
    """Map nodes to the arrays that were kept for them."""
    nodes = {(node.place, node.call): node for node in graph.nodes}
    return {nodes[key].id: _kept(nodes[key], *arrays) for key, arrays in recorder.kept.items()}


def calls_of(graph: MethodGraph, nodes: Iterable[int], argument: str) -> set[tuple[int, int]]:
    """Return the calls of nodes: the instruction of the method, and the index inside of it.

    `argument` is the name of the caller's argument, for errors.
    """
    found = set()
    for number in nodes:
        node = graph.nodes[number] if 0 <= number < len(graph.nodes) else None
        if node is None or node.call is None:
            raise InputError(
                f"{argument}={number}: no call inside of a delegate; `graph.nodes` has the ids of "
                "those"
            )
        found.add((node.place, node.call))
    return found


def _kept(node: Node, inputs: Arrays, outputs: Arrays) -> KeptValues:
    return KeptValues(_named(node, inputs), _named(node, outputs))


def _named(node: Node, arrays: Arrays) -> tuple[NamedArray, ...]:
    return tuple(
        NamedArray(key_of(node, value_id), facts_of(array), array)
        for value_id, array in arrays.items()
    )


def _call(node: Node, each: CheckedCall) -> CallComparison:
    found = (each.own, each.drift, each.nans, each.infinities)
    return CallComparison(node.id, node.op, node.label, node.where, node.layer, *found)


def _first_mismatch(
    nodes: Mapping[tuple[int, int | None], Node],
    calls: Sequence[CallComparison],
    recorder: ValueRecorder,
) -> FirstMismatch | None:
    first = recorder.first
    if first is None:
        return None
    node = nodes[first.place, first.call.index]
    call = next(c for c in calls if c.node == node.id and c.own and not c.own.agrees)
    assert call.own is not None
    inputs = _named(node, first.inputs)
    around = window(first.actual, first.wanted, call.own.worst)
    output = key_of(node, first.output)
    return FirstMismatch(call, output, around, inputs, first.actual, first.wanted)


# Expected outputs


def expected_outputs(info: MethodInfo, expected: Any) -> list[np.ndarray | None]:
    """Return an array for each output of a method, or None for an output without expectation.

    expected  a sequence in the order of the outputs, a mapping from their names, or the path of an
              `.npy` or `.npz` file
    """
    names = [output.name for output in info.outputs]
    if isinstance(expected, str | Path):
        expected = _read(Path(expected))
    if isinstance(expected, np.ndarray):
        expected = [expected]
    if isinstance(expected, Mapping):
        if unknown := sorted(expected.keys() - set(names)):
            raise InputError(
                f"expected has {', '.join(unknown)}; method {info.name!r} gives {', '.join(names)}"
            )
        expected = [expected.get(name) for name in names]
    listed = list(expected)
    if len(listed) != len(names):
        raise InputError(
            f"{len(listed)} expected outputs, but method {info.name!r} gives {len(names)}"
        )
    return [None if value is None else np.asarray(value) for value in listed]


def _read(path: Path) -> Any:
    found = read_array_file(path)
    if isinstance(found, np.ndarray):
        return [found]
    named = all(name.startswith("output") for name in found)
    return found if named else list(found.values())


def compare_outputs(
    info: MethodInfo,
    outputs: Sequence[Any],
    expected: Sequence[np.ndarray | None],
    tolerance: Tolerance,
) -> list[OutputComparison]:
    """Compare the outputs for which arrays are expected."""
    found = []
    for each, output, wanted in zip(info.outputs, outputs, expected, strict=True):
        if wanted is not None and isinstance(each, TensorInfo):
            off = difference(output, wanted, tolerance)
            around = window(output, wanted, off.worst) if off.worst else None
            found.append(OutputComparison(each.name, off, around, output, wanted))
    return found

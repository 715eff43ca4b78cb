"""The graph of a compiled plan: its dispatches and the bytes between them; wrong descriptions."""

from __future__ import annotations

import asyncio
import copy
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import webpte
from webpte.compiling.dispatch_graph import dispatch_graph, planned_methods
from webpte.compiling.read_compiled import (
    MOST_BINDINGS,
    CompiledFiles,
    read_compiled,
    read_description,
)
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.errors import DescriptionError, UnsupportedError
from webpte.inspection.report import MethodGraph
from webpte_host.base.layout import ROOT

SAMPLES = ROOT / "web" / "samples"
Table = dict[str, Any]


def files_of(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> CompiledFiles:
    out = tmp_path_factory.mktemp("compiled") / "digits"
    asyncio.run(webpte.compile(SAMPLES / "digits.pte", out))
    return read_compiled(files_of(out), "digits")


def graph_of(table: Table) -> MethodGraph:
    checked = read_description(json.dumps(table).encode(), "program.json")
    files = CompiledFiles("some", {"program.json": checked}, {})
    (method,) = planned_methods(checked)
    return dispatch_graph(files, "program.json", method, 0)


def ends(graph: MethodGraph) -> list[tuple[int | None, int | None]]:
    return [(edge.source, edge.target) for edge in graph.edges]


def test_the_dispatches_of_a_model_are_its_calls_on_the_gpu(digits: CompiledFiles) -> None:
    async def planned() -> MethodGraph:
        async with await webpte.load(SAMPLES / "digits.pte", device=SimulatedDevice()) as program:
            return program.graph("forward")

    calls = [node for node in asyncio.run(planned()).nodes if node.kernels]
    graph = dispatch_graph(digits, "program.json", "forward", 0)
    assert graph.stage == "compiled"
    names = [node.op.split(".")[1] for node in graph.nodes]
    assert len(names) == sum(len(node.kernels) for node in calls)
    assert "linear" in names
    assert names[-1] == "_softmax"
    # A chain, though two buffers take turns.
    chain = [(None, 0), *((at, at + 1) for at in range(len(names) - 1)), (len(names) - 1, None)]
    assert ends(graph) == chain
    (first,), (last,) = graph.inputs, graph.outputs
    assert graph.values[first].shape == (1, 1, 28, 28)
    assert (graph.values[last].dtype, graph.values[last].shape) == ("float32", (1, 10))
    kernel = graph.nodes[0].kernels[0]
    assert "fn main(" in kernel.wgsl
    assert kernel.params["in_size"] == [28, 28]
    assert kernel.overrides["KERNEL_H"] == 3
    told = [one.value for one in graph.nodes[0].arguments if not one.values]
    assert any("288 bytes: digits.pte from " in str(one) for one in told)
    assert {value.kind for value in graph.values.values()} == {
        *("input", "constant", "temporary", "output", "zeros")
    }


def test_a_description_alone_has_no_wgsl(digits: CompiledFiles) -> None:
    alone = CompiledFiles("digits", digits.tables, {})
    kernel = dispatch_graph(alone, "program.json", "forward", 0).nodes[0].kernels[0]
    assert kernel.wgsl == ""
    assert list(kernel.params) == ["as words"]


def written(*dispatches: tuple[list[tuple[str, int, int, int]], str]) -> Table:
    """Return a description with two buffers of 64 bytes; a binding is (access, buffer, offset,
    size). Buffer 0 has the input, buffer 1 the output."""
    kernels = [
        {"label": label, "wgsl": "wgsl/x.wgsl", "bindings": [a for a, *_ in bound], "overrides": {}}
        for bound, label in dispatches
    ]
    plan = {
        "shapes": [[16]], "packed": [[0, "float32"]], "uploads": [[0, 0, 64]], "clears": [],
        "dispatches": [
            [at, [list(place) for _, *place in bound], [1, 1, 1]]
            for at, (bound, _) in enumerate(dispatches)
        ],
        "labels": [label for _, label in dispatches],
        "readbacks": [[1, 64, 0]],
        "results": [{"offset": 0, "dtype": "float32", "stored": "float32", "shape": [16]}],
    }  # fmt: skip
    value = {"name": "x", "dtype": "float32", "shape": [16]}
    return {
        "format": "webpte compiled program", "version": 1, "name": "some", "device": {},
        "files": [], "buffers": [64, 64, 64], "uses": ["storage"] * 3, "contents": [],
        "constants": [], "kernels": kernels,
        "methods": {"forward": {"inputs": [value], "outputs": [value], "plans": [plan]}},
    }  # fmt: skip


def test_parts_of_a_buffer_are_values_of_their_own() -> None:
    graph = graph_of(
        written(
            ([("read", 0, 0, 64), ("write", 2, 0, 32)], "left"),
            ([("read", 0, 0, 64), ("write", 2, 32, 32)], "right"),
            ([("read", 2, 32, 32), ("write", 0, 0, 64)], "of the right"),
            ([("read", 2, 0, 64), ("read", 0, 0, 4), ("write", 1, 0, 64)], "of both"),
        )
    )
    assert set(ends(graph)) == {(None, 0), (None, 1), (1, 2), (0, 3), (1, 3), (2, 3), (3, None)}


def test_a_write_over_what_nothing_has_read_may_keep_it() -> None:
    graph = graph_of(
        written(
            ([("read", 0, 0, 64), ("write", 1, 0, 64)], "first half of a cat"),
            ([("read", 0, 0, 64), ("write", 1, 0, 64)], "second half"),
        )
    )
    assert set(ends(graph)) == {(None, 0), (None, 1), (0, 1), (1, None)}


def test_a_cache_is_state() -> None:
    graph = graph_of(
        written(
            ([("read", 0, 0, 64), ("read", 2, 0, 64), ("write", 1, 0, 64)], "attention"),
            ([("read", 1, 0, 64), ("write", 2, 0, 4)], "update"),
        )
    )
    assert graph.values["buffer 2"].kind == "state"
    assert (0, 1) in ends(graph)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"{", "it is no JSON"),
        (b"\xff\xfe", "it is no JSON"),
        (b"[" * 200_000, "it is no JSON"),
        (b"[1]", "of another format"),
        (b'{"format": "webpte compiled program"}', "it has no version"),
        (b'{"format": "webpte compiled program", "version": 1}', "KeyError: 'buffers'"),
    ],
)
def test_what_is_no_description_is_named(data: bytes, told: str) -> None:
    with pytest.raises(DescriptionError, match=r"program.json describes no") as raised:
        read_compiled({"program.json": data}, "folder")
    assert told in str(raised.value)
    assert raised.value.file == "program.json"


def test_a_folder_without_a_description_is_named() -> None:
    with pytest.raises(DescriptionError, match=r"it has none of software.json, .*program.json"):
        read_compiled({"model.json": b"{}", "wgsl/a.wgsl": b""}, "folder")


def test_a_newer_description_says_what_to_do(digits: CompiledFiles) -> None:
    newer = {**digits.tables["program.json"], "version": 2}
    with pytest.raises(UnsupportedError, match=r"compiled as version 2.*use a newer webpte"):
        read_description(json.dumps(newer).encode(), "program.json")


def test_too_much_to_draw_is_refused() -> None:
    bound = [("read", 0, 0, 4)] * 50 + [("write", 1, 0, 4)]
    with pytest.raises(UnsupportedError, match="buffers; at most"):
        graph_of(written(*[(bound, "x")] * (MOST_BINDINGS // len(bound) + 1)))
    table = written(*[([("write", 1, 4 * at, 4)], "x") for at in range(2000)])
    table["buffers"][1] = 8000
    with pytest.raises(UnsupportedError, match="more than 1,000 pieces"):
        graph_of(table)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each container with each of its keys."""
    inside = value.items() if isinstance(value, dict) else enumerate(value)
    for key, one in list(inside):
        yield value, key
        if isinstance(one, dict | list):
            yield from places(one)


HOSTILE: tuple[object, ...] = (None, -1, 2**63, 1e308, "x", True, [], {}, [[]], sys.maxsize)


@pytest.mark.parametrize("value", HOSTILE, ids=repr)
def test_a_hostile_description_is_read_or_refused(digits: CompiledFiles, value: object) -> None:
    table = copy.deepcopy(digits.tables["program.json"])
    found = list(places(table))
    refused = 0
    for container, key in found[:: max(1, len(found) // 250)]:
        before, container[key] = container[key], value
        try:
            for method in planned_methods(read := read_description(_text(table), "program.json")):
                files = CompiledFiles("some", {"program.json": read}, {})
                dispatch_graph(files, "program.json", method, 0)
        except (DescriptionError, UnsupportedError):
            refused += 1
        container[key] = before
    assert refused > 100


def _text(table: Table) -> bytes:
    return json.dumps(table).encode()

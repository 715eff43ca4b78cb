"""Report on a case that fails on a device: its kernels, their params, where it is off."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from support.cases.cases import Array
from support.graphs.graphs import make_planner, read_graph
from webpte.engine.ops.core.target import Target
from webpte.engine.plan.shaders import ShaderLibrary
from webpte.inspection.report.difference import EXACT, difference, window


def explain(program: bytes, target: Target, got: list[Array], want: list[Array]) -> str:
    """For an assertion's message: a program with one delegate, and the results of its calls."""
    parts = [*_differences(got, want), *_kernels(program, target)]
    return "\n".join(["", *parts])


def _differences(got: list[Array], want: list[Array]) -> Iterator[str]:
    for number, (one, other) in enumerate(zip(got, want, strict=True)):
        off = difference(one, other, EXACT)
        if off.problem:
            yield f"output {number}: {list(one.shape)}, expected {list(other.shape)}"
        elif not off.agrees:
            around = window(one, other, off.worst)
            yield f"output {number}, worst at {list(off.worst)}: off by {off.max_abs:.3g}"
            yield f"got\n{np.array(around.actual)}\nexpected\n{np.array(around.wanted)}"


def _kernels(program: bytes, target: Target) -> Iterator[str]:
    planner, _ = make_planner(read_graph(program), target)
    planner.lower_all()
    library = ShaderLibrary()
    for record in planner.dispatches():
        params = np.frombuffer(record.params.ljust(-(-len(record.params) // 4) * 4, b"\0"), "<u4")
        yield f"=== {record.kernel}.wgsl {dict(record.overrides)}, grid {record.grid}"
        yield f"params, as words: {params.tolist()}"
        yield library.assemble(record.kernel, record.types).code

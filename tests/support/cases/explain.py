"""Report on a case that fails on a device: its kernels, their params, where it is off."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from support.cases.cases import Array
from support.graphs.graphs import make_planner, read_graph
from webpte.ops.core.target import Target
from webpte.plan.shaders import ShaderLibrary

AROUND = 2  # elements to each side of the worst one


def explain(program: bytes, target: Target, got: list[Array], want: list[Array]) -> str:
    """For an assertion's message: a program with one delegate, and what its calls returned."""
    parts = [*_differences(got, want), *_kernels(program, target)]
    return "\n".join(["", *parts])


def _differences(got: list[Array], want: list[Array]) -> Iterator[str]:
    for number, (one, other) in enumerate(zip(got, want, strict=True)):
        if one.shape != other.shape:
            yield f"output {number}: {list(one.shape)}, expected {list(other.shape)}"
        elif one.size and not np.array_equal(one, other, equal_nan=one.dtype.kind == "f"):
            with np.errstate(all="ignore"):
                off = np.abs(one.astype(np.float64) - other.astype(np.float64))
            unequal_nans = np.isnan(off) & ~(np.isnan(one) & np.isnan(other))
            off = np.where(unequal_nans, np.inf, np.nan_to_num(off, nan=0.0))
            worst = np.unravel_index(int(off.argmax()), off.shape)
            window = tuple(slice(max(0, i - AROUND), i + AROUND + 1) for i in worst)
            yield f"output {number}, worst at {[int(i) for i in worst]}: off by {off.max():.3g}"
            yield f"got\n{one[window]}\nexpected\n{other[window]}"


def _kernels(program: bytes, target: Target) -> Iterator[str]:
    planner, _ = make_planner(read_graph(program), target)
    planner.lower_all()
    library = ShaderLibrary()
    for record in planner.dispatches():
        params = np.frombuffer(record.params.ljust(-(-len(record.params) // 4) * 4, b"\0"), "<u4")
        yield f"=== {record.kernel}.wgsl {dict(record.overrides)}, grid {record.grid}"
        yield f"params, as words: {params.tolist()}"
        yield library.assemble(record.kernel, record.types).code

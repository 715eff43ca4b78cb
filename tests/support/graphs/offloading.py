"""Methods with a kernel between two delegates, which the runtime offloads."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np

import webpte
from support.harness.samples import Dims, relu
from support.write.pte_writer import MethodWriter, write_pte
from webpte.engine.call.call import Lifetime
from webpte.engine.files.source import BytesSource
from webpte.engine.gpu.device_info import DeviceInfo
from webpte.engine.load.offload import offload
from webpte.engine.load.program_file import MethodContents, read_contents
from webpte.engine.load.state import State, read_states
from webpte.engine.load.stitch import stitch
from webpte.engine.run.method import Method
from webpte.engine.run.numpy_delegate import NumpyDelegate


def between(
    kernel: str, *args: Any, dims: Dims, out: Dims, dtype: str = "float32", dynamic: bool = False
) -> MethodWriter:
    """Write relu on a delegate, kernel(relu(x), *args), and relu on another delegate."""
    m = MethodWriter()
    x = m.tensor(dims, dtype, dynamic=dynamic)
    m.inputs(x)
    given, made = relu(m, x, dims, dtype, dynamic=dynamic), m.tensor(out, dtype, dynamic=dynamic)
    m.kernel(kernel, given, *args, made, made)
    m.outputs(relu(m, made, out, dtype, dynamic=dynamic))
    return m


def mean_between(**how: Any) -> MethodWriter:
    args = ([2, 3], False, None)
    return between("aten::mean.out", *args, dims=(4, 5, 2, 2), out=(4, 5), **how)


def places(program: webpte.Program) -> dict[str, str]:
    """Map kernels to where they run."""
    return {row.op: row.where for row in program.report if "::" in row.op}


async def offloaded(m: MethodWriter, **info: Any) -> tuple[MethodContents, State]:
    contents = await read_contents(BytesSource(write_pte(m)))
    states = await read_states(contents)
    device = DeviceInfo("recording", **info)
    return offload(contents.methods["forward"], states["forward"], device), states["forward"]


async def compute(
    m: MethodWriter, *calls: Sequence[np.ndarray], stitched: bool = False
) -> list[list[np.ndarray]]:
    """Run the method with offloaded kernels, and all delegates on their references."""
    contents, state = await offloaded(m)
    assert contents.offloaded
    if stitched:
        contents = stitch(contents, state, DeviceInfo("recording"))
    delegates = [await NumpyDelegate.create(graph) for graph in contents.graphs if graph]
    method = Method(contents, delegates, state, None, asyncio.Lock(), Lifetime())
    return [list(await method.run(method.request(inputs))) for inputs in calls]


async def expect(m: MethodWriter, *calls: Sequence[np.ndarray]) -> None:
    """Check for the same results as without offloading, also if all is one graph."""
    program = await webpte.load(write_pte(m), device="numpy")
    results = [*await compute(m, *calls), *await compute(m, *calls, stitched=True)]
    for inputs, outputs in zip([*calls, *calls], results, strict=True):
        for got, want in zip(outputs, await program.forward(*inputs), strict=True):
            assert got.dtype == want.dtype
            np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)

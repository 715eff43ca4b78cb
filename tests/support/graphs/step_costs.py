"""The costs of one step of real exports, on any GPU: dispatches, waits and bytes.

    PYTHONPATH=pysrc:tests python -m support.graphs.step_costs [FILE.pte ...]

prints a table, by default of the exports in this repository. Bytes are the sizes of all bindings
of all dispatches: weights, activations (with full caches), and scratch memory between dispatches,
which is rounded up. A table from which a kernel gathers rows counts as much as the result.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

import webpte
from support.graphs.step_chains import longest_chain
from support.write import pack_suite
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.engine.ops.core.records import Dispatch, Scratch
from webpte.engine.rewrite.dataflow import Dataflow
from webpte.engine.run.delegate import GpuDelegate
from webpte.engine.shapes import numel
from webpte_host.base.layout import ROOT

PICKING = frozenset({"embedding_quantized", "indexing", "strided"})
SUITE, SAMPLES = ROOT / "tests" / "suites" / "models.zip", ROOT / "web" / "samples"
HEAD = "export | dispatches | longest chain | KB of weights | of activations | between dispatches"


@dataclass(frozen=True)
class Costs:
    """The costs of one step; bytes by kind."""

    dispatches: int
    chain: int
    weights: int
    activations: int
    scratch: int

    def __str__(self) -> str:
        kilobytes = (self.weights, self.activations, self.scratch)
        return " | ".join(
            [str(self.dispatches), str(self.chain), *(f"{n / 1000:.1f}" for n in kilobytes)]
        )


async def costs_of(program: bytes, *inputs: np.ndarray, fuse: bool = True) -> Costs:
    """Compute the costs at these inputs; without any, at the declared shapes."""
    device = SimulatedDevice()
    device.info = replace(device.info, limits={"maxStorageBuffersPerShaderStage": 10})
    async with await webpte.load(
        program, device=device, options=webpte.Options(fuse=fuse)
    ) as loaded:
        if inputs:
            await loaded.forward(*inputs)
        delegates = loaded._build.gpu_delegates
        plans = [plan for each in delegates if (plan := each.plans.current)]
        assert len(plans) == len(delegates), "every delegate has a plan"
        commands = [device.plans[each.handle] for plan in plans for each in plan.segments]
        bound = [_bytes_of(delegate) for delegate in delegates]
        weights, activations, scratch = (sum(each) for each in zip(*bound, strict=True))
        return Costs(
            sum(len(each.dispatches) for each in commands),
            sum(longest_chain(each, device.pipelines) for each in commands),
            *(weights, activations, scratch),
        )


def _bytes_of(delegate: GpuDelegate) -> tuple[int, int, int]:
    """Return the bytes of weights, of other tensors, and of scratch memory."""
    flow = Dataflow.of(delegate.graph)
    constant = flow.stored - flow.state
    weights = activations = scratch = 0
    for dispatch in delegate.planner.dispatches():
        given = _tensor_bytes(delegate, dispatch)
        *_, last = given.values() or (0,)  # the output is bound last
        for value_id, nbytes in given.items():
            if value_id not in constant:
                activations += nbytes
            else:
                weights += min(nbytes, last) if dispatch.kernel in PICKING else nbytes
        scratch += sum(b.nbytes for b in dispatch.bindings if isinstance(b, Scratch))
    return weights, activations, scratch


def _tensor_bytes(delegate: GpuDelegate, dispatch: Dispatch) -> dict[int, int]:
    """Return the bytes of each bound value at its live dims."""
    ids = dict.fromkeys(b for b in dispatch.bindings if isinstance(b, int))
    tensors = [(i, delegate.graph.tensor(i)) for i in ids]
    return {i: numel(delegate.live.cur_dims(i)) * t.dtype.storage.itemsize for i, t in tensors}


def decode_inputs() -> tuple[np.ndarray, ...]:
    return np.zeros((1, 1), np.int64), np.zeros(1, np.int64)


def exports() -> Iterator[tuple[str, bytes, Sequence[np.ndarray]]]:
    """Yield the real exports of this repository with inputs of one step (LLMs: decode)."""
    with pack_suite.unpacked(SUITE) as folder:
        for path in sorted(folder.glob("*.pte")):
            yield path.stem, path.read_bytes(), decode_inputs() if "llama" in path.stem else ()
    for name in ("digits", "photo", "stories", "superres", "teach"):
        inputs = decode_inputs() if name == "stories" else ()
        yield f"sample {name}", (SAMPLES / f"{name}.pte").read_bytes(), inputs


def main(paths: Sequence[str]) -> None:
    given = [(Path(path).stem, Path(path).read_bytes(), ()) for path in paths]
    print(HEAD, "---|---|---|---|---|---", sep="\n")
    for name, program, inputs in given or exports():
        for fuse in (False, True):
            costs = asyncio.run(costs_of(program, *inputs, fuse=fuse))
            print(f"{name}{', fused' * fuse} | {costs}")


if __name__ == "__main__":
    main(sys.argv[1:])

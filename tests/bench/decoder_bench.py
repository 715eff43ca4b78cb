"""Writes language models of several families' sizes, and times their decode steps without the host.

    PYTHONPATH=pysrc:tests python -m bench.decoder_bench --write FOLDER [--layers 4]
        [--only qwen3 gemma3] [--context 33024]    # in the environment of `serve.py export`
    PYTHONPATH=pysrc:tests python -m bench.decoder_bench FOLDER [--at 128 512 2047] [--kernels]

The first writes FOLDER/NAME.pte with 4-bit weights that repeat themselves (repeating_models.py) and
an archive of each. The second times one step on this machine's GPU, many in one submission, at so
many tokens of context. `--kernels` also repeats each kernel of the step alone.
"""

from __future__ import annotations

import argparse
import asyncio
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

import webpte
from webpte.engine.gpu.native.device import NativeDevice
from webpte.engine.gpu.native.plan import NativeDispatch, NativePlan, submission

NAMES = ("llama", "smollm2", "qwen3", "gemma3", "phi")
STEPS = 50  # in one submission


async def seconds_of(device: NativeDevice, encode: Callable[[Any], None], times: int) -> float:
    """Return the seconds per run, for `times` runs in a single submission."""
    inner = device._device
    with submission(inner) as encoder:
        for _ in range(times):
            encode(encoder)
        await inner.dawn.wait(inner.work_done())
        started = perf_counter()
    done = inner.work_done()
    while not done.done:
        inner.dawn.poll()
    return (perf_counter() - started) / times


async def whole(device: NativeDevice, plan: NativePlan, times: int, rounds: int) -> list[float]:
    """Return the microseconds of a run, per round."""
    c = device._device.c

    def encode(encoder: Any) -> None:
        plan.encode(c, encoder, plan.dispatches)

    return [1e6 * await seconds_of(device, encode, times) for _ in range(rounds)]


async def alone(device: NativeDevice, dispatch: NativeDispatch, times: int) -> float:
    """Return the microseconds of a dispatch that is repeated alone."""
    plan = NativePlan([], [], [dispatch] * times, [], 0)
    return min(await whole(device, plan, 1, 3)) / times


def write(options: argparse.Namespace) -> None:
    """Export the models, and pack each."""
    from bench.repeating_models import pack_program, write_decoder
    from webpte_export.llm import export_llm

    for name in options.only:
        folder = options.write / f"{name}-weights"
        folder.mkdir(parents=True, exist_ok=True)
        write_decoder(name, folder, options.layers, options.context)
        program = options.write / f"{name}.pte"
        report = export_llm(folder, program, quantize="4w", max_context=options.context)
        print(report.text())
        if not report.passed:
            raise SystemExit(f"{name}: {report.problem}")
        archive = pack_program(program)
        print(f"{archive}: {archive.stat().st_size / 1e6:.1f} MB", flush=True)


def newest_plan(device: NativeDevice) -> NativePlan:
    """Return the step's plan, which was made last."""
    plans = [plan for plan in device._plans.values() if len(plan.dispatches) > 4]
    return plans[-1]


async def step_of(device: NativeDevice, program: Any, position: int) -> tuple[NativePlan, Any]:
    """Run a step at a position; return its plan and its token and position."""
    given = np.array([[5]], np.int64), np.array([position], np.int64)
    await program.forward(*given)
    return newest_plan(device), given


async def kernels_of(device: NativeDevice, program: Any, plan: NativePlan, given: Any) -> None:
    """Print the kernels of a step, the slowest first."""
    labels = [label for label, _ in await program.profile("forward", *given)]
    found: dict[tuple[str, Any], list[float]] = defaultdict(list)
    for label, dispatch in zip(labels, plan.dispatches, strict=True):
        found[label, dispatch.grid].append(await alone(device, dispatch, 50))
    total = sum(sum(times) for times in found.values())
    print(f"    {total:9.1f} us, the sum of all kernels alone")
    for (label, grid), times in sorted(found.items(), key=lambda row: -sum(row[1])):
        print(f"    {sum(times):9.1f} us  {len(times):4} x {median(times):7.2f}  {grid}  {label}")


async def measure(options: argparse.Namespace) -> None:
    device = await NativeDevice.create()
    print(device.info.description, flush=True)
    for name in options.only:
        path = Path(options.folder) / f"{name}.pte"
        if not path.exists():
            continue
        async with await webpte.load(path, device=device) as program:
            for position in options.at:
                plan, given = await step_of(device, program, position)
                await whole(device, plan, STEPS, 3)
                us = median(await whole(device, plan, STEPS, 5))
                told = f"{us:.1f} us, {len(plan.dispatches)} dispatches"
                print(f"{name} at {position}: {told}", flush=True)
                if options.kernels:
                    await kernels_of(device, program, plan, given)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", help="with the programs that --write has written")
    parser.add_argument("--write", type=Path, help="write the programs to this folder instead")
    parser.add_argument("--layers", type=int, help="fewer layers than the family's model has")
    parser.add_argument("--context", type=int, default=2304, help="of the programs to write")
    parser.add_argument("--only", nargs="+", default=NAMES)
    parser.add_argument("--at", nargs="+", type=int, default=[128, 512, 2047])
    parser.add_argument("--kernels", action="store_true")
    options = parser.parse_args()
    if options.write:
        write(options)
    elif options.folder:
        asyncio.run(measure(options))
    else:
        parser.error("give a folder with the programs, or --write FOLDER")


if __name__ == "__main__":
    main()

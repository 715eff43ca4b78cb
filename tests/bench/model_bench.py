"""Times whole programs on this machine's GPU without the host, one variant against another.

    PYTHONPATH=pysrc:tests python -m bench.model_bench FOLDER OUT.json [--only NAME ...]

FOLDER has NAME.pte, NAME.input.npy and NAME.expected.npy. A figure is the time of one run when many
are in one submission: commands are encoded before the clock starts. Each kernel is also repeated
alone in the same way. A variant sets constants of modules, for comparison.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any
from unittest.mock import patch

import numpy as np

import webpte
from webpte.engine.gpu.native.device import NativeDevice
from webpte.engine.gpu.native.plan import NativeDispatch, NativePlan, submission
from webpte.engine.graph.graph import Graph
from webpte.engine.ops.conv import conv_window
from webpte.engine.ops.gemm import gemm_small
from webpte.engine.plan.shaders import ShaderLibrary
from webpte.engine.rewrite import fusion
from webpte.engine.run import delegate
from webpte.engine.run.delegate import GpuDelegate
from webpte.engine.run.request import RunRequest
from webpte_export.suites.kernel_bench import read_calls

Variant = tuple[tuple[Any, str, Any], ...]  # module, name, value

NO_WINDOW = (conv_window, "suits", lambda *_: False)

VARIANTS: dict[str, Variant] = {"as chosen": ()}
KEPT = ("as chosen", "no small GEMMs")  # variants that every call is timed with


async def seconds_of(device: NativeDevice, encode: Callable[[Any], None], times: int) -> float:
    """Return the seconds of one of `times` runs in one submission."""
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
    """Return the microseconds of one dispatch among many of the same."""
    plan = NativePlan([], [], [dispatch] * times, [], 0)
    return min(await whole(device, plan, 1, 3)) / times


def plan_of(device: NativeDevice) -> NativePlan:
    """Return the plan with the most dispatches, which is the model's."""
    return max(device._plans.values(), key=lambda plan: len(plan.dispatches))


@contextmanager
def patched(variant: Variant) -> Iterator[None]:
    with ExitStack() as stack:
        for module, name, value in variant:
            stack.enter_context(patch.object(module, name, value))
        yield


async def measure(
    device: NativeDevice, base: Path, variant: Variant, times: int, kernels: bool
) -> dict[str, Any]:
    given, wanted = (np.load(f"{base}.{kind}.npy") for kind in ("input", "expected"))
    started = perf_counter()
    with patched(variant):
        program = await webpte.load(f"{base}.pte", device=device)
        try:
            (got,) = await program.forward(given)
            plan = plan_of(device)
            loaded = perf_counter() - started
            await whole(device, plan, times, 3)
            runs = await whole(device, plan, times, 7)
            row: dict[str, Any] = {
                "us": round(median(runs), 1),
                "best_us": round(min(runs), 1),
                "dispatches": len(plan.dispatches),
                "error": float(np.abs(got - wanted).max() / np.abs(wanted).max()),
                "load_s": round(loaded, 2),
            }
            if kernels:
                labels = [label for label, _ in await program.profile("forward", given)]
                stamped = [us for _, us in await program.profile("forward", given)]
                row["kernels"] = await by_kernel(device, plan, labels, stamped)
            return row
        finally:
            program.close()


async def by_kernel(
    device: NativeDevice, plan: NativePlan, labels: Sequence[str], stamped: Sequence[float]
) -> list[dict[str, Any]]:
    rows = []
    for label, by_clock, dispatch in zip(labels, stamped, plan.dispatches, strict=True):
        us = await alone(device, dispatch, 100)
        rows.append(
            {
                "kernel": label,
                "grid": dispatch.grid,
                "us": round(us, 2),
                "stamp": round(by_clock, 1),
            }
        )
    return rows


def concerns(variant_name: str, model: str) -> bool:
    """Tell whether a variant concerns a model: images have convolutions, encoders only GEMMs."""
    kind = variant_name.split(maxsplit=1)[0]
    if kind == "conv:":
        return model == "resnet18"
    return kind != "small" or model != "resnet18"


async def compare(options: argparse.Namespace) -> None:
    device = await NativeDevice.create()
    device.info = replace(device.info, software=False)
    until = perf_counter() + options.seconds
    found: dict[str, Any] = {"adapter": vars(device.info), "models": {}}
    out = Path(options.out)
    names = options.only or ["minilm128", "resnet18", "mobilenetv2"]
    for variant_name, variant in VARIANTS.items():
        for name in names:
            if perf_counter() > until or not concerns(variant_name, name):
                continue
            rows = found["models"].setdefault(name, {})
            base = Path(options.folder) / name
            try:
                kernels = perf_counter() < until - 20
                rows[variant_name] = await measure(device, base, variant, options.times, kernels)
            except Exception as error:  # the other variants still run
                rows[variant_name] = {"failed": f"{type(error).__name__}: {error}"[:2000]}
            shown = {k: v for k, v in rows[variant_name].items() if k != "kernels"}
            print(name, variant_name, shown, flush=True)
            out.write_text(json.dumps(found, default=str, indent=1))
    found["calls"] = await calls_too(device, perf_counter() + options.call_seconds)
    out.write_text(json.dumps(found, default=str, indent=1))


async def single(device: NativeDevice, entry: dict[str, Any], variant: Variant) -> list[float]:
    """Return the microseconds of each dispatch of one call of an operator."""
    (call,) = read_calls([entry])
    with patched(variant):
        delegate = await GpuDelegate.create(call.graph, device, ShaderLibrary())
    try:
        inputs = [np.ones(call.graph.tensor(i).dims, np.float32) for i in call.graph.inputs]
        await delegate.run(RunRequest(inputs))
        return [
            round(await alone(device, dispatch, 50), 2) for dispatch in plan_of(device).dispatches
        ]
    finally:
        delegate.close()


def linear(m: int, k: int, n: int) -> dict[str, Any]:
    weight = {"tensor": [n, k], "constant": True}
    args = [{"tensor": [m, k]}, weight, {"tensor": [n], "constant": True}]
    return {"op": "aten.linear.default", "args": args, "name": f"linear {m}x{k}x{n}"}


def mm(m: int, k: int, n: int) -> dict[str, Any]:
    args = [{"tensor": [m, k], "constant": True}, {"tensor": [k, n]}]
    return {"op": "aten.mm.default", "args": args, "name": f"mm {m}x{k}x{n}"}


def conv2d(c: int, o: int, size: int, side: int, stride: int = 1) -> dict[str, Any]:
    weight = {"tensor": [o, c, side, side], "constant": True}
    sizes = ([stride] * 2, [side // 2] * 2, [1, 1], False, [0, 0], 1)
    args = [{"tensor": [1, c, size, size]}, weight, {"tensor": [o], "constant": True}, *sizes]
    name = f"conv {c}to{o} {size} {side}/{stride}"
    return {"op": "aten.convolution.default", "args": args, "name": name}


CALLS = (
    *(linear(128, 384, 384), linear(128, 384, 1536), linear(128, 1536, 384)),
    *(linear(512, 768, 3072), linear(512, 3072, 768), linear(256, 1024, 1024)),
    *(mm(512, 4608, 52), mm(256, 2304, 196), mm(128, 1152, 784), mm(64, 576, 3136)),
    *(conv2d(64, 64, 56, 3), conv2d(128, 128, 28, 3), conv2d(256, 256, 14, 3)),
    *(conv2d(512, 512, 7, 3), conv2d(3, 64, 224, 7, 2), conv2d(64, 128, 56, 3, 2)),
    *(conv2d(128, 256, 28, 3, 2), conv2d(256, 512, 14, 3, 2)),
)


async def calls_too(device: NativeDevice, until: float) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for entry in CALLS:
        kind = "conv" if "conv" in entry["op"] else "small GEMM"
        for variant_name, variant in VARIANTS.items():
            wanted = variant_name.startswith(kind) or variant_name in (
                "as chosen",
                "no small GEMMs",
            )
            if wanted and perf_counter() < until:
                rows = found.setdefault(entry["name"], {})
                try:
                    rows[variant_name] = await single(device, entry, variant)
                except Exception as error:
                    rows[variant_name] = f"{type(error).__name__}: {error}"[:300]
        print(entry["name"], found.get(entry["name"]), flush=True)
    return found


def k_first(*shapes: tuple[gemm_small.SmallTile, int]) -> Variant:
    return ((gemm_small, "TILES", {True: shapes, False: gemm_small.TILES[False]}),)


async def not_folded(graph: Graph) -> Graph:
    return graph


PLAIN_RULES = tuple(
    tuple(rule for rule in rules if not rule.__module__.endswith(("matmul", "softmax_attention")))
    for rules in fusion.RULES
)
NO_SMALL = (gemm_small, "MOST_WORK", 0)

VARIANTS |= {
    "no small GEMMs, windows, rules for encoders": (
        *(NO_SMALL, NO_WINDOW, (fusion, "RULES", PLAIN_RULES)),
        (delegate, "fold_constants", not_folded),
    ),
    "no rules for encoders": (
        *((fusion, "RULES", PLAIN_RULES), (delegate, "fold_constants", not_folded)),
    ),
    "no small GEMMs": (NO_SMALL,),
    "small GEMM: small blocks": k_first((gemm_small.SmallTile(4, 4), 0)),
    "small GEMM: one step ahead": ((gemm_small, "FEW", 0),),
    "conv: no windows": (NO_WINDOW,),
    "as chosen, again": (),
}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("out")
    parser.add_argument("--seconds", type=float, default=90)
    parser.add_argument("--call-seconds", type=float, default=30)
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--only", nargs="*")
    asyncio.run(compare(parser.parse_args()))

"""Times programs as `serve.py bench` does, in a page that runs this as its script.

The page has `js.query` with `programs`, paths on its own server by comma. See `page.html` for the
page, and `bench.decoder_bench` for programs.

    prefill      lengths of prompts ("128,512,2047"): the programs are language models
    options      options of `load` by comma, such as "half_products" or "subgroup_matrices=false"
    kv_cache     the format of a language model's cache ("f32", "f16", "int8")
    steps        decode steps timed one by one (32), four times as many in a row
    runs         calls timed of other programs (200)
    overlapped   calls on their way at once (4), for the frames per second of other programs
    kernels      how many of the heaviest kernels to tell (10)

The value of the last line is a JSON text.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from time import perf_counter
from typing import Any

import numpy as np

import webpte
from webpte.engine.call.options import DeveloperOptions
from webpte.llm.bench import bench_llm, bench_method, example_input

Figures = dict[str, Any]
ROUNDS = 5  # of overlapped calls; the best is told


def options_of(text: str) -> DeveloperOptions:
    """Return the options that a text sets: a name alone is true."""
    given = {}
    for one in filter(None, text.split(",")):
        name, _, value = one.partition("=")
        given[name] = value != "false"
    return DeveloperOptions(**given)


def short(figures: Figures, count: int) -> Figures:
    """Return the figures of a measurement that a table shows."""
    names = ("ms", "best_ms", "tokens_per_second", "gpu_ms", "parts", "step_by_step")
    told = {name: figures[name] for name in names if figures.get(name)}
    rows = (figures.get("kernels") or [])[:count]
    told["kernels"] = [f"{row['count']} x {row['kernel']}: {row['us']} us" for row in rows]
    return told


async def frames_per_second(program: webpte.Program, runs: int, overlapped: int) -> float:
    """Return how many calls end in a second when some are always on their way."""
    random = np.random.default_rng(0)
    given = [example_input(info, random) for info in program.methods["forward"].inputs]
    rates = []
    for _ in range(ROUNDS):
        started, left = perf_counter(), iter(range(runs))

        async def take(left: Any = left) -> None:
            for _ in left:
                await program.forward(*given)

        await asyncio.gather(*(take() for _ in range(overlapped)))
        rates.append(runs / (perf_counter() - started))
    return max(rates)


async def timed(path: str, asked: Mapping[str, str]) -> Figures:
    """Return the figures of one program."""
    loading: Figures = {"options": options_of(asked.get("options", ""))}
    if "kv_cache" in asked:
        loading["kv_cache"] = asked["kv_cache"]
    count = int(asked.get("kernels", 10))
    started = perf_counter()
    async with await webpte.load(path, **loading) as program:
        told: Figures = {"load_ms": (perf_counter() - started) * 1000}
        if lengths := asked.get("prefill"):
            steps = int(asked.get("steps", 32))
            found = await bench_llm(program, [int(n) for n in lengths.split(",")], steps)
            return told | {name: short(each, count) for name, each in found.items()}
        runs, overlapped = int(asked.get("runs", 200)), int(asked.get("overlapped", 4))
        told |= short(await bench_method(program, runs=runs), count)
        rates = [await frames_per_second(program, runs, n) for n in (1, overlapped)]
        return told | {"frames/s, 1 at once": rates[0], f"{overlapped} at once": rates[1]}


async def measure(base: str, asked: Mapping[str, str], say: Any) -> str:
    figures: Figures = {}
    for name in asked["programs"].split(","):
        say(name)
        figures[name] = await timed(f"{base}/{name}", asked)
        say(json.dumps({name: figures[name]}))
    return json.dumps(figures)


def start() -> asyncio.Future[str]:
    """Start the measurements in the page's query."""
    import js  # of Pyodide

    asked = {str(key): str(value) for key, value in js.query.to_py().items()}
    return asyncio.ensure_future(measure(str(js.location.origin), asked, js.say))


start() if "pyodide" in sys.modules else None  # the page awaits the script's value

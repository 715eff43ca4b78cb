"""`serve.py bench`: times programs in a headless browser and shows where the time goes."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from webpte_host import chromium, environment, pipelines
from webpte_host.content import Mount
from webpte_host.errors import HostError

_CODE = """
import webpte
from webpte import bench

async with await webpte.load(url) as program:
    figures = {"adapter": vars(program.device_info), "load_ms": program.stats.load_ms}
    if prefill:
        return figures | await bench.bench_llm(program, prefill, decode)
    return figures | {method: await bench.bench_method(program, method, runs)}
"""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="serve.py bench", description=__doc__)
    parser.add_argument("program", type=Path, help="a .pte file; with --pipelines also a suite")
    parser.add_argument("--method", default="forward", help="(%(default)s)")
    parser.add_argument("--runs", type=int, default=20, help="timed runs (%(default)s)")
    parser.add_argument(
        "--prefill", default="", help="a language model: prompt lengths, such as 128,512"
    )
    parser.add_argument("--decode", type=int, default=32, help="tokens to decode (%(default)s)")
    parser.add_argument(
        "--adapter",
        choices=chromium.ADAPTERS,
        default="hardware",
        help="swiftshader is a CPU in disguise and says nothing about speed (%(default)s)",
    )
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    compiling = parser.add_argument_group("compile times")
    compiling.add_argument(
        "--pipelines",
        action="store_true",
        help="time how long each kernel takes to compile, instead of running the program; the "
        "file of --json then has the kernels' WGSL, bindings and overrides, too",
    )
    compiling.add_argument(
        "--target",
        choices=pipelines.TARGETS,
        default="adapter",
        help="which kernels: those chosen for this adapter, for a software one, for a GPU",
    )
    compiling.add_argument("--filter", help="only cases of the suite that match, such as 'conv*'")
    options = parser.parse_args(arguments)
    if not options.program.is_file() and not (options.pipelines and options.program.is_dir()):
        raise HostError(f"{options.program} is not a file.")
    if not environment.inside():
        return environment.rerun_inside(["bench", *arguments], with_browser=True)
    if options.pipelines:
        return _compile(options)
    figures = _run(options)
    _show(figures)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")
    return 0


def _compile(options: argparse.Namespace) -> int:
    figures = pipelines.run(options)
    pipelines.show(figures)
    if options.json:
        pipelines.write(options.json, figures)
    return 0


def _run(options: argparse.Namespace) -> dict[str, Any]:
    from webpte_host.browser import Harness, open_browser
    from webpte_host.server import Site

    folder = options.program.resolve().parent
    with Site(mounts=[Mount("/model/", folder)]) as site, open_browser(options.adapter) as browser:
        harness = Harness.open(browser, site)
        result: dict[str, Any] = harness.python(
            _CODE,
            timeout=1200,
            url=f"/model/{options.program.name}",
            method=options.method,
            runs=options.runs,
            prefill=[int(length) for length in options.prefill.split(",") if length],
            decode=options.decode,
        )
        return result


def _show(figures: dict[str, Any]) -> None:
    adapter = figures.pop("adapter")
    print(f"adapter: {adapter['vendor']} {adapter['architecture']} {adapter['description']}")
    if adapter["software"]:
        print("This adapter is a CPU: its figures say nothing about a GPU.", file=sys.stderr)
    print("load:", ", ".join(f"{k} {v:.0f} ms" for k, v in figures.pop("load_ms").items()))
    for name, row in figures.items():
        speed = f", {row['tokens_per_second']:.0f} tokens/s" if "tokens_per_second" in row else ""
        parts = ", ".join(f"{part} {ms:.2f}" for part, ms in row["parts"].items())
        gpu = "" if row["gpu_ms"] is None else f", kernels {row['gpu_ms']:.2f}"
        print(f"{name}: {row['ms']:.2f} ms{speed} (first {row['first_ms']:.0f}; {parts}{gpu})")
        for kernel in row["kernels"][:12]:
            print(f"  {kernel['us']:10.1f} us  {kernel['count']:4d} x  {kernel['kernel']}")

"""`serve.py bench`: times programs kernel by kernel, in a headless browser or natively."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from webpte_host.base.descriptions import described
from webpte_host.base.device_names import NATIVE_HELP, device_name
from webpte_host.base.errors import HostError
from webpte_host.base.write_results import write_results
from webpte_host.commands import compare_trees, kernel_table, pipelines, variant_table
from webpte_host.commands.compare_trees import AGAINST
from webpte_host.serving.routing import Mount
from webpte_host.setup import chromium, environment

_HUB = "hf:"
_GPU = """
import json
from js import navigator
from webpte.engine.gpu.devices import shared_device
from webpte.llm.gpu_figures.measure import measure_gpu
from webpte.llm.gpu_figures.result import describe

device = await shared_device("webgpu")
rows = [row async for row in measure_gpu(device)]
return json.loads(describe(device.info, navigator.userAgent, version, rows).json())
"""
_CODE = """
import os
import webpte
from webpte.engine.gpu.webgpu.device import WebGPUDevice
from webpte.llm import bench
from webpte.llm.open_program import open_program
from webpte_export.suites.variants import options_of

if hub:
    os.environ["HF_ENDPOINT"] = hub
device = await WebGPUDevice.create(waiting) if waiting else "webgpu"
options = await options_of(variant, "webgpu") if variant else webpte.Options()
async with await open_program(url, device=device, options=options, **loading) as program:
    guessing = await webpte.load(draft, device=device, options=options) if draft else None
    return await bench.figures_of(program, method, runs, prefill, decode, guessing)
"""


def main(arguments: list[str]) -> int:
    if AGAINST in arguments:
        return compare_trees.run(arguments)
    parser = argparse.ArgumentParser(prog="serve.py bench", description=described(__doc__))
    parser.add_argument(
        "program",
        type=_program,
        nargs="?",
        help="a .pte file, or hf:OWNER/NAME in the Hugging Face Hub; with --pipelines also a suite",
    )
    parser.add_argument("--method", default="forward", help="(%(default)s, or the only one)")
    parser.add_argument("--runs", type=int, default=20, help="timed runs (%(default)s)")
    parser.add_argument(
        "--prefill",
        type=_lengths,
        default=[],
        help="for language models: prompt lengths, such as 128,512",
    )
    parser.add_argument("--decode", type=int, default=32, help="tokens to decode (%(default)s)")
    parser.add_argument(
        "--kv-cache",
        choices=("f32", "f16", "int8"),
        help="for language models: what the KV cache is kept in (by default what the file says)",
    )
    parser.add_argument(
        "--max-context", type=int, help="for language models: a shorter KV cache than the file's"
    )
    parser.add_argument(
        "--draft",
        type=Path,
        help="for language models: a smaller one in the same folder, to time speculation with",
    )
    parser.add_argument(
        "--adapter",
        choices=chromium.ADAPTERS,
        default="hardware",
        help="swiftshader runs on the CPU, so its times say nothing about a GPU (%(default)s)",
    )
    parser.add_argument(
        "--device",
        type=device_name("webgpu", "native"),
        help="webgpu, or native: this machine's GPU, without a browser; "
        f"{NATIVE_HELP} (webgpu; native with --kernels)",
    )
    parser.add_argument(
        "--software", action="store_true", help="with native: accept a software adapter"
    )
    parser.add_argument(
        "--waiting",
        choices=("plain", "scope", "submit"),
        help="how the browser waits for results (by default the fastest, which is measured)",
    )
    parser.add_argument(
        "--options",
        type=_variant,
        metavar="VARIANT",
        help="run a variant of the program, by a name of `verify --options`, such as fuse",
    )
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    parser.add_argument(
        "--kernels",
        type=Path,
        nargs="?",
        const=kernel_table.BUILT_IN,
        metavar="LIST.json",
        help="instead of a program: time the kernels of a list, by default webpte's own",
    )
    parser.add_argument(
        "--filter", help="only kernels of the list, or cases of the suite, that match: 'conv*'"
    )
    parser.add_argument(
        "--gpu",
        action="store_true",
        help="instead of a program: measure the GPU's peaks, and layers of known models; the file "
        "of --json is the one that the page's view Bench saves and compares",
    )
    parser.add_argument(
        AGAINST,
        nargs="+",
        metavar="TREE",
        help="instead of a program: compare this tree with others, folders or commits, in turns "
        f"over a fixed list; `{AGAINST} TREE --help` has its options",
    )
    compiling = parser.add_argument_group("compile times")
    compiling.add_argument(
        "--pipelines",
        action="store_true",
        help="time the compilation of each kernel instead of running the program; the file of "
        "--json then includes the kernels' WGSL, bindings and overrides",
    )
    compiling.add_argument(
        "--target",
        choices=pipelines.TARGETS,
        default="adapter",
        help="the kernels to compile: those for this adapter, a software adapter, or a GPU",
    )
    options = parser.parse_args(arguments)
    _check(parser, options)
    options.device = options.device or ("native" if options.kernels else "webgpu")
    if not environment.inside():
        with_browser = options.device == "webgpu" or options.pipelines
        return environment.rerun_inside(["bench", *arguments], with_browser=with_browser)
    if options.kernels:
        return _time_kernels(options)
    if options.gpu:
        return _measure_gpu(options)
    if options.pipelines:
        return _compile(options)
    figures = _run(options) if options.device == "webgpu" else _run_native(options)
    _show(figures)
    if options.json:
        write_results(options.json, figures)
    return 0


def _program(text: str) -> Path | str:
    return text if text.startswith(_HUB) else Path(text)


def _variant(text: str) -> str:
    (name, *others) = variant_table.names_of(text)
    if others or name == "all":
        raise argparse.ArgumentTypeError("only one variant at a time; a+b inverts both at once")
    return name


def _lengths(text: str) -> list[int]:
    lengths = [part for part in text.split(",") if part]
    if not all(part.isdecimal() and int(part) for part in lengths):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of lengths such as 128,512")
    return [int(part) for part in lengths]


def _check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Check that the options name exactly one subject to time."""
    program = options.program
    native = options.device not in (None, "webgpu")
    if options.waiting and (options.kernels or options.pipelines or native):
        parser.error("--waiting is for programs that run in a browser")
    if options.options and (options.kernels or options.pipelines):
        parser.error("--options is for programs that run")
    if _loading(options) and (options.kernels or options.pipelines):
        parser.error("--kv-cache and --max-context are for programs that run")
    if options.kernels:
        if program or options.pipelines:
            parser.error("--kernels takes no program and no --pipelines")
        if options.device == "webgpu":
            parser.error("--kernels runs natively only: a browser reads constants from files")
        if not options.kernels.is_file():
            raise HostError(f"{options.kernels} is not a file.")
    elif options.gpu:
        if program or options.pipelines or options.prefill:
            parser.error("--gpu takes no program, no --pipelines and no --prefill")
    elif program is None:
        parser.error("a program is needed, --gpu, or --kernels")
    elif isinstance(program, str):
        if options.draft or options.pipelines:
            parser.error(f"--draft and --pipelines take a file, not {_HUB}...")
    elif options.draft and not options.prefill:
        parser.error("--draft needs --prefill")
    elif options.draft and not options.draft.is_file():
        raise HostError(f"{options.draft} is not a file.")
    elif options.draft and options.draft.resolve().parent != program.resolve().parent:
        parser.error("the draft must be in the folder of the program")
    elif not program.is_file() and not (options.pipelines and program.is_dir()):
        raise HostError(f"{program} is not a file.")


def _time_kernels(options: argparse.Namespace) -> int:
    figures = kernel_table.run(
        options.kernels, options.filter, lambda info: _refuse_cpu(info, options), options.device
    )
    kernel_table.show(figures)
    if options.json:
        write_results(options.json, figures)
    return 0


def _measure_gpu(options: argparse.Namespace) -> int:
    result = _gpu_in_browser(options) if options.device == "webgpu" else _gpu_natively(options)
    print(f"adapter: {result['adapter']}; {result['browser']}")
    for row in result["rows"]:
        share = f"  {100 * row['share']:.0f} % of the peak" if "share" in row else ""
        note = f"  {row['note']}" if "note" in row else ""
        print(f"{row['value']:12,.3f} {row['unit']:9}{row['name']}{share}{note}")
    if options.json:
        write_results(options.json, result)
    return 0


def _gpu_natively(options: argparse.Namespace) -> dict[str, Any]:
    import webpte
    from webpte.llm.gpu_figures.measure import measure_gpu
    from webpte.llm.gpu_figures.result import describe

    async def run() -> str:
        device = await webpte.shared_device(options.device)
        _refuse_cpu(device.info, options)
        rows = []
        async for row in measure_gpu(device, _tell_step):
            rows.append(row)
        return describe(device.info, "native (Dawn)", webpte.__version__, rows).json()

    try:
        found: dict[str, Any] = json.loads(asyncio.run(run()))
    except webpte.WebpteError as error:
        raise HostError(str(error)) from error
    return found


def _tell_step(done: int, total: int, work: str) -> None:
    if work:
        print(f"{done + 1} of {total}: {work}", file=sys.stderr, flush=True)


def _gpu_in_browser(options: argparse.Namespace) -> dict[str, Any]:
    import webpte
    from webpte_host.harness.browser import Harness, open_browser
    from webpte_host.serving.server import Site

    with Site() as site, open_browser(options.adapter) as browser:
        harness = Harness.open(browser, site)
        print("measuring, for a minute or two", file=sys.stderr, flush=True)
        found: dict[str, Any] = harness.python(_GPU, timeout=1200, version=webpte.__version__)
        return found


def _compile(options: argparse.Namespace) -> int:
    figures = pipelines.run(options)
    pipelines.show(figures)
    if options.json:
        write_results(options.json, figures)  # with all that is needed to compile a pipeline again
    return 0


def _wanted(options: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of `bench.figures_of`."""
    return {"method": options.method, "runs": options.runs, "prefill": options.prefill}


def _loading(options: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of `webpte.llm.load` for the requested KV cache."""
    asked = {"kv_cache": options.kv_cache, "max_context": options.max_context}
    return {name: value for name, value in asked.items() if value is not None}


def _refuse_cpu(info: Any, options: argparse.Namespace) -> None:
    if info.software and not options.software:
        raise HostError(
            f"{info.description} is a CPU: its figures say nothing about a GPU.\n"
            "Install the driver of this machine's GPU, or use --software to time it anyway."
        )


def _run_native(options: argparse.Namespace) -> dict[str, Any]:
    import webpte
    from webpte.llm import bench
    from webpte.llm.open_program import open_program
    from webpte_export.suites.variants import options_of

    async def run() -> dict[str, Any]:
        _refuse_cpu((await webpte.shared_device(options.device)).info, options)
        variant = options.options
        chosen = await options_of(variant, options.device) if variant else webpte.Options()
        given: dict[str, Any] = {"device": options.device, "options": chosen, **_loading(options)}
        async with await open_program(options.program, **given) as program:
            wanted = _wanted(options)
            draft = options.draft and await webpte.load(
                options.draft, device=options.device, options=chosen
            )
            return await bench.figures_of(
                program, **wanted, decode_steps=options.decode, draft=draft
            )

    try:
        return asyncio.run(run())
    except webpte.WebpteError as error:
        raise HostError(str(error)) from error


def _run(options: argparse.Namespace) -> dict[str, Any]:
    from webpte_host.harness.browser import Harness, open_browser
    from webpte_host.serving.server import Site

    program, mounts, url = options.program, [], options.program
    if isinstance(program, Path):
        mounts, url = [Mount("/model/", program.resolve().parent)], f"/model/{program.name}"
    with Site(mounts=mounts) as site, open_browser(options.adapter) as browser:
        harness = Harness.open(browser, site)
        result: dict[str, Any] = harness.python(
            _CODE,
            timeout=1200,
            url=url,
            hub=os.environ.get("HF_ENDPOINT", ""),
            draft=f"/model/{options.draft.name}" if options.draft else "",
            **_wanted(options),
            decode=options.decode,
            waiting=options.waiting,
            variant=options.options,
            loading=_loading(options),
        )
        return result


def _show(figures: dict[str, Any]) -> None:
    adapter = figures["adapter"]
    print(f"adapter: {adapter['vendor']} {adapter['architecture']} {adapter['description']}")
    if adapter["software"]:
        print("This adapter is a CPU: its figures say nothing about a GPU.", file=sys.stderr)
    if adapter["kind"] == "webgpu":
        print(_waiting(adapter))
    print("load:", ", ".join(f"{k} {v:,.0f} ms" for k, v in figures["load_ms"].items()))
    for name, row in figures.items():
        if name in ("adapter", "load_ms"):
            continue
        speed = f", {row['tokens_per_second']:,.0f} tokens/s" if "tokens_per_second" in row else ""
        parts = ", ".join(f"{part} {ms:.2f}" for part, ms in row["parts"].items())
        gpu = "" if row["gpu_ms"] is None else f", kernels {row['gpu_ms']:.2f}"
        if row.get("step_by_step"):
            parts = f"step by step: {row['step_by_step']}"
        elif "steps_per_submission" in row:
            parts = f"{row['steps_per_submission']:.1f} steps per submission"
            if "guesses" in row:
                parts += f", {row['guesses']}, {row['not_speculating'] or 'to the end'}"
        print(f"{name}: {row['ms']:,.2f} ms{speed} (first {row['first_ms']:,.0f}; {parts}{gpu})")
        for kernel in row["kernels"][:12]:
            print(f"  {kernel['us']:10,.1f} µs  {kernel['count']:5,d} x  {kernel['kernel']}")


def _waiting(adapter: dict[str, Any]) -> str:
    """Describe the way of waiting for results, and the measured time of each method."""
    measured = ", ".join(f"{way} {ms:.2f} ms" for way, ms in adapter["waiting_ms"].items())
    return f"waiting: {adapter['waiting']} ({measured or 'not measured'})"

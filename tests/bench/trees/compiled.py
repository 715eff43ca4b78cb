"""Compares compiled programs with the same through Python: one browser after another, in turns.

    PYTHONPATH=pysrc:tests python -m bench.trees.compiled write OUT [--only resnet18 ...]
    PYTHONPATH=pysrc:tests python -m bench.trees.compiled run OUT [--rounds 2] [options]

`write` writes OUT/NAME.head, a program without its weights, and OUT/NAME, the program compiled: a
few megabytes to carry to another machine, where `run` adds the weights. `run` prints rates per
second, compiled beside Python, and the rates of variants: the runtime with a changed constant. The
first token is timed from the moment the page begins to load.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import webpte
from bench.trees.compare import (
    HERE,
    SMALL,
    WHOLE,
    Job,
    Rates,
    browser_command,
    compared,
    jobs_of,
    read_lines,
)
from bench.trees.programs import DECODERS, LONE, ensure, head_of, program
from bench.trees.run_page import COMPILED
from webpte_host.base.errors import HostError
from webpte_host.base.layout import PYSRC
from webpte_host.setup import chromium

NAMES = ("resnet18", "mobilenetv2", "minilm", "llama")
OPENINGS = 3  # of the page, for the first token, after a first opening, which warms up
_RUNTIME = "webpte-run.js"
# Texts of the runtime, and the texts in their place, by the program and the name of the variant.
VARIANTS = {
    ("mobilenetv2", "one submission"): ("FIRST_CHUNK = 32;", "FIRST_CHUNK = 128;"),
    ("minilm", "one submission"): ("FIRST_CHUNK = 32;", "FIRST_CHUNK = 128;"),
    ("llama", "not kept"): ("originals = base, keep })", "originals = base, keep = false })"),
    ("llama", "whole file first"): ("LARGE_FILE = 64 << 20", "LARGE_FILE = 2 ** 40"),
}


async def write(out: Path, names: Sequence[str], small: bool) -> None:
    out.mkdir(parents=True, exist_ok=True)
    for name in names:
        head = out / f"{name}.head"
        if not head.exists():
            head.write_bytes(head_of(program(name, small)))
        path = ensure(name, out)
        await webpte.compile(path, out / name)
        (out / name / path.name).unlink()  # the page finds it beside the folder
        path.unlink()
        print(name, flush=True)


def vary(out: Path, name: str, variant: str) -> str:
    """Write a compiled folder whose runtime is changed; return its name."""
    found, replaced = VARIANTS[name, variant]
    folder = f"{name}-{variant.replace(' ', '-')}"
    shutil.rmtree(out / folder, ignore_errors=True)
    shutil.copytree(out / name, out / folder)
    runtime = out / folder / _RUNTIME
    text = runtime.read_text("utf-8")
    if text.count(found) != 1:
        raise HostError(f"{runtime} has not one {found!r}: change VARIANTS of {__name__}.")
    runtime.write_text(text.replace(found, replaced), "utf-8")
    return folder


def compiled_jobs(jobs: Sequence[Job], out: Path, with_variants: bool) -> list[Job]:
    """Return the jobs of compiled programs: first openings, then rates, with variants."""
    made: list[Job] = []
    for job in jobs:
        name = job["name"]
        plain = {**job, "folder": name}
        folders = {name: plain}
        for of, variant in VARIANTS if with_variants else ():
            if of == name:
                folder = vary(out, name, variant)
                folders[f"{name}, {variant}"] = {**plain, "folder": folder}
        for shown, one in folders.items():
            if name in DECODERS:
                made.append({**one, "name": shown, "kind": "first", "times": OPENINGS})
            if name in LONE or shown == name:
                made.append({**one, "name": shown})
    return sorted(made, key=lambda job: job["kind"] != "first")


def run_page(jobs: Sequence[Job], options: argparse.Namespace, *more: str) -> Rates:
    """Run jobs in a new browser; return their rates, and tell errors and notes."""
    variables = {**os.environ, "PYTHONPATH": str(PYSRC), "WEBPTE_TUNING": ""}
    with tempfile.TemporaryDirectory() as work:
        listed, browser = Path(work, "jobs.json"), Path(work, "browser.json")
        listed.write_text(json.dumps(jobs), "utf-8")
        told = {"command": browser_command(options), "seconds": options.seconds}
        browser.write_text(json.dumps(told), "utf-8")
        command = [sys.executable, str(HERE / "run_page.py"), str(listed), str(browser), *more]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    rates, faults = read_lines(done.stdout)
    for line in done.stdout.splitlines():
        notes = json.loads(line).get("notes", ()) if line.startswith("{") else ()
        for marks in notes:
            rounded = {name: round(seconds, 3) for name, seconds in marks.items()}
            print(f"{json.loads(line)['name']}: {rounded}", flush=True)
    for fault in [*faults, *([done.stderr.strip()[-500:]] if done.returncode else [])]:
        print(fault, flush=True)
    return rates


def show(mine: Sequence[Rates], python: Sequence[Rates]) -> None:
    print(f"\n{'per second':32}{'compiled':>12}{'Python':>12}{'ratio':>9}  rounds")
    for row in compared(mine, python):
        print(row.text())
    alone = dict.fromkeys(work for rates in mine for work in rates if work not in python[0])
    print(f"\n{'per second':52}{'median':>12}  rounds")
    for work in alone:
        found = [rates[work] for rates in mine if work in rates]
        print(f"{work:52}{median(found):12,.3f}  {', '.join(f'{one:,.3f}' for one in found)}")


def run(options: argparse.Namespace) -> None:
    extent, out = SMALL if options.small else WHOLE, options.out
    jobs = jobs_of(extent, out, options.only)
    mine = compiled_jobs(jobs, out, options.variants)
    found: tuple[list[Rates], list[Rates]] = [], []
    for number in range(options.rounds):
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
        found[0].append(run_page(mine, options, COMPILED))
        found[1].append(run_page(jobs, options))
        if options.json:
            options.json.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    show(*found)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("work", choices=("write", "run"))
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument(
        "--small", action="store_true", help="one layer and few tokens: does it run?"
    )
    parser.add_argument("--adapter", choices=chromium.ADAPTERS, default="hardware")
    parser.add_argument("--f16", action="store_true", help="f16 and matrices on NVIDIA's driver")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--no-variants", dest="variants", action="store_false")
    parser.add_argument("--seconds", type=float, default=300, help="of a browser (%(default)s)")
    parser.add_argument("--json", type=Path, help="write all rates to this file")
    options = parser.parse_args(arguments)
    if options.work == "write":
        asyncio.run(write(options.out, options.only, options.small))
    else:
        run(options)


if __name__ == "__main__":
    try:
        main()
    except HostError as error:
        sys.exit(str(error))

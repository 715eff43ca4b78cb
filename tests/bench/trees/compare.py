"""Compares the speed of trees of this project in turns, over a fixed list of programs.

    python3 serve.py bench --against TREE... [options]    # folders or commits, beside this tree
    PYTHONPATH=pysrc:tests python -m bench.trees.compare --against TREE... [options]

Each round runs every tree once, in a separate process or browser, so that all meet the same
clocks and temperatures. Rates are medians over the rounds; the ratio is this tree's rate over the
other's, round by round, with the least and the most. It fails where a rate is lost: a ratio below
0.98 in the median, and below 1 in every round.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from bench.trees.programs import DECODERS, LONE, ensure
from webpte_host.base.errors import HostError
from webpte_host.base.layout import ROOT, RUNTIME, STATE
from webpte_host.commands.compare_trees import parser
from webpte_host.setup import chromium

HERE = Path(__file__).parent
KEPT = STATE / "bench"  # programs and trees
LOST = 0.98
_F16 = "--enable-dawn-features=vulkan_enable_f16_on_nvidia"
_SOURCES = ("pysrc", "web", "wgsl", "serve.py", "pyproject.toml")

Job = dict[str, Any]
Rates = dict[str, float]


@dataclass(frozen=True)
class Extent:
    """The work of a comparison: lengths of prompts, repetitions, and seconds that warm up."""

    lengths: tuple[int, ...]
    times: int
    tokens: int
    answers: int
    warm: float
    slots: int
    small: bool = False  # programs of a layer, with few words


WHOLE = Extent((128, 512, 2047), 8, 128, 2, 0.5, 8)
SMALL = Extent((8,), 1, 2, 1, 0.0, 2, small=True)


def jobs_of(extent: Extent, folder: Path, only: Iterable[str] = ()) -> list[Job]:
    """Return the list: decoders, models that are called alone, and several answers at once."""
    common = {"times": extent.times, "answers": extent.answers, "warm": extent.warm}
    tokens = {**common, "tokens": extent.tokens}
    jobs: list[Job] = [
        {"name": name, "kind": "decoder", "lengths": extent.lengths, **tokens} for name in DECODERS
    ]
    alone = {**common, "times": 1 if extent.small else 20 * extent.times}
    jobs += [{"name": name, "kind": "lone", **alone} for name in LONE]
    together = {"slots": extent.slots, "prompt": extent.lengths[0], **tokens}
    context = 2 * extent.lengths[0] + extent.tokens
    jobs.append({"name": "llama together", "kind": "batch", "context": context, **together})
    wanted = set(only)
    jobs = [job for job in jobs if not wanted or job["name"] in wanted]
    for job in jobs:
        name = job["name"].split()[0]
        job["path"] = str(ensure(name, folder, extent.small))
    return jobs


def tree_folder(given: str) -> Path:
    """Return the folder of a tree: a folder with sources, or a commit's, which is unpacked."""
    folder = Path(given).resolve()
    if (folder / "pysrc" / "webpte").is_dir():
        return folder
    found = subprocess.run(
        ["git", "rev-parse", "--verify", f"{given}^{{commit}}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if found.returncode:
        raise HostError(f"{given} is neither a folder with pysrc/webpte nor a commit.")
    commit = found.stdout.strip()
    folder = KEPT / "trees" / commit[:12]
    if not folder.exists():
        unpack(commit, folder)
    return folder


def unpack(commit: str, folder: Path) -> None:
    """Write a commit's sources to a new folder, which exists once it is whole."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as beside:
        archive = subprocess.run(
            ["git", "archive", commit, *_SOURCES], cwd=ROOT, capture_output=True, check=True
        )
        made = Path(beside, folder.name)
        (made / STATE.name).mkdir(parents=True)
        subprocess.run(["tar", "-x", "-C", str(made)], input=archive.stdout, check=True)
        (made / STATE.name / RUNTIME.name).symlink_to(RUNTIME.resolve())
        made.rename(folder)


def run_tree(
    tree: Path, jobs: Sequence[Job], options: argparse.Namespace
) -> tuple[Rates, list[str]]:
    """Run the jobs with a tree's sources; return their rates, and what failed."""
    variables = {**os.environ, "PYTHONPATH": str(tree / "pysrc"), "WEBPTE_TUNING": ""}
    with tempfile.TemporaryDirectory() as work:
        listed = Path(work, "jobs.json")
        listed.write_text(json.dumps(jobs), "utf-8")
        command = [sys.executable, str(HERE / "figures.py"), str(listed), options.device]
        if options.device == "webgpu":
            browser = Path(work, "browser.json")
            told = {"command": browser_command(options), "seconds": options.seconds}
            browser.write_text(json.dumps(told), "utf-8")
            command = [sys.executable, str(HERE / "run_page.py"), str(listed), str(browser)]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    rates, faults = read_lines(done.stdout)
    if done.returncode:
        faults.append((done.stderr.strip().splitlines() or ["it ended early"])[-1])
    return rates, faults


def read_lines(text: str) -> tuple[Rates, list[str]]:
    """Return the rates and the errors of the lines that a tree printed."""
    rates: Rates = {}
    faults = []
    for line in text.splitlines():
        if not line.startswith("{"):
            continue  # a driver's
        told = json.loads(line)
        if "error" in told:
            faults.append(f"{told['name']}: {told['error'].strip()}")
        rates |= {f"{told['name']}, {work}": rate for work, rate in told.get("rates", {}).items()}
    return rates, faults


def browser_command(options: argparse.Namespace) -> list[str]:
    """Return the browser's command; without `f16` with the features that it offers to everybody."""
    path = chromium.find()
    if path is None:
        raise HostError("No Chromium is installed. WEBPTE_CHROMIUM may name one.")
    flags = chromium.flags(options.adapter)
    return [path, *(flag for flag in flags if options.f16 or flag != _F16)]


@dataclass(frozen=True)
class Row:
    """A rate in this tree and in another, and their ratios in the rounds."""

    work: str
    mine: float
    other: float
    ratios: tuple[float, ...]

    @property
    def ratio(self) -> float:
        return median(self.ratios)

    @property
    def lost(self) -> bool:
        return self.ratio < LOST and max(self.ratios) < 1

    def text(self) -> str:
        spread = f"{min(self.ratios):.3f} to {max(self.ratios):.3f}"
        mark = "  LOST" if self.lost else ""
        return (
            f"{self.work:32}{self.mine:12,.2f}{self.other:12,.2f}{self.ratio:9.3f}  {spread}{mark}"
        )


def compared(mine: Sequence[Rates], other: Sequence[Rates]) -> list[Row]:
    """Return a row for each rate that both trees have in some round."""
    pairs = list(zip(mine, other, strict=True))
    rows = []
    for work in dict.fromkeys(name for rates in mine for name in rates):
        both = [(a[work], b[work]) for a, b in pairs if work in a and work in b]
        if both:
            ratios = tuple(a / b for a, b in both)
            rows.append(Row(work, median(a for a, _ in both), median(b for _, b in both), ratios))
    return rows


def show(found: Mapping[str, Sequence[Rates]]) -> bool:
    """Print a table for each tree beside the first; return whether nothing is lost."""
    mine, *others = found
    kept = True
    for other in others:
        rows = compared(found[mine], found[other])
        print(f"\n{'per second':32}{mine[-11:]:>12}{other[-11:]:>12}{'ratio':>9}  rounds")
        for row in rows:
            print(row.text(), flush=True)
        kept &= bool(rows) and not any(row.lost for row in rows)
    return kept


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    extent = SMALL if options.small else WHOLE
    folder = options.programs or KEPT / ("small" if options.small else "programs")
    folder.mkdir(parents=True, exist_ok=True)
    trees = {"this tree": ROOT, **{given: tree_folder(given) for given in options.against}}
    jobs = jobs_of(extent, folder, options.only)
    if not jobs:
        raise HostError(f"Nothing of the list is called {' or '.join(options.only)}.")
    found: dict[str, list[Rates]] = {name: [] for name in trees}
    failed = False
    for number in range(options.rounds):
        for name, tree in trees.items():
            print(f"round {number + 1} of {options.rounds}: {name}", file=sys.stderr, flush=True)
            rates, faults = run_tree(tree, jobs, options)
            found[name].append(rates)
            for fault in faults:
                print(f"{name}: {fault}", file=sys.stderr, flush=True)
            failed |= bool(faults)
    kept = show(found)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    return 0 if kept and not failed else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except HostError as error:
        sys.exit(str(error))

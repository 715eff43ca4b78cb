"""`serve.py bench --against`: this tree and others in turns. The work is tests/bench/trees."""

from __future__ import annotations

import argparse
import os
import subprocess
from pathlib import Path

from webpte_host.base.descriptions import described
from webpte_host.base.layout import PYSRC, ROOT
from webpte_host.setup import chromium, environment

AGAINST = "--against"


def parser() -> argparse.ArgumentParser:
    """Return the parser of the comparison, which `bench.trees.compare` uses, too."""
    made = argparse.ArgumentParser(
        prog=f"serve.py bench {AGAINST}",
        description=described(
            "Compares the speed of this tree with others', in turns over a fixed list of programs."
        ),
    )
    made.add_argument(
        AGAINST, nargs="+", required=True, metavar="TREE", help="folders with sources, or commits"
    )
    made.add_argument("--device", choices=("webgpu", "native"), default="webgpu")
    made.add_argument("--adapter", choices=chromium.ADAPTERS, default="hardware")
    made.add_argument("--f16", action="store_true", help="f16 and matrices on NVIDIA's driver")
    made.add_argument("--rounds", type=int, default=3)
    made.add_argument("--only", nargs="+", default=(), help="names of the list, such as qwen3")
    made.add_argument("--small", action="store_true", help="one layer and few tokens: does it run?")
    made.add_argument("--programs", type=Path, help="a folder that has the programs or their heads")
    made.add_argument("--seconds", type=float, default=600, help="of a tree's turn (%(default)s)")
    made.add_argument("--json", type=Path, help="write all rates to this file")
    return made


def run(arguments: list[str]) -> int:
    """Run the comparison in the environment, with the writers of the tests."""
    options = parser().parse_args(arguments)
    python = environment.ensure(with_browser=options.device == "webgpu")
    paths = os.pathsep.join(map(str, (PYSRC, ROOT / "tests")))
    command = [str(python), "-m", "bench.trees.compare", *arguments]
    return subprocess.run(command, env={**os.environ, "PYTHONPATH": paths}, check=False).returncode

"""Writes models for timing tasks, and times them on this machine's GPU.

    PYTHONPATH=pysrc:tests python -m bench.task_bench --write FOLDER [--tiny] [--only whisper]
        [--quantize 4w]     # in the environment of `serve.py export`
    PYTHONPATH=pysrc:tests python -m bench.task_bench FOLDER [--device native]
        [what=speech,pictures seconds=30 tokens=100 runs=3 ...]

The first writes FOLDER/whisper and FOLDER/smolvlm, of the sizes of whisper-tiny and SmolVLM-256M,
and an archive of each beside it; their weights repeat themselves (see repeating_models.py). The
second prints the figures of `task_page.py`, which takes the same settings in a browser:

    python -m bench.page_site SITE; tar xf FOLDER/whisper.tar.xz -C SITE
        # then serve SITE, and open page.html?script=task_page.py&what=speech
"""

from __future__ import annotations

import argparse
import asyncio
import json
from pathlib import Path

from bench.task_page import Bench, measure

MODELS = ("whisper", "smolvlm")


def write(options: argparse.Namespace) -> None:
    """Export the models, and pack each."""
    from bench.repeating_models import export_model, pack

    for name in options.only:
        report = export_model(name, options.write, tiny=options.tiny, quantize=options.quantize)
        print(report.text())
        if not report.passed:
            raise SystemExit(f"{name}: {report.problem}")
        archive = pack(options.write / name)
        print(f"{archive}: {archive.stat().st_size / 1e6:.1f} MB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", help="with the models that --write has written")
    parser.add_argument("settings", nargs="*", help="those of task_page.py, as NAME=VALUE")
    parser.add_argument("--device", default="native")
    parser.add_argument("--write", type=Path, help="write the models to this folder instead")
    parser.add_argument("--only", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--tiny", action="store_true", help="much smaller models, to try it out")
    parser.add_argument("--quantize", help="8w, 4w or none; by default what suits the model")
    options = parser.parse_args()
    if options.write:
        write(options)
        return
    if not options.folder:
        parser.error("give a folder with the models, or --write FOLDER")
    asked = dict(one.split("=", 1) for one in options.settings)
    bench = Bench(options.folder, asked, print, options.device)
    print(json.dumps(json.loads(asyncio.run(measure(bench))), indent=1))


if __name__ == "__main__":
    main()

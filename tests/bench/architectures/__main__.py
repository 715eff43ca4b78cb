"""Exports and checks the architectures. Results are kept in the JSON file, where a run resumes."""

from __future__ import annotations

import argparse
import asyncio
import fnmatch
import json
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from bench.architectures.groups import GROUPS
from bench.architectures.language_models import FAMILIES, try_family
from bench.architectures.rows import Architecture
from bench.architectures.table import family_key, render, render_families
from webpte_export.errors import ExportError
from webpte_export.exporter import export
from webpte_export.exporter_patches import patch_exporter
from webpte_export.suites.suite import run_entry


def main(arguments: list[str]) -> int:
    options = _parse(arguments)
    patch_exporter()
    results: dict[str, Any] = {}
    if options.json and options.json.exists():
        results = json.loads(options.json.read_text(encoding="utf-8"))
    done = set() if options.again else set(results)
    ends = time.monotonic() + options.seconds
    for name, work in _rows(options.device):
        if name in done or not fnmatch.fnmatchcase(name, options.filter):
            continue
        if time.monotonic() > ends:
            break
        results[name] = _try(name, work, options.limit)
        if options.json:
            options.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    if options.doc:
        names = {title: [row.name for row in rows] for title, rows in GROUPS.items()}
        text = render(names, results, options.device)
        text += render_families([family.name for family in FAMILIES], results)
        options.doc.write_text(text, encoding="utf-8")
    return 0


def _rows(device: str) -> Iterator[tuple[str, Callable[[Path], dict[str, Any]]]]:
    """Yield the name of each result, and the function that gets it in an empty folder."""
    for row in (row for rows in GROUPS.values() for row in rows):
        yield row.name, partial(_export, row, device=device)
    for family in FAMILIES:
        yield family_key(family.name), partial(try_family, family)


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.architectures", description=__doc__)
    parser.add_argument("--filter", default="*", help="run only those that match, such as 'gpt*'")
    parser.add_argument("--json", type=Path, help="file of results; those in it are not run again")
    parser.add_argument("--again", action="store_true", help="run those in the JSON file, too")
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="start no more after this time"
    )
    parser.add_argument("--limit", type=int, default=600, help="seconds for each, at most")
    parser.add_argument("--doc", type=Path, help="write the table to this file")
    parser.add_argument("--device", choices=("numpy", "native"), default="numpy")
    return parser.parse_args(arguments)


def _try(name: str, work: Callable[[Path], dict[str, Any]], limit: int) -> dict[str, Any]:
    started = time.monotonic()
    signal.signal(signal.SIGALRM, _stop)
    signal.alarm(limit)
    with tempfile.TemporaryDirectory() as folder:
        try:
            result = work(Path(folder))
        except ExportError as error:
            result = {"refused": str(error), "passed": False}
        except Exception as error:  # of the architecture's own code, or ours: report it, too
            result = {"refused": f"{type(error).__name__}: {error}", "passed": False}
        finally:
            signal.alarm(0)
    verdict = "ok" if result["passed"] else result.get("refused") or result["problem"]
    print(f"{name} ({time.monotonic() - started:.0f} s): {verdict}", flush=True)
    return result


def _stop(*_: Any) -> None:
    raise TimeoutError("it took too long")


def _export(row: Architecture, folder: Path, device: str) -> dict[str, Any]:
    report = export(**row.build(), path=folder / row.name)
    result = report.json()
    if device != "numpy":
        (entry,) = json.loads((report.suite / "manifest.json").read_text(encoding="utf-8"))
        result |= _run_on(device, report.suite, entry)
    return result


def _run_on(device: str, suite: Path, entry: dict[str, Any]) -> dict[str, Any]:
    async def fetch_bytes(path: str) -> bytes:
        return (suite / path).read_bytes()

    found = asyncio.run(run_entry(entry, fetch_bytes, device, locate=lambda path: suite / path))
    errors = [row["max_abs"] for row in found["outputs"]]
    return {
        "passed": found["verdict"] == "passed",
        "problem": found["error"],
        "max_abs": None if not errors or None in errors else max(errors),
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

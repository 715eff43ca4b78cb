"""Packs cases of a suite into a zip for the repository.

    pack_suite.py SUITE_DIR OUT.zip --family unary --family view --max-kb 20
    pack_suite.py SUITE_DIR OUT.zip --filter 'add*' --append
    pack_suite.py SUITE_DIR OUT.zip --cover --append

Run it as `PYTHONPATH=pysrc:tests python tests/support/write/pack_suite.py`. A case is packed if it
matches a --filter, all its operators are of the named families, its files are small enough, and it
passes on the NumPy references. --per-op takes the smallest of each operator; --cover takes cases
with a feature that no earlier case has: an operator, a kernel outside of delegates, a type of
either, or sizes that change from step to step.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import sys
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

ROOT = Path(__file__).resolve().parents[3]
if __name__ == "__main__":
    sys.path[:0] = [str(ROOT / "pysrc")]

from webpte.engine.graph.graph import PREPACK  # noqa: E402
from webpte.engine.ops import lookup  # noqa: E402
from webpte_host.commands.suites import read_manifest  # noqa: E402
from webpte_host.commands.verify import case_id, run_here  # noqa: E402

Entry: TypeAlias = "dict[str, Any]"
MANIFEST = "manifest.json"
_EPOCH = (2020, 1, 1, 0, 0, 0)


def files_of(entry: Entry) -> list[str]:
    """List the paths that an entry names: its program, inputs and goldens."""
    steps = entry.get("steps") or [{"inputs": entry["inputs"], "goldens": [entry["golden"]]}]
    tensors = [item["path"] for step in steps for item in (*step["inputs"], *step["goldens"])]
    return list(dict.fromkeys([entry["pte"], *tensors]))


def nbytes_of(suite: Path, entry: Entry) -> int:
    return sum((suite / name).stat().st_size for name in files_of(entry))


def family_of(op: str) -> str | None:
    """Return the module that defines an operator. Prepacks and SymInts belong to every family."""
    definition = lookup(op)
    if op == PREPACK or (definition is not None and definition.scalar is not None):
        return None
    return definition.lower.__module__.rpartition(".")[2] if definition else "unknown"


def choose(
    suite: Path,
    entries: Iterable[Entry],
    *,
    patterns: list[str],
    families: set[str],
    max_bytes: int | None,
    per_op: int | None,
    covered: set[str] | None = None,
) -> list[Entry]:
    """Choose cases, smallest first. With `covered`, only cases that add features to it."""
    taken: list[Entry] = []
    counts: Counter[str] = Counter()
    for entry in sorted(entries, key=lambda entry: nbytes_of(suite, entry)):
        name = case_id(entry)
        if patterns and not any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns):
            continue
        if max_bytes is not None and nbytes_of(suite, entry) > max_bytes:
            continue
        report = run_here(suite, entry)
        if report["verdict"] != "passed":
            continue
        named = {op: family for op in report["ops"] if (family := family_of(op)) is not None}
        if families and not set(named.values()) <= families:
            continue
        if per_op is not None and all(counts[op] >= per_op for op in named):
            continue
        if covered is not None:
            features = features_of(entry, report)
            if features <= covered:
                continue
            covered |= features
        counts.update(named.keys())
        taken.append(entry)
    return taken


def features_of(entry: Entry, report: dict[str, Any]) -> set[str]:
    """Return operators and kernels, and each with its types and kinds of shapes."""
    ops = {op for op in report["ops"] if family_of(op) is not None} | set(report["ran"]["host"])
    steps = entry.get("steps") or [{"inputs": entry["inputs"], "goldens": [entry["golden"]]}]
    tensors = [item for step in steps for item in (*step["inputs"], *step["goldens"])]
    kinds = {item["dtype"] for item in tensors} - {"float32"}
    if len({tuple(item["shape"]) for step in steps for item in step["inputs"][:1]}) > 1:
        kinds.add("dynamic")
    return ops | {f"{op} {kind}" for op in ops for kind in kinds}


def write_zip(path: Path, suite: Path, entries: list[Entry], *, append: bool = False) -> None:
    """Write a zip; equal cases give equal bytes. Appended cases must have new names."""
    contents: dict[str, bytes] = {}
    listed: list[Entry] = []
    if append and path.exists():
        with zipfile.ZipFile(path) as archive:
            contents = {name: archive.read(name) for name in archive.namelist()}
        listed = json.loads(contents.pop(MANIFEST))
    for entry in entries:
        if case_id(entry) in map(case_id, listed):
            raise SystemExit(f"{path.name} has {case_id(entry)} already")
        listed.append(entry)
        for name in files_of(entry):
            data = (suite / name).read_bytes()
            if contents.setdefault(name, data) != data:
                raise SystemExit(f"{path.name} has another {name} already")
    contents[MANIFEST] = json.dumps(sorted(listed, key=case_id), indent=1).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name in sorted(contents):
            info = zipfile.ZipInfo(name, _EPOCH)
            archive.writestr(info, contents[name], zipfile.ZIP_DEFLATED, compresslevel=9)


def read_entries(path: Path) -> list[Entry]:
    """Read the manifest of a packed suite."""
    with zipfile.ZipFile(path) as archive:
        entries: list[Entry] = json.loads(archive.read(MANIFEST))
    return entries


@contextmanager
def unpacked(path: Path) -> Iterator[Path]:
    """A folder with the unpacked suite."""
    with TemporaryDirectory() as folder, zipfile.ZipFile(path) as archive:
        archive.extractall(folder)
        yield Path(folder)


def _covered_by(path: Path) -> set[str]:
    """Collect the traits of the cases of a zip, if it is there."""
    covered: set[str] = set()
    if path.exists():
        with unpacked(path) as folder:
            for entry in read_entries(path):
                covered |= features_of(entry, run_here(folder, entry))
    return covered


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("suite", type=Path, help="folder with a manifest.json")
    parser.add_argument("out", type=Path, help="the zip to write")
    parser.add_argument("--filter", action="append", default=[], help="such as 'add*'; repeatable")
    parser.add_argument("--family", action="append", default=[], help="such as unary; repeatable")
    parser.add_argument("--max-kb", type=float, help="the largest total size of a case's files")
    parser.add_argument("--per-op", type=int, help="the largest number of cases per operator")
    parser.add_argument("--cover", action="store_true", help="only cases with a new feature")
    parser.add_argument("--append", action="store_true", help="add to OUT instead of replacing it")
    options = parser.parse_args()
    entries = choose(
        options.suite,
        [entry for entry in read_manifest(options.suite) if isinstance(entry, dict)],
        patterns=options.filter,
        families=set(options.family),
        max_bytes=None if options.max_kb is None else int(options.max_kb * 1024),
        per_op=options.per_op,
        covered=_covered_by(options.out) if options.cover else None,
    )
    if not entries:
        raise SystemExit("no case is left to pack")
    write_zip(options.out, options.suite, entries, append=options.append)
    print(f"{len(entries)} cases packed, {options.out.stat().st_size / 1024:.0f} KiB in all")


if __name__ == "__main__":
    main()

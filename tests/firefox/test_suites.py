"""The packed suites in Firefox, with a GPU's kernels and with the plain ones.

Every third model runs, and of the other suites the smallest cases of every family of operators;
with `--all` every case does.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from support.harness import extent, limits
from support.page.page import HarnessSource, python
from support.write import pack_suite
from webpte_host.base.layout import ROOT
from webpte_host.commands.verify import case_id, run_here

SUITES = sorted((ROOT / "tests" / "suites").glob("*.zip"))
WHOLE = "models"
PER_CALL = 20

RUN = """
from urllib.parse import quote
import js
from pyodide.http import pyfetch
from webpte_export.suites.variants import VariantRuns, described_variants

def locate(path):
    return f"{js.location.origin}/suite/{quote(folder)}/{quote(path)}"

async def fetch_bytes(path):
    reply = await pyfetch(locate(path))
    reply.raise_for_status()
    return await reply.bytes()

ways = await described_variants(["plain"], "webgpu")
runs = VariantRuns(fetch_bytes, "webgpu", locate=locate, progress=report_progress)
return [[way["label"], await runs.run(entry, way)] for entry in entries for way in ways]
"""


def families_of(folder: Path, entry: pack_suite.Entry) -> set[str]:
    """Return the families of a case's operators; running it in NumPy tells."""
    found = {pack_suite.family_of(op) for op in run_here(folder, entry)["ops"]}
    return {family for family in found if family is not None}


def choose(suites: Path) -> dict[str, list[pack_suite.Entry]]:
    """Choose cases by suite: some models, and the smallest case of each family of operators."""
    cases = [
        (path.stem, entry)
        for path in SUITES
        for entry in extent.share(pack_suite.read_entries(path), 3 if path.stem == WHOLE else 1)
    ]
    chosen: dict[str, list[pack_suite.Entry]] = {path.stem: [] for path in SUITES}
    seen: set[str] = set()
    for suite, entry in sorted(
        cases, key=lambda case: pack_suite.nbytes_of(suites / case[0], case[1])
    ):
        families = set() if suite == WHOLE else families_of(suites / suite, entry)
        if suite == WHOLE or extent.everything() or not families <= seen:
            chosen[suite].append(entry)
        seen |= families
    return chosen


def run_cases(
    source: HarnessSource, folder: str, entries: list[pack_suite.Entry]
) -> list[tuple[str, dict[str, Any]]]:
    """Run cases of a suite in both ways; returns the way and the result of each."""
    found: list[tuple[str, dict[str, Any]]] = []
    for at in range(0, len(entries), PER_CALL):
        given = {"folder": folder, "entries": entries[at : at + PER_CALL]}
        found += python(source.get(), RUN, timeout=limits.CALL_SECONDS, **given)
    return found


def test_every_case_passes_with_both_kinds_of_kernels(
    suites: Path, shared_harness: HarnessSource
) -> None:
    wrong, ways = [], Counter[str]()
    for suite, entries in choose(suites).items():
        for way, result in run_cases(shared_harness, suite, entries):
            ways[way] += 1
            if result["verdict"] != "passed":
                wrong.append(f"{suite}:{case_id(result)} ({way}): {result['error']}")
    assert not wrong, "\n".join(wrong)
    chosen, other = ways.values()
    assert chosen == other > 25

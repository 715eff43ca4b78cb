"""The packed suites in Firefox, with a GPU's kernels and with the plain ones.

Every third model runs with a GPU's kernels; with `--all` every case of every suite in both ways.
tests/native/test_naga.py compiles every kernel, plain ones too, with Firefox's compiler of shaders.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from support.harness import extent, limits
from support.page.page import HarnessSource, python
from support.write import pack_suite
from webpte_host.base.layout import ROOT
from webpte_host.commands.verify import case_id

SUITES = sorted((ROOT / "tests" / "suites").glob("*.zip"))
USUAL = "models"
PER_CALL = 20
OTHERS = extent.some([], "plain")

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

ways = await described_variants(requested, "webgpu")
runs = VariantRuns(fetch_bytes, "webgpu", locate=locate, progress=report_progress)
return [[way["label"], await runs.run(entry, way)] for entry in entries for way in ways]
"""


def choose() -> dict[str, list[pack_suite.Entry]]:
    """Choose cases by suite: some models, or with `--all` every case."""
    if extent.everything():
        return {path.stem: pack_suite.read_entries(path) for path in SUITES}
    (models,) = (path for path in SUITES if path.stem == USUAL)
    return {USUAL: extent.share(pack_suite.read_entries(models))}


def run_cases(
    source: HarnessSource, folder: str, entries: list[pack_suite.Entry]
) -> list[tuple[str, dict[str, Any]]]:
    """Run cases of a suite in all ways; returns the way and the result of each."""
    found: list[tuple[str, dict[str, Any]]] = []
    for at in range(0, len(entries), PER_CALL):
        given = {"folder": folder, "entries": entries[at : at + PER_CALL], "requested": OTHERS}
        found += python(source.get(), RUN, timeout=limits.CALL_SECONDS, **given)
    return found


def test_every_case_passes(shared_harness: HarnessSource) -> None:
    wrong, ways = [], Counter[str]()
    for suite, entries in choose().items():
        for way, result in run_cases(shared_harness, suite, entries):
            ways[way] += 1
            if result["verdict"] != "passed":
                wrong.append(f"{suite}:{case_id(result)} ({way}): {result['error']}")
    assert not wrong, "\n".join(wrong)
    chosen, *others = ways.values()
    assert chosen >= 5
    assert others == [chosen] * len(OTHERS)

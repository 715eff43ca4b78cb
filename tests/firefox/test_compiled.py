"""Compiled programs in Firefox: the same bytes as through Python, on the same adapter."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.compiling.cases import (
    compile_cases,
    compile_program,
    differences,
    run_by_python,
    run_compiled,
)
from support.harness import extent
from support.page.page import HarnessSource
from support.write import pack_suite
from webpte_host.base.layout import ROOT
from webpte_host.serving.routing import Mount
from webpte_host.serving.server import Site

SUITES = sorted((ROOT / "tests" / "suites").glob("*.zip"))
EVERY = 12  # of the cases, if a file is named
PER_CALL = 20

ANSWER = """
async (url) => {
    const { open } = await import(url);
    const program = await open();
    const found = [];
    for await (const token of program.generate([7, 8, 9], { maxNewTokens: 12 })) found.push(token);
    program.close();
    return found;
}
"""
BY_PYTHON = """
import webpte
async with await webpte.llm.load(url) as program:
    return [token async for token in webpte.llm.generate(program, [7, 8, 9], 12)]
"""


@pytest.mark.thorough  # Chromium runs a share of these, and native tests compile all for Firefox
@pytest.mark.parametrize("path", SUITES, ids=lambda path: path.stem)
def test_suites_have_the_same_bytes(
    shared_harness: HarnessSource, site: Site, suites: Path, tmp_path: Path, path: Path
) -> None:
    entries = extent.share([(path.stem, one) for one in pack_suite.read_entries(path)], EVERY)
    compiled, _ = compile_cases(entries, suites, tmp_path, "/suite/")
    apart = {}
    with site.mounted(Mount("/compiled/", tmp_path)):
        for at in range(0, len(compiled), PER_CALL):
            cases = compiled[at : at + PER_CALL]
            harness = shared_harness.get()
            expected = run_by_python(harness, cases)
            found = run_compiled(harness, f"{site.url}compiled/", cases)
            for case, mine, theirs in zip(cases, found, expected, strict=True):
                if why := differences(mine, theirs):
                    apart[case.name] = why
    assert apart == {}


@pytest.mark.thorough
def test_a_language_model_gives_the_same_tokens(
    shared_harness: HarnessSource, site: Site, tmp_path: Path
) -> None:
    name = "llama_tiny_q4.pte"
    compile_program(ROOT / "tests" / "data" / "llm" / name, tmp_path / "llama")
    harness = shared_harness.get()
    with site.mounted(Mount("/compiled/", tmp_path)):
        found = harness.page.evaluate(ANSWER, f"{site.url}compiled/llama/index.js")
    assert found == harness.python(BY_PYTHON, url=f"/data/llm/{name}")
    assert len(found) == 12

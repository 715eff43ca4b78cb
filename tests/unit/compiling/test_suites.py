"""Programs of the suites that cannot be compiled: few, and for reasons that name a step."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

from support.compiling.cases import compile_cases
from support.harness import extent
from support.write import pack_suite
from webpte_host.base.layout import ROOT

SUITES = sorted((ROOT / "tests" / "suites").glob("*.zip"))
PAGE = ROOT / "docs" / "use" / "compiled.md"


def test_what_cannot_be_compiled_is_counted(tmp_path: Path) -> None:
    entries = []
    for path in SUITES:
        with zipfile.ZipFile(path) as archive:
            archive.extractall(tmp_path / path.stem)
        entries += [(path.stem, entry) for entry in pack_suite.read_entries(path)]
    compiled, refused = compile_cases(
        extent.share(entries, 12), tmp_path, tmp_path / "out", "/suites/"
    )
    assert len(compiled) > 9 * len(refused)
    assert all(re.search(r"because (?:these run there: \w|it )", why) for why in refused.values())
    said = re.search(r"(\d+) of the (\d+) programs of the suites", PAGE.read_text("utf-8"))
    assert said is not None
    assert int(said[2]) == len(entries)
    assert len(refused) <= int(said[2]) - int(said[1])
    if extent.everything():
        assert len(compiled) == int(said[1])

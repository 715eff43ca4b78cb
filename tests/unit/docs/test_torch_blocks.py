"""Blocks of the docs that need PyTorch, in the export environment: docs/use/export.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.docs.documents import Block, all_blocks, compiled, run_python
from support.graphs.graphs import wait

torch = pytest.importorskip("torch")
pytest.importorskip("executorch.exir")

import webpte  # noqa: E402
import webpte_export  # noqa: E402

ORDER = ("model", "inputs", "dynamic_shapes")  # where `make` gives a tuple
BLOCKS = [block for block in all_blocks() if block.needs_torch]


def scope() -> dict[str, Any]:
    """The names that the text around the blocks mentions."""
    return {
        "torch": torch,
        "webpte": webpte,
        "model": torch.nn.Linear(8, 8),
        "inputs": (torch.randn(1, 8),),
    }


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_runs(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A function `make` is one for `serve.py export`: its result is exported, too."""
    monkeypatch.chdir(tmp_path)
    names = scope()
    # Exports start an event loop themselves, so only blocks with an await run in a loop.
    if "await " in block.text:
        wait(run_python(block, names))
    else:
        exec(compiled(block), names)
    if "make" in names:
        made = names["make"]()
        given = made if isinstance(made, dict) else dict(zip(ORDER, made, strict=False))
        report = webpte_export.export(path=tmp_path / "made", **given)
        assert report.passed, report.text()
    for program in tmp_path.rglob("*.pte"):
        assert wait(webpte.load(program, device="numpy")).methods

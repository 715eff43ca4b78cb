"""Folders of encoder-decoder models become programs with PyTorch's results.

These tests need the export environment, and are skipped elsewhere: docs/use/export.md.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest

from data.make.export_seq2seq import build
from support.graphs.graphs import wait
from support.page.conversations import tokens_of

pytest.importorskip("torch")
pytest.importorskip("executorch")

import webpte
from webpte_export import export_llm
from webpte_export.exporter_patches import patch_exporter

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    patch_exporter()  # before transformers, which imports torchvision
    pytest.importorskip("transformers")

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize(("family", "quantize"), [("t5", "8w"), ("marian", None)])
def test_a_folder_becomes_a_program(tmp_path: Path, family: str, quantize: str | None) -> None:
    source, out = tmp_path / "source", tmp_path / "out" / "model"
    build(family).save_pretrained(source)
    (source / "tokenizer_config.json").write_text("{}", encoding="utf-8")
    report = export_llm(source, out, quantize=quantize, max_context=16, max_chunk=4)
    assert report.passed, report.text()
    assert not [op for op in report.host_ops if op.where == "host"]
    assert json.loads((tmp_path / "out/tokenizer_config.json").read_text()) == {}
    assert (tmp_path / "out/generation_config.json").is_file()

    async def run() -> None:
        async with await webpte.load(report.program, device="numpy") as program:
            model = webpte.llm.Seq2Seq(program)
            assert model.max_context == 16
            assert model.max_source == 32
            tokens = await tokens_of(model.generate([3, 4, 5], 6))
            assert not {40} & set(tokens) or family == "t5", "its padding is never generated"

    wait(run())

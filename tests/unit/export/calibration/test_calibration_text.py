"""The text of a calibration: its choice, refused texts, and how it is cut."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from webpte_export.errors import ExportError
from webpte_export.llm.calibration import BUILT_IN, NEAREST, Rounding, choose_rounding
from webpte_export.llm.export import _PARAGRAPH, export_llm
from webpte_export.llm.source import Sizes, Source

TOKENIZER: dict[str, Any] = {
    "version": "1.0",
    "truncation": {"max_length": 9, "strategy": "LongestFirst", "stride": 0, "direction": "Right"},
    "padding": None,
    "added_tokens": [],
    "normalizer": None,
    "pre_tokenizer": {"type": "WhitespaceSplit"},
    "post_processor": None,
    "decoder": None,
    "model": {
        "type": "WordLevel",
        "vocab": {"?": 0, **{str(number): number for number in range(1, 9000)}},
        "unk_token": "?",
    },
}
SOURCE = Source(
    name="small",
    shape=Sizes("small", 1, 9000, 512),
    weights={},
    tokenizer=TOKENIZER,
    tokenizer_config={},
    bos=None,
    eos=(),
)


def test_the_built_in_text_is_not_the_one_that_is_measured() -> None:
    chosen = choose_rounding("4w", True, 0, _PARAGRAPH)
    assert chosen.text == BUILT_IN.read_text(encoding="utf-8")
    assert len(chosen.text.split()) > 2500
    assert choose_rounding("8w", False, 0, _PARAGRAPH) == NEAREST


def test_texts_that_are_refused(tmp_path: Path) -> None:
    missing, folder, binary = tmp_path / "no.txt", tmp_path, tmp_path / "b.txt"
    binary.write_bytes(b"text\xff\xfe")
    for path, says in (
        (missing, "no such file"),
        (folder, "cannot be read"),
        (binary, "not text in UTF-8 \\(byte 4\\)"),
    ):
        with pytest.raises(ExportError, match=says):
            choose_rounding("4w", path, 0, _PARAGRAPH)
    same = tmp_path / "same.txt"
    same.write_text("Before it. " + _PARAGRAPH.replace(". ", ".\n") + " After it.")
    with pytest.raises(ExportError, match="calibrate with another text"):
        choose_rounding("4w", same, 0, _PARAGRAPH)


def test_arguments_that_do_not_go_together(tmp_path: Path) -> None:
    for quantize in ("8w", None):
        with pytest.raises(ExportError, match="choose 4w or 8da4w"):
            export_llm(tmp_path, tmp_path / "out", quantize=quantize, calibrate=True)
    with pytest.raises(ExportError, match="keep_8w needs calibrate"):
        export_llm(tmp_path, tmp_path / "out", quantize="4w", keep_8w=3)
    with pytest.raises(ExportError, match="number of layers"):
        export_llm(tmp_path, tmp_path / "out", quantize="4w", calibrate=True, keep_8w=-1)


def test_pieces_come_from_the_whole_text() -> None:
    pytest.importorskip("tokenizers")
    whole = " ".join(str(number) for number in range(1, 9000))
    pieces = Rounding(whole).pieces(SOURCE, 64)
    assert len(pieces) == 32
    assert {len(piece) for piece in pieces} == {64}
    assert pieces[0][0] == 1
    assert pieces[-1][-1] > 8500
    assert all(after[0] > before[-1] for before, after in itertools.pairwise(pieces))
    assert [len(piece) for piece in Rounding(whole).pieces(SOURCE, 4000)] == [512] * 17
    assert NEAREST.pieces(SOURCE, 64) == []


@pytest.mark.parametrize("text", ["", "1 2 3", " ".join(["7"] * 511)])
def test_a_text_that_is_too_short(text: str) -> None:
    pytest.importorskip("tokenizers")
    count = len(text.split())
    with pytest.raises(ExportError, match=f"a.txt has {count} tokens; calibration needs"):
        Rounding(text, "a.txt").pieces(SOURCE, 64)


def test_models_that_take_one_token_at_a_time() -> None:
    pytest.importorskip("tokenizers")
    with pytest.raises(ExportError, match="one token at a time"):
        Rounding("1 2 3").pieces(SOURCE, 1)

"""The example's own code, without its weights: tokens and batches."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

VOCABULARY = "[PAD]\n[UNK]\n[CLS]\n[SEP]\nrain\n##ing\n##s\ntres\n!\n雨\na\n_"


@pytest.fixture(scope="module")
def rank(root: Path) -> ModuleType:
    path = root / "docs/examples/sentence_encoder/rank.py"
    spec = importlib.util.spec_from_file_location("rank", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# Expected: the tokens of the `tokenizers` package for the same vocabulary.
@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Raining", [2, 4, 5, 3]),
        ("rains  rain!", [2, 4, 6, 4, 8, 3]),
        ("Très!", [2, 7, 8, 3]),
        ("a雨雨_a", [2, 10, 9, 9, 11, 10, 3]),
        ("rainx a", [2, 1, 10, 3]),
        ("", [2, 3]),
    ],
)
def test_word_pieces(rank: ModuleType, text: str, tokens: list[int]) -> None:
    assert rank.WordPieces(VOCABULARY).encode(text, 64) == tokens


def test_long_text_is_cut_and_keeps_its_end_mark(rank: ModuleType) -> None:
    assert rank.WordPieces(VOCABULARY).encode("a " * 50, 6) == [2, 10, 10, 10, 10, 3]


def test_shorter_rows_are_padded(rank: ModuleType) -> None:
    assert rank._padded([[2, 3], [2, 10, 3]]).tolist() == [[2, 3, 0], [2, 10, 3]]

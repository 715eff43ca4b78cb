"""The bench of perplexity: its figures, and texts and variants that it cannot measure."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

from bench import perplexity
from bench.perplexity import Sums
from support.graphs.small_llm import VOCABULARY, logits_of, small_llm
from support.page.chat_page import TOKENIZER
from support.page.chats import Q4
from webpte.errors import InputError

TOKENS = [3, 1, 7, 10, 2, 2, 9, 0, 4, 11, 5, 6, 8]


def log_p(logits: np.ndarray) -> np.ndarray:
    found: np.ndarray = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return found


def test_the_perplexity_of_windows() -> None:
    """Each window begins without the tokens before it; a call takes half a window."""
    said = list[str]()
    found = asyncio.run(
        perplexity.measure(
            small_llm(),
            TOKENS,
            ["half_products", "int8_products"],
            window=6,
            rows=3,
            device="numpy",
            say=said.append,
        )
    )
    windows = [log_p(logits_of(TOKENS[at : at + 6]).astype("f8")) for at in (0, 6)]
    following = np.array(TOKENS[1:]).reshape(2, 6)
    p = np.take_along_axis(np.array(windows), following[..., None], 2)
    assert list(found) == ["floats"]
    assert found["floats"]["perplexity"] == pytest.approx(np.exp(-p.mean()), rel=1e-5)
    assert found["floats"]["equal_percent"] == 100
    assert found["floats"]["divergence"] == found["floats"]["largest_difference"] == 0
    assert sum("left out" in line for line in said) == 2
    assert "| floats |" in perplexity.table(found)


def test_figures_of_a_variant() -> None:
    random = np.random.default_rng(0)
    floats = random.normal(size=(100, VOCABULARY)).astype(np.float32)
    other = floats + random.normal(size=floats.shape).astype(np.float32) / 8
    following = random.integers(0, VOCABULARY, 100)
    sums, reference = Sums(), Sums()
    for part in (slice(0, 70), slice(70, 100)):
        sums.add(other[part], floats[part], following[part])
        reference.add(floats[part], floats[part], following[part])
    row, want, got = sums.row(reference), log_p(floats.astype("f8")), log_p(other.astype("f8"))
    lost = -got[np.arange(100), following]
    more = lost + want[np.arange(100), following]
    assert row == pytest.approx(
        {
            "perplexity": np.exp(lost.mean()),
            "more_percent": 100 * np.expm1(more.mean()),
            "error_percent": 100 * more.std() / 10,
            "largest_difference": np.abs(other - floats).max(),
            "mean_difference": np.abs(other - floats).mean(),
            "divergence": (np.exp(want) * (want - got)).sum(1).mean(),
            "equal_percent": (got.argmax(1) == want.argmax(1)).sum(),
        },
        rel=1e-5,
    )
    assert row["equal_percent"] < 100


@pytest.mark.parametrize(("window", "rows"), [(13, 13), (6, 4)])
def test_a_text_that_has_no_window(window: int, rows: int) -> None:
    measuring = perplexity.measure(
        small_llm(), TOKENS, [], window=window, rows=rows, device="numpy"
    )
    with pytest.raises(InputError, match=f"12 tokens in windows of {window}"):
        asyncio.run(measuring)


def test_calls_longer_than_the_program_takes() -> None:
    measuring = perplexity.measure(small_llm(), TOKENS, [], window=12, rows=12, device="numpy")
    with pytest.raises(InputError, match="takes 8 tokens, not 12; try fewer --rows"):
        asyncio.run(measuring)


def test_a_text_and_its_tokenizer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "text.txt"
    (tmp_path / "tokenizer.json").symlink_to(TOKENIZER)
    (tmp_path / "model.pte").symlink_to(Q4)
    text.write_text("Once upon a time, there was a little girl named Lily. " * 20)
    how = ["--window", "16", "--rows", "16", "--tokens", "40", "--device", "numpy", "--variants"]
    monkeypatch.setattr("sys.argv", ["perplexity", str(tmp_path / "model.pte"), str(text), *how])
    perplexity.main()
    told = capsys.readouterr().out
    assert "32 tokens\n" in told
    (row,) = (line for line in told.splitlines() if line.startswith("| floats"))
    assert float(row.split("|")[2]) > 1

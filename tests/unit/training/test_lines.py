"""Lines become rows of tokens with targets: the next token for each, only answers for pairs."""

from __future__ import annotations

import numpy as np
import pytest

from support.graphs.graphs import wait
from support.llm.training_models import folder, tokenizer
from webpte.errors import ChatTemplateError, InputError
from webpte.llm.text import load_tokenizer
from webpte.training.lines import UNCOUNTED, Batches, LineTokens, examples_of, read_lines

LENGTH = 8


def batches(examples: list[LineTokens], rows: int = 2, packed: bool = False) -> Batches:
    return Batches(examples, rows, LENGTH, np.random.default_rng(1), packed)


def test_a_text_is_split_into_lines_and_pairs() -> None:
    text = "One line.\n\n  Who? => I.  \nno => \n=> no\na => b => c\n"
    assert read_lines(text) == ["One line.", ("Who?", "I."), "no =>", "=> no", ("a", "b => c")]


def test_a_line_begins_and_ends_as_the_tokenizer_says() -> None:
    known = wait(tokenizer())
    (one,) = examples_of(["gulls"], known, 64)
    assert one.tokens == (0, *known.encode("gulls", special=False), 1)
    assert one.given == 1


def test_of_a_pair_the_answer_alone_is_learned() -> None:
    known = wait(tokenizer())
    (one,) = examples_of([("Who?", "gulls")], known, 64)
    assert known.decode(one.tokens, special=True) == "<s>u:Who?a:gulls</s>"
    assert known.decode(one.tokens[one.given :], special=True) == "gulls</s>"
    bare = wait(load_tokenizer(folder() / "tokenizer.json", config=b"{}"))
    with pytest.raises(ChatTemplateError, match="line 2 is a question with its answer"):
        examples_of(["a text", ("Who?", "gulls")], bare, 64)


def test_long_lines_are_cut_and_no_token_is_lost() -> None:
    known = wait(tokenizer())
    line = "The ferry leaves at nine and comes back before the tide turns."
    (whole,) = examples_of([line], known, 500)
    parts = examples_of([line], known, LENGTH)
    assert len(parts) > 2
    assert all(2 <= len(one.tokens) <= LENGTH + 1 for one in parts)
    learned = [token for one in parts for token in one.tokens[one.given :]]
    assert learned == list(whole.tokens[1:])
    with pytest.raises(InputError, match="line 1: its question takes"):
        examples_of([(line, "yes")], known, LENGTH)


@pytest.mark.parametrize("lines", ["one text", [], [""], [("a", "b", "c")], [("a", 1)]])
def test_what_are_no_lines(lines: object) -> None:
    bare = wait(load_tokenizer(folder() / "tokenizer.json", config=b"{}"))
    with pytest.raises(InputError):
        examples_of(lines, bare, LENGTH)  # type: ignore[arg-type]


def test_rows_have_the_next_tokens_as_targets() -> None:
    tokens, targets = batches([LineTokens((5, 6, 7, 8), 2)], rows=1).next()
    assert tokens.tolist() == [[5, 6, 7, 0, 0, 0, 0, 0]]
    assert targets.tolist() == [[UNCOUNTED, 7, 8, *[UNCOUNTED] * 5]]


def test_every_line_comes_once_before_any_comes_again() -> None:
    made = batches([LineTokens((n, n + 100), 1) for n in range(6)])
    for _ in range(3):
        seen = [int(row[0]) for _ in range(3) for row in made.next()[0]]
        assert sorted(seen) == list(range(6))


def test_packed_rows_have_several_lines() -> None:
    examples = [LineTokens((n, 10 + n, 20 + n, 30 + n), 1) for n in range(1, 5)]
    tokens, targets = batches(examples, packed=True).next()
    for row, wanted in zip(tokens, targets, strict=True):
        starts = row[[0, 3]]
        np.testing.assert_array_equal(row[:6] % 10, np.repeat(starts, 3))
        np.testing.assert_array_equal(wanted[:6], row[:6] + 10)
        assert row[6:].tolist() == [0, 0]
        assert wanted[6:].tolist() == [UNCOUNTED] * 2
    assert sorted(tokens[:, [0, 3]].ravel().tolist()) == [1, 2, 3, 4]

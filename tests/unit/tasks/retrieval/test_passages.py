"""Passages: whole sentences where they fit, in one section, with what neighbours have in common."""

from __future__ import annotations

import random

import pytest

from webpte.errors import InputError
from webpte.tasks.retrieval import Document, PassagePlace, cut_document


def words(text: str) -> int:
    return len(text.split())


def cut(text: str, most: int, overlap: int = 0) -> list[str]:
    document = Document.of_text(text, "a.txt")
    places = cut_document(document, most, overlap, words)
    return [document.text[place.start : place.end] for place in places]


def test_sentences_are_packed() -> None:
    text = "One two three. Four five! Six? Seven eight nine ten."
    assert cut(text, 5) == ["One two three. Four five!", "Six? Seven eight nine ten."]
    assert cut(text, 3) == ["One two three.", "Four five! Six?", "Seven eight nine", "ten."]
    assert cut(text, 100) == [text]
    assert cut("", 5) == cut("  \n\n ", 5) == cut("--- * ---", 5) == []


def test_neighbours_have_sentences_in_common() -> None:
    text = "One two. Three four. Five six. Seven."
    assert cut(text, 4, 2) == ["One two. Three four.", "Three four. Five six.", "Five six. Seven."]
    assert cut(text, 4, 1) == ["One two. Three four.", "Five six. Seven."]


def test_a_paragraph_ends_a_passage_that_is_half_full() -> None:
    assert cut("One two three.\n\nFour five.", 6) == ["One two three.", "Four five."]
    assert cut("One two.\n\nFour five.", 6) == ["One two.\n\nFour five."]


def test_long_words_are_cut() -> None:
    document = Document.of_text("x" * 25 + " yes", "a.txt")
    assert [(p.start, p.end) for p in cut_document(document, 10, 0)] == [
        (0, 10),
        (10, 20),
        (20, 29),
    ]


def test_sections_are_kept_apart() -> None:
    document = Document.of_pages(["One two.", "", "Three."], "a.pdf")
    found = cut_document(document, 50, 5)
    assert found == [PassagePlace(0, 8, 1), PassagePlace(10, 16, 3)]
    headed = Document.of_markdown("# A\nOne.\n## B\nTwo.", "a.md")
    assert [place.heading for place in cut_document(headed)] == ["A", "A > B"]


@pytest.mark.parametrize(("most", "overlap"), [(0, 0), (5, 5), (5, -1)])
def test_sizes_are_checked(most: int, overlap: int) -> None:
    with pytest.raises(InputError, match="in common"):
        cut_document(Document.of_text("a", "a"), most, overlap)


def test_passages_of_random_texts() -> None:
    chance = random.Random(3)
    for _ in range(60):
        parts = ["a", "bc", "defghi", ". ", "! ", "\n", "\n\n", " ", "x" * 30, "東京。", "- "]
        text = "".join(chance.choice(parts) for _ in range(chance.randint(0, 200)))
        most = chance.randint(1, 40)
        document = Document.of_text(text, "a.txt")
        places = cut_document(document, most, chance.randrange(most))
        covered = set[int]()
        for place in places:
            inside = text[place.start : place.end]
            assert inside == inside.strip()
            assert len("".join(inside.split())) <= most
            covered |= set(range(place.start, place.end))
        assert places == sorted(places, key=lambda place: (place.start, place.end))
        assert all(at in covered for at, c in enumerate(text) if c.isalnum())

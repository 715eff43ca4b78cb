"""docs/reference/decoders.md names each family of language models, with the latest result."""

from __future__ import annotations

from support.docs.decoder_table import FILE, digest, page_of, pinned, rows_of
from support.llm.decoder_families import FAMILIES

_PAGE = FILE.read_text(encoding="utf-8")


def test_the_page_is_that_of_the_families() -> None:
    """Otherwise `python -m support.docs.decoder_table NAME` tries a family again."""
    rows = rows_of(_PAGE)
    digests = {family.name: digest(family) for family in FAMILIES}
    assert {name: made for name, (made, _) in rows.items()}.items() <= digests.items()
    assert len(rows) > len(FAMILIES) / 2
    assert page_of(rows, pinned()) == _PAGE


def test_refusals_say_why() -> None:
    reasons = ("cannot be given a cache of fixed size: ", "does not keep its state in", ", line ")
    refused = [rest for _, rest in rows_of(_PAGE).values() if " | " not in rest]
    assert 0 < len(refused) < len(FAMILIES) / 10
    for sentence in refused:
        assert any(reason in sentence for reason in reasons), sentence

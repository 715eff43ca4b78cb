"""Tasks in Firefox give what transformers' pipelines give."""

from __future__ import annotations

from support.page.task_page import check_tasks
from webpte_host.harness.browser import Harness


def test_things_and_words_in_a_picture(harness: Harness) -> None:
    """One program of one method, and one of two, with a tokenizer."""
    check_tasks(harness, ("object-detection", "zero-shot-image-classification"))

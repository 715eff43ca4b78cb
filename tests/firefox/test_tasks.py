"""Tasks in Firefox give what their references give, as in tests/browser/programs/test_tasks.py."""

from __future__ import annotations

import pytest

import webpte
from support.harness.extent import share
from support.page.task_page import check_task
from webpte_host.harness.browser import Harness


@pytest.mark.thorough  # test_page.py answers by a task, and Chromium has them all
@pytest.mark.parametrize("task", share(webpte.tasks.names(), 6))
def test_results_are_those_of_the_reference(harness: Harness, task: str) -> None:
    check_task(harness, task)

"""For all tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from webpte_host.layout import ROOT


@pytest.fixture(scope="session")
def root() -> Path:
    """The top of the checkout."""
    return ROOT


def pytest_addoption(parser: pytest.Parser) -> None:
    """For tests/unit/test_schedules_*.py: more schedules than usual, or others."""
    parser.addoption("--schedules", type=int, default=10_000, help="how many schedules to run")
    parser.addoption("--seed", type=int, default=0, help="what schedules are made from")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Browser tests last: Playwright's event loop, once started, is in the way of asyncio.run."""
    items.sort(key=lambda item: item.path.is_relative_to(ROOT / "tests" / "browser"))

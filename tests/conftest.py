"""For all tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from webpte_host.layout import ROOT


@pytest.fixture(scope="session")
def root() -> Path:
    """The top of the checkout."""
    return ROOT


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Browser tests last: Playwright's event loop, once started, is in the way of asyncio.run."""
    items.sort(key=lambda item: item.path.is_relative_to(ROOT / "tests" / "browser"))

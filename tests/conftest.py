"""For all tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from webpte_host.layout import ROOT


@pytest.fixture(scope="session")
def root() -> Path:
    """The top of the checkout."""
    return ROOT

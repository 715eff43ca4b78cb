"""Many mixed requests: each has a status that it may have, and the server's memory stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.api.api_soak import run
from support.harness import extent

GROWTH = 40  # MiB: the pixels of a picture, the allocator's arenas


@pytest.mark.timeout(0)
def test_memory_stays_flat(tmp_path: Path) -> None:
    start, middle, end = run(tmp_path, extent.count(1, 250))
    assert middle < start + GROWTH
    assert end < middle + GROWTH / 2

"""Small language models for all tests of this folder."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def q4(root: Path) -> Path:
    return root / "tests/data/llm/llama_tiny_q4.pte"


@pytest.fixture
def fp32(root: Path) -> Path:
    return root / "tests/data/llm/llama_tiny_fp32.pte"

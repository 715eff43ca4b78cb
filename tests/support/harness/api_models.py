"""Folders of models for the API: a program with its tokenizer."""

from __future__ import annotations

import shutil
from pathlib import Path

from support.harness.texts import tokenizer_path
from support.page.chats import Q4


def copy_tiny_model(folder: Path) -> Path:
    """Make a folder with a small language model; return it."""
    folder.mkdir()
    shutil.copy(Q4, folder)
    for file in tokenizer_path("bytes").parent.iterdir():
        shutil.copy(file, folder)
    return folder

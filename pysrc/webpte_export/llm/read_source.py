"""Reads a language model from a GGUF file or a folder."""

from __future__ import annotations

from pathlib import Path

from webpte_export.errors import ExportError
from webpte_export.llm.from_gguf import read_gguf
from webpte_export.llm.huggingface import read_folder
from webpte_export.llm.other_models import read_other
from webpte_export.llm.source import OtherArchitectureError, Source


def read_source(source: str | Path) -> Source:
    """Read a GGUF file, or a folder with config.json, *.safetensors and tokenizer.json."""
    path = Path(source)
    if "\0" in str(path):
        raise ExportError(f"{str(path)!r} cannot be the name of a file or folder.")
    if path.is_dir():
        try:
            return read_folder(path)
        except OtherArchitectureError:
            return read_other(path)
    if path.suffix == ".gguf" and path.is_file():
        return read_gguf(path)
    if not path.exists():
        raise ExportError(f"{path}: there is no such file or folder.")
    raise ExportError(
        f"{path} is neither a .gguf file nor a folder with config.json and *.safetensors."
    )

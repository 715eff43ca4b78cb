"""A hundred architectures, small and with random weights: which of them export, and how they run.

    python -m webpte_export.architectures [--filter GLOB] [--json FILE] [--doc FILE] [--device D]

exports each, judges it against PyTorch, and writes a table. A new one is a row in one of the tables
beside this file.
"""

from __future__ import annotations

from webpte_export.architectures import classifiers, images, pretrained, sequences
from webpte_export.architectures.rows import Architecture

GROUPS: dict[str, tuple[Architecture, ...]] = {
    "Image classifiers": classifiers.ROWS,
    "Images and maps": images.ROWS,
    "Sequences, sets, graphs and tables": sequences.ROWS,
    "Hugging Face": pretrained.ROWS,
}

__all__ = ["GROUPS", "Architecture"]

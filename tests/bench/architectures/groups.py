"""All rows, in the order of the table."""

from __future__ import annotations

from bench.architectures import classifiers, images, pretrained, sequences
from bench.architectures.rows import Architecture

GROUPS: dict[str, tuple[Architecture, ...]] = {
    "Image classifiers": classifiers.ROWS,
    "Images and maps": images.ROWS,
    "Sequences, sets, graphs and tables": sequences.ROWS,
    "Hugging Face": pretrained.ROWS,
}

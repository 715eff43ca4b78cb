"""Magika: the type of a file from its bytes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from webpte_export.catalog.recipe import Network, Recipe, Value, Wheel

_FOLDER = "magika/models/standard_v3_3"
_HALF, _NOTHING = 1024, 256  # bytes from each end of a file; the padding


def build(files: Path) -> Network:
    import torch

    from webpte_export.networks.magika import FileType

    config = json.loads((files / _FOLDER / "config.min.json").read_text())
    labels = "".join(f"{label}\n" for label in config["target_labels_space"])
    samples = [Path(__file__).read_bytes(), (files / _FOLDER / "config.min.json").read_bytes()]
    return Network(
        FileType(files / _FOLDER / "model.onnx"),
        calls=[(torch.tensor([tokens_of(sample)]),) for sample in samples],
        files={"labels.txt": labels.encode()},
    )


def tokens_of(data: bytes) -> list[int]:
    """Return the first and last bytes of a file, without blanks at its ends."""
    first, last = list(data.lstrip()[:_HALF]), list(data.rstrip()[-_HALF:])
    return [*first, *[_NOTHING] * (2 * _HALF - len(first) - len(last)), *last]


def tell(outputs: Sequence[Any], folder: Path) -> str:
    labels = (folder / "labels.txt").read_text().splitlines()
    best = int(outputs[0][0].argmax())
    return f"the source of its own recipe is {labels[best]}, {outputs[0][0, best]:.1%} sure"


RECIPE = Recipe(
    name="file-type",
    title="Magika",
    task="kind of a file, of 214 kinds",
    licence="Apache-2.0",
    licence_from="magika-1.0.3.dist-info/METADATA",
    wheels=(
        Wheel(
            name="magika",
            version="1.0.3",
            sha256="3e9b49134e8116ee40b431664dcbed9e199413efddcce1a173c734b4e0521529",
            bytes=16_244_594,
            members=(f"{_FOLDER}/model.onnx", f"{_FOLDER}/config.min.json"),
            platform="manylinux_2_28_x86_64",
        ),
    ),
    bytes=3_200_000,
    view="run",
    inputs=(
        Value("tokens", "the first 1,024 bytes of a file and the last; 256 where there are fewer"),
    ),
    outputs=(Value("kinds", "how likely each kind is", labels="labels.txt"),),
    build=build,
    tell=tell,
)

"""Writes tests/data/tasks/reader.tar.xz, a small reader of lines, and read.json, its lines.

    PYTHONPATH=pysrc:tests python tests/data/make/make_reader.py

It needs the environment of `serve.py export`. The detector marks dark pixels, the classifier finds
every line upright, the recognizer has random letters. The task finds the expected lines when
PyTorch computes the three networks.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.export import Dim

from data.make.pack_folders import pack
from support.reader.reader_cases import EXPECTED, LETTERS, OPTIONS, READER, page
from webpte.engine.call.info import TensorInfo
from webpte.tasks.files import ModelFiles
from webpte.tasks.ocr.recognition import OpticalCharacterRecognition
from webpte_export.exporter import Clock, PreparedMethod, export_methods
from webpte_export.suite_writer import Tolerance

NAME = "reader"
MOST = 8  # steps of 32 pixels, a side of a page
LABELS = "".join(f"{letter}\n" for letter in ("", *LETTERS))


class Detector(nn.Module):
    """Pages (1, 3, height, width) -> how dark it is around each pixel."""

    def __init__(self) -> None:
        super().__init__()
        self.around = nn.Conv2d(3, 1, 3, padding=1)
        nn.init.constant_(self.around.weight, -8 / 27)
        nn.init.constant_(self.around.bias, 0.5)

    def forward(self, pages: Tensor) -> Tensor:
        return torch.sigmoid(self.around(pages))


class Classifier(nn.Module):
    """Lines (1, 3, 48, 192) -> shares of upright, and upside down."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Linear(48, 2)

    def forward(self, lines: Tensor) -> Tensor:
        return torch.softmax(self.rows(lines.mean((1, 3))), -1)


class Recognizer(nn.Module):
    """Lines (1, 3, 48, width) -> the score and the number of a letter for each 8 pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.columns = nn.Conv2d(3, 24, (48, 8), stride=(48, 8))
        self.letters = nn.Linear(24, 1 + len(LETTERS))

    def forward(self, lines: Tensor) -> tuple[Tensor, Tensor]:
        seen = torch.tanh(self.columns(lines).squeeze(2).transpose(1, 2) * 4)
        scores, letters = torch.softmax(self.letters(seen) * 8, -1).max(dim=-1)
        return scores, letters


class Networks:
    """The networks as a program, computed by PyTorch."""

    name = NAME

    def __init__(self, networks: Mapping[str, nn.Module], most: Mapping[str, Any]) -> None:
        self._networks = networks
        self.methods = {
            name: SimpleNamespace(
                inputs=(TensorInfo("x", shape, "float32", dynamic=True),), outputs=(None,) * outputs
            )
            for name, (shape, outputs) in most.items()
        }

    async def run(self, method: str, given: np.ndarray) -> tuple[np.ndarray, ...]:
        with torch.no_grad():
            found = self._networks[method](torch.from_numpy(given))
        return tuple(one.numpy() for one in (found if isinstance(found, tuple) else (found,)))


def main() -> None:
    torch.manual_seed(11)
    networks: dict[str, Any] = {
        "detector": Detector(),
        "classifier": Classifier(),
        "recognizer": Recognizer(),
    }
    with torch.no_grad():
        for network in networks.values():
            for weights in network.eval().parameters():
                weights.copy_((weights * 256).round() / 256)
    side, wide = 32 * MOST, 8 * 80
    most = {
        "detector": ((1, 3, side, side), 1),
        "classifier": ((1, 3, 48, 192), 1),
        "recognizer": ((1, 3, 48, wide), 2),
    }
    task: Any = OpticalCharacterRecognition(
        ModelFiles(Networks(networks, most), NAME, texts={"labels.txt": LABELS})  # type: ignore[arg-type]
    )
    found = asyncio.run(task(page(), **OPTIONS))
    print(json.dumps(found, indent=1))
    rows, columns = (32 * Dim(name, min=2, max=MOST) for name in ("rows", "columns"))
    shapes = {
        "detector": ({2: rows, 3: columns},),
        "recognizer": ({3: 8 * Dim("eighths", min=4, max=80)},),
    }
    sizes = {
        "detector": [(64, 96), (96, 64)],
        "classifier": [(48, 192)] * 2,
        "recognizer": [(48, 320), (48, 64)],
    }
    methods = {
        name: PreparedMethod(
            network, [(torch.randn(1, 3, *size),) for size in sizes[name]], shapes.get(name)
        )
        for name, network in networks.items()
    }
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work, NAME)
        folder.mkdir()
        (folder / "labels.txt").write_text(LABELS, encoding="utf-8")
        report = export_methods(
            *(methods, folder / "model.pte"),
            metadata=None,
            tolerance=Tolerance(1e-3, 1e-3),
            quantize=None,
            half=False,
            strict=False,
            clock=Clock(),
        )
        assert report.passed, report.problem
        pack(Path(work), READER, ["model.pte", "labels.txt"], [NAME])
    EXPECTED.write_text(json.dumps(found) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""The recognizer of PP-OCR, with the likeliest letter at each place as its result."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor, nn

from webpte_export.networks.onnx import OnnxNetwork


class Letters(nn.Module):
    """A network of lines of text, without the scores of unlikely letters, which stay on the GPU."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.network = OnnxNetwork(path)

    def forward(self, lines: Tensor) -> tuple[Tensor, Tensor]:
        scores, letters = self.network(lines).max(dim=-1)
        return scores, letters

"""An untrained encoder of texts: vectors of texts with common runs of letters are near.

Each letter has a vector of random signs. The vector of four letters in a row is the product of the
letters' vectors, each rotated by its place, so that other letters, or another order, give a nearly
orthogonal vector. A text's vector is the sum over all runs of four: the cosine of two texts is
about the share of runs in common.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

LETTERS = 257  # bytes, after padding
WIDTH = 256
IN_A_ROW = 4
MOST_TEXTS, MOST_LETTERS = 8, 512


class Words(nn.Module):
    """Sums of signs: tokens (texts, letters) to vectors (texts, WIDTH)."""

    signs: Tensor

    def __init__(self) -> None:
        super().__init__()
        random = torch.Generator().manual_seed(7)
        signs = torch.randint(0, 2, (LETTERS, WIDTH), generator=random) * 2.0 - 1
        signs[0] = 0  # padding: runs with it count nothing
        self.register_buffer("signs", signs)

    def forward(self, tokens: Tensor) -> Tensor:
        count = tokens.shape[1]
        letters = nn.functional.embedding(tokens, self.signs)  # (texts, letters, WIDTH)
        padded = nn.functional.pad(letters, (0, 0, 0, IN_A_ROW - 1))
        fours = letters
        for place in range(1, IN_A_ROW):
            moved = torch.cat([padded[:, :, place:], padded[:, :, :place]], dim=2)
            fours = fours * moved[:, place : place + count]
        return fours.sum(dim=1)

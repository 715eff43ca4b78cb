"""A sentence encoder: BERT, the mean over each sentence's tokens, and normalization."""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own habit
from torch import Tensor, nn
from transformers import AutoModel


class SentenceEncoder(nn.Module):
    """Tokens (sentences, length), padded with 0 -> (sentences, 384), each of unit length."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.bert = AutoModel.from_pretrained(folder, attn_implementation="eager")

    def forward(self, tokens: Tensor) -> Tensor:
        present = (tokens != 0).to(torch.float32)  # (sentences, length)
        mask = (1.0 - present)[:, None, None, :] * -1e9
        hidden = self.bert(tokens, attention_mask=mask).last_hidden_state
        # The sum replaces the mean, since only its direction is kept; a sum over some of the
        # tokens is a matrix product.
        total = (present[:, None, :] @ hidden).squeeze(1)  # (sentences, 384)
        return F.normalize(total, dim=-1)

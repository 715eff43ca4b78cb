"""Magika, which classifies files by their bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own habit
from torch import Tensor, nn

from webpte_export.networks.onnx_file import read_onnx

_EPSILON = 1e-6


class FileType(nn.Module):
    """Bytes (1, 2048), padded with 256 -> (1, 214), the probability of each file type.

    The ONNX file spells out operators that PyTorch has as functions, so the network is written
    here, and takes the weights by the ends of their names.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        arrays = read_onnx(path).constants

        def named(end: str) -> Tensor:
            (name,) = (name for name in arrays if name.endswith(end))
            return torch.from_numpy(np.squeeze(arrays[name]).copy())

        self.embedding = nn.Parameter(named("get_logits_/Const:0") + named("Dense_0/Reshape:0"))
        self.first_scale = nn.Parameter(named("LayerNorm_0/Reshape_2:0"))
        self.first_shift = nn.Parameter(named("LayerNorm_0/Reshape_3:0"))
        self.kernel = nn.Parameter(named("Conv_0/transpose_3:0"))  # (512, 256, 5)
        self.bias = nn.Parameter(named("const_fold_opt__209"))
        self.second_scale = nn.Parameter(named("LayerNorm_1/Reshape_2:0"))
        self.second_shift = nn.Parameter(named("LayerNorm_1/Reshape_3:0"))
        self.head = nn.Parameter(named("Const_24:0").T.contiguous())  # (214, 512)
        self.head_bias = nn.Parameter(named("Dense_1/Reshape:0"))

    def forward(self, tokens: Tensor) -> Tensor:
        x = F.gelu(F.embedding(tokens, self.embedding), approximate="tanh")  # (1, 2048, 64)
        # Four bytes form a position. The norm is over the 512 positions, not over the channels.
        x = x.reshape(-1, 512, 256).transpose(1, 2)  # (1, 256, 512)
        x = F.layer_norm(x, (512,), self.first_scale, self.first_shift, _EPSILON)
        x = F.gelu(F.conv1d(x, self.kernel, self.bias), approximate="tanh")  # (1, 512, 508)
        x = x.amax(-1)
        x = F.layer_norm(x, (512,), self.second_scale, self.second_shift, _EPSILON)
        return F.softmax(F.linear(x, self.head, self.head_bias), -1)

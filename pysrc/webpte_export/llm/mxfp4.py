"""Reads weights of 4 bits as gpt-oss has them in its files: MXFP4, 32 values with a scale.

`NAME_blocks` has two values in a byte, the lower half first, and `NAME_scales` exponents of two.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

_VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
_BIAS = 127  # of the exponents
_BLOCKS, _SCALES = "_blocks", "_scales"


def is_mxfp4(config: Any) -> bool:
    """Return whether the configuration of a model says that its weights are of this kind."""
    quantization = getattr(config, "quantization_config", None) or {}
    return isinstance(quantization, dict) and quantization.get("quant_method") == "mxfp4"


def floats_of(folder: Path) -> dict[str, Tensor]:
    """Read all weights of a folder; 4 bits become float32."""
    from safetensors.torch import load_file

    stored: dict[str, Tensor] = {}
    for file in sorted(folder.glob("*.safetensors")):
        stored |= load_file(file)
    found = {}
    for name, value in stored.items():
        if name.endswith(_BLOCKS):
            own = name.removesuffix(_BLOCKS)
            found[own] = dequantized(value, stored[own + _SCALES])
        elif not (name.endswith(_SCALES) and name.removesuffix(_SCALES) + _BLOCKS in stored):
            found[name] = value
    return found


def dequantized(blocks: Tensor, scales: Tensor) -> Tensor:
    """Return the weights (experts, inputs, outputs) of blocks (experts, outputs, groups, 16)."""
    values = torch.tensor([*_VALUES, *(-value for value in _VALUES)])
    halves = torch.stack([blocks & 15, blocks >> 4], -1).to(torch.int32)
    rows = values[halves].flatten(-2) * torch.exp2(scales.float() - _BIAS).unsqueeze(-1)
    return rows.flatten(-2).transpose(1, 2).contiguous()

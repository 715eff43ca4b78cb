"""The results of a training: weights and measurements."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn


def keep(model: nn.Module, measured: Mapping[str, Any], folder: Path, name: str) -> None:
    """Write NAME.pt and NAME.json, and print the latter."""
    parameters = sum(weight.numel() for weight in model.parameters())
    report = json.dumps({"parameters": parameters, **measured}, indent=1)
    print(report)
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(model.cpu().state_dict(), folder / f"{name}.pt")
    (folder / f"{name}.json").write_text(report + "\n")

"""Writes tests/data/rows: a model that PyTorch exported, and its results for many rows.

    PYTHONPATH=pysrc:tests python tests/data/make/make_rows.py

Run it in the export environment (docs/use/export.md).
"""

from __future__ import annotations

import numpy as np
import torch
from executorch.backends.vulkan.partitioner.vulkan_partitioner import VulkanPartitioner
from executorch.exir import to_edge_transform_and_lower

from support.write.row_programs import EXPORTED, HIDDEN, RESULTS, ROWS, WIDTH, features

_MOST = 64  # rows of a call


def main() -> None:
    torch.manual_seed(7)
    model = torch.nn.Sequential(
        torch.nn.Linear(WIDTH, HIDDEN),
        torch.nn.LayerNorm(HIDDEN),
        torch.nn.GELU(),
        torch.nn.Linear(HIDDEN, 1),
    ).eval()
    rows = torch.from_numpy(features(np.arange(ROWS)))
    exported = torch.export.export(
        model, (rows[:_MOST],), dynamic_shapes=({0: torch.export.Dim("rows", min=1, max=_MOST)},)
    )
    lowered = to_edge_transform_and_lower(exported, partitioner=[VulkanPartitioner()])
    EXPORTED.parent.mkdir(exist_ok=True)
    EXPORTED.write_bytes(lowered.to_executorch().buffer)
    with torch.no_grad():
        np.save(RESULTS, model(rows).numpy())


if __name__ == "__main__":
    main()

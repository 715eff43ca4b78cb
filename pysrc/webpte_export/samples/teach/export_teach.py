"""Exports the sample `teach` from the weights of `digits`.

    python -m webpte_export.samples.teach.export_teach digits.pt OUT_DIR

OUT_DIR gets teach.pte. `losses` computes PyTorch's results for the tests.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from executorch.backends.vulkan import custom_ops_lib  # noqa: F401  (defines torch.ops.et_vk)
from executorch.backends.vulkan.partitioner.vulkan_partitioner import VulkanPartitioner
from executorch.exir import to_edge_transform_and_lower
from torch import Tensor
from torch.export import export

from webpte_export.samples.digits.train_digits import Digits
from webpte_export.samples.teach.network import (
    BATCH,
    CLASSES,
    HIDDEN,
    SEEN,
    SIDE,
    FeatureExtractor,
    Learn,
    Predict,
)

_NO_LIMIT = (2**30,) * 3  # WebGPU's buffers do not have the limits of Vulkan's images


def loaded_eyes(weights: Path) -> FeatureExtractor:
    digits = Digits()
    digits.load_state_dict(torch.load(weights, weights_only=True))
    return FeatureExtractor(digits).eval()


def program_of(eyes: FeatureExtractor) -> bytes:
    """Return the file: two methods, each with the eyes."""
    w1, w2 = torch.rand(HIDDEN, SEEN), torch.rand(CLASSES, HIDDEN)
    labels = torch.zeros(BATCH, dtype=torch.int32)
    state: tuple[Tensor, ...] = (w1, w1 * 0, w1 * 0, w2, w2 * 0, w2 * 0)
    with torch.no_grad():
        learn = export(
            Learn(eyes).eval(), (torch.rand(BATCH, 1, SIDE, SIDE), labels, torch.ones(1), *state)
        )
        predict = export(Predict(eyes).eval(), (torch.rand(1, 1, SIDE, SIDE), w1, w2))
    methods = {"learn": learn, "predict": predict}
    lowered = to_edge_transform_and_lower(
        methods,
        partitioner={name: [VulkanPartitioner({"texture_limits": _NO_LIMIT})] for name in methods},
    )
    data: bytes = lowered.to_executorch().buffer
    return data


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("weights", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    data = program_of(loaded_eyes(options.weights))
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "teach.pte").write_bytes(data)
    print(f"teach.pte: {len(data)} bytes")


if __name__ == "__main__":
    main()

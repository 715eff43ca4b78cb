"""Writes pysrc/webpte/llm/gpu_figures/*.pte: the heads of programs whose weights are made up.

    PYTHONPATH=pysrc:tests python tests/data/make/make_layers.py

The head of a program has everything but the bytes of its weights; see gpu_figures/layers.py.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np

import webpte
from support.graphs.draft_pairs import Shape, decoder_model
from support.write.pte_writer import GraphWriter, write_pte

OUT = Path(webpte.__file__).parent / "llm" / "gpu_figures"
_COMMON: dict[str, Any] = {
    "layers": 2,
    "chunk": 512,
    "context": 1024,
    "rotary": True,
    "small_table": True,
}
LLAMA = Shape(**_COMMON, vocabulary=32_768)  # the widths of Llama-3.2-1B
QWEN3 = Shape(  # the widths of Qwen3-0.6B
    **_COMMON,
    vocabulary=32_768,
    size=1024,
    hidden=3072,
    heads=16,
    kv_heads=8,
    head=128,
    normed=True,
)
STAGES = ((64, 56), (128, 28), (256, 14), (512, 7))  # channels and sides of ResNet-18's blocks


def resnet() -> bytes:
    """Write two blocks of each of ResNet-18's stages."""
    g, random = GraphWriter(), np.random.default_rng(0)

    def convolution(x: int, given: int, taken: int, side: int, kernel: int, stride: int) -> int:
        dims = (given, taken, kernel, kernel)
        weight = random.standard_normal(dims, np.float32) / np.sqrt(taken * kernel**2)
        bias = g.tensor((given,), constant=np.zeros(given, np.float32))
        numbers = [g.int_list([n, n]) for n in (stride, kernel // 2, 1)]
        rest = g.bool_(False), g.int_list([0, 0]), g.int(1), g.tensor((1, given, side, side))
        constant = g.tensor(dims, constant=weight.astype(np.float32))
        return g.op("aten.convolution.default", x, constant, bias, *numbers, *rest)

    def relu(x: int) -> int:
        return g.op("aten.relu.default", x, g.tensor(g.shapes[x][0]))

    picture = x = g.tensor((1, 64, 56, 56))
    taken = 64
    for channels, side in STAGES:
        for stride in (2 if channels > taken else 1, 1):
            shortcut = convolution(x, channels, taken, side, 1, stride) if stride == 2 else x
            inner = relu(convolution(x, channels, taken, side, 3, stride))
            outer, taken = convolution(inner, channels, channels, side, 3, 1), channels
            both = g.tensor(g.shapes[outer][0])
            x = relu(g.op("aten.add.Tensor", outer, shortcut, g.int(1), both))
    g.inputs(picture)
    g.outputs(x)
    return write_pte(g, inline_delegates=True)


def write_head(name: str, program: bytes) -> None:
    """Write a program up to the place of its weights, which its header tells."""
    (begin,) = struct.unpack_from("<Q", program, 24)
    (OUT / f"{name}.pte").write_bytes(program[:begin])


if __name__ == "__main__":
    OUT.mkdir(exist_ok=True)
    write_head("llama", decoder_model(LLAMA, inline_delegates=True))
    write_head("qwen3", decoder_model(QWEN3, inline_delegates=True))
    write_head("resnet", resnet())

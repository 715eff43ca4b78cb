"""Programs of known sizes whose weights are made up: decoders, and models that are called alone.

    PYTHONPATH=pysrc:tests python -m bench.trees.programs OUT [--only qwen3 ...] [--heads]

writes OUT/NAME.pte, as large as the model is. `--heads` writes OUT/NAME.head instead, without the
weights: some kilobytes to carry to another machine, where `expand` adds them.
"""

from __future__ import annotations

import argparse
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from data.make.make_layers import LLAMA, QWEN3, resnet
from support.graphs.draft_pairs import Shape, decoder_model
from support.graphs.encoder_graphs import Encoder, encoder_layer
from support.write.pte_writer import GraphWriter, write_pte

_HEADER_AT = 24  # where the weights begin, and their bytes: see gpu_figures/layers.py
_BLOCK_WORDS = 262_139
_PIECE = 64  # blocks that are written at once

_WHOLE: dict[str, Any] = {"chunk": 2048, "context": 2304}
_SMALL: dict[str, Any] = {"chunk": 64, "context": 64, "layers": 1, "vocabulary": 512, "hidden": 256}
DECODERS: dict[str, Shape] = {
    "llama": replace(LLAMA, **_WHOLE, layers=16, vocabulary=128_256),
    "llama_8da4w": replace(LLAMA, **_WHOLE, layers=16, vocabulary=128_256, rounded=True),
    "qwen3": replace(QWEN3, **_WHOLE, layers=28, vocabulary=151_936),
    "gemma3": replace(
        QWEN3,
        **_WHOLE,
        layers=26,
        vocabulary=262_144,
        size=1152,
        hidden=6912,
        heads=4,
        kv_heads=1,
        head=256,
    ),
    "smollm2": replace(
        LLAMA,
        **_WHOLE,
        layers=30,
        vocabulary=49_152,
        size=576,
        hidden=1536,
        heads=9,
        kv_heads=3,
    ),
}
# Inverted blocks of MobileNetV2: times wider inside, channels, blocks, stride of the first.
_INVERTED = (
    *((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2)),
    *((6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)),
)


def mobilenet() -> bytes:
    """Write the blocks of MobileNetV2 for a picture of 224 x 224, after its first layer."""
    g, random = GraphWriter(), np.random.default_rng(0)

    def convolution(x: int, given: int, kernel: int, stride: int, groups: int = 1) -> int:
        _, taken, side, _ = g.shapes[x][0]
        dims = (given, taken // groups, kernel, kernel)
        weight = random.standard_normal(dims, np.float32) / np.sqrt(dims[1] * kernel**2)
        bias = g.tensor((given,), constant=np.zeros(given, np.float32))
        numbers = [g.int_list([n, n]) for n in (stride, kernel // 2, 1)]
        out = g.tensor((1, given, side // stride, side // stride))
        rest = g.bool_(False), g.int_list([0, 0]), g.int(groups), out
        constant = g.tensor(dims, constant=weight.astype(np.float32))
        return g.op("aten.convolution.default", x, constant, bias, *numbers, *rest)

    def bounded(x: int) -> int:
        ends = g.double(0.0), g.double(6.0)
        return g.op("aten.hardtanh.default", x, *ends, g.tensor(g.shapes[x][0]))

    picture = x = g.tensor((1, 32, 112, 112))
    for times, channels, blocks, first in _INVERTED:
        for number in range(blocks):
            taken, stride = g.shapes[x][0][1], 1 if number else first
            wide = taken * times
            inner = bounded(convolution(x, wide, 1, 1)) if times > 1 else x
            inner = bounded(convolution(inner, wide, 3, stride, wide))
            y = convolution(inner, channels, 1, 1)
            if number:
                y = g.op("aten.add.Tensor", x, y, g.int(1), g.tensor(g.shapes[y][0]))
            x = y
    g.inputs(picture)
    g.outputs(x)
    return write_pte(g, inline_delegates=True)


def encoder() -> bytes:
    """Write the layers of MiniLM-L6's widths, for 128 tokens."""
    net = Encoder()
    given = x = net.g.tensor((1, 128, 384))
    for _ in range(6):
        x = encoder_layer(net, x, 12, 1536)
    net.g.inputs(given)
    net.g.outputs(x)
    return write_pte(net.g, inline_delegates=True)


LONE: dict[str, Callable[[], bytes]] = {
    "resnet18": resnet,
    "mobilenetv2": mobilenet,
    "minilm": encoder,
}
NAMES = (*DECODERS, *LONE)


def program(name: str, small: bool = False) -> bytes:
    """Write a program of the list, or one that is small but has the same kernels."""
    if name in LONE:
        return LONE[name]()
    shape = DECODERS[name]
    return decoder_model(replace(shape, **_SMALL) if small else shape, inline_delegates=True)


def head_of(written: bytes) -> bytes:
    """Return a program without its weights."""
    (begin,) = struct.unpack_from("<Q", written, _HEADER_AT)
    return written[:begin]


def expand(head: bytes, path: Path) -> None:
    """Write a program with made-up weights: a block of small numbers, again and again."""
    _, left = struct.unpack_from("<QQ", head, _HEADER_AT)
    block = np.random.default_rng(1).normal(0, 0.02, _BLOCK_WORDS).astype(np.float32).tobytes()
    piece = block * min(_PIECE, -(-left // len(block)))
    with path.open("wb") as out:
        out.write(head)
        while left > 0:
            left -= out.write(piece[:left])


def ensure(name: str, folder: Path, small: bool = False) -> Path:
    """Return the path of a program in a folder, written if it is not there."""
    path, kept = folder / f"{name}.pte", folder / f"{name}.head"
    if not path.exists():
        head = kept.read_bytes() if kept.exists() else head_of(program(name, small))
        expand(head, path)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--heads", action="store_true")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.only:
        if options.heads:
            (options.out / f"{name}.head").write_bytes(head_of(program(name)))
        else:
            ensure(name, options.out)
        print(name, flush=True)


if __name__ == "__main__":
    main()

"""Models of the gallery with separate views, as small as they can be: NumPy says at a
glance the expected result. `install` puts them where the server finds installed models.

`python -m support.page.gallery_models` writes the encoder that pictures of the page are taken with.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from support.write.pte_writer import GraphWriter, write_pte

SENTENCES, LENGTH, WIDTH = 3, 16, 12  # a batch of sentences, its words, and their vectors
SIDE, CELLS = 32, 4  # of a picture, and of the grid that faces are looked for in
CELL = SIDE // CELLS
PLACES, HEIGHT = 8, 8  # where a letter may be in a line, and pixels


class Encoder:
    """A sentence encoder: the mean of its words' vectors, rotated, with random weights."""

    def __init__(self, vocabulary: int) -> None:
        random = np.random.default_rng(5)
        self.words = random.standard_normal((vocabulary, WIDTH)).astype(np.float32)
        self.words[0] = 0  # padding
        self.turn = random.standard_normal((WIDTH, WIDTH)).astype(np.float32)

    def pte(self) -> bytes:
        g, dims = GraphWriter(), (SENTENCES, LENGTH, WIDTH)
        tokens = g.tensor(dims[:2], "int32")
        words, turn = (g.tensor(one.shape, constant=one) for one in (self.words, self.turn))
        found = g.op("aten.embedding.default", words, tokens, g.tensor(dims))
        bent = g.op("aten.tanh.default", found, g.tensor(dims))
        over = g.int_list([1]), g.bool_(False)
        mean = g.op("aten.mean.dim", bent, *over, g.tensor((SENTENCES, WIDTH)))
        g.inputs(tokens)
        g.outputs(g.op("aten.mm.default", mean, turn, g.tensor((SENTENCES, WIDTH))))
        return write_pte(g)

    def nearness(self, one: list[int], other: list[int]) -> float:
        """Return the cosine of two sentences' vectors."""
        a, b = (np.tanh(self.words[tokens]).mean(0) @ self.turn for tokens in (one, other))
        return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def _means(g: GraphWriter, picture: int, size: tuple[int, int], out: tuple[int, ...]) -> int:
    """Return the brightness of blocks of the picture."""
    sizes, none = g.int_list(size), g.int_list([0, 0])
    flags = g.bool_(False), g.bool_(True)
    return g.op(
        "aten.avg_pool2d.default", picture, sizes, sizes, none, *flags, g.null(), g.tensor(out)
    )


def _constant(g: GraphWriter, dims: tuple[int, ...], *values: float) -> int:
    return g.tensor(dims, constant=np.broadcast_to(np.array(values, np.float32), dims).copy())


def face_finder() -> bytes:
    """Build a model to which a face is a bright cell: logits of -8 for black to 8 for white."""
    g, count = GraphWriter(), CELLS * CELLS
    picture = g.tensor((1, 1, SIDE, SIDE))
    bright = _means(g, picture, (CELL, CELL), (1, 1, CELLS, CELLS))
    row = (1, count, 1)
    flat = g.op("aten.view_copy.default", bright, g.int_list(row), g.tensor(row))
    scaled = g.op("aten.mul.Tensor", flat, _constant(g, (1, 1, 1), 16), g.tensor(row))
    scores = g.op("aten.add.Tensor", scaled, _constant(g, (1, 1, 1), -8), g.int(1), g.tensor(row))
    nothing = g.op("aten.mul.Tensor", flat, _constant(g, (1, 1, 1), 0), g.tensor(row))
    boxes = nothing, _constant(g, (1, count, 4), 0, 0, CELL, CELL), g.int(1)
    g.inputs(picture)
    g.outputs(g.op("aten.add.Tensor", *boxes, g.tensor((1, count, 4))), scores)
    return write_pte(g)


def anchors() -> str:
    """Return the centres of the cells, row by row."""
    middles = (np.arange(CELLS) + 0.5) / CELLS
    return "".join(f"{x} {y}\n" for y in middles for x in middles)


def line_reader() -> bytes:
    """Build a program that gives the brightness of both halves of each place, and 0.25 for none."""
    g = GraphWriter()
    picture = g.tensor((1, 1, HEIGHT, HEIGHT * PLACES))
    halves = _means(g, picture, (HEIGHT // 2, HEIGHT), (1, 1, 2, PLACES))
    both = (1, 2, PLACES)
    flat = g.op("aten.view_copy.default", halves, g.int_list(both), g.tensor(both))
    order = g.int_list([0, 2, 1])
    placed = g.op("aten.permute_copy.default", flat, order, g.tensor((1, PLACES, 2)))
    parts = g.value_list([_constant(g, (1, PLACES, 1), 0.25), placed])
    g.inputs(picture)
    g.outputs(g.op("aten.cat.default", parts, g.int(2), g.tensor((1, PLACES, 3))))
    return write_pte(g)


PICTURE = {"layout": "NCHW", "range": [0, 1], "fill": "zeros"}


def install(folder: Path, name: str, files: dict[str, bytes], **card: Any) -> None:
    """Install a model next to others; `files` are put next to its program, model.pte."""
    (folder / name).mkdir()
    for file, data in files.items():
        (folder / name / file).write_bytes(data)
    index = folder / "index.json"
    cards = json.loads(index.read_text(encoding="utf-8")) if index.exists() else []
    cards.append({"name": name, "program": "model.pte", **card})
    index.write_text(json.dumps(cards), encoding="utf-8")


STORED = Path(__file__).parents[2] / "data" / "text" / "encoder.pte"
STORED_WORDS = 400  # of the tokenizer in the model "vectors" of tests/data/tasks

if __name__ == "__main__":
    STORED.write_bytes(Encoder(STORED_WORDS).pte())

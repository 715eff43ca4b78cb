"""Small SAMs in the layouts of published repositories, and what NumPy finds with them."""

from __future__ import annotations

import hashlib
import json
from functools import cache

import numpy as np

from support.graphs.fusion_graphs import ADD, VIEW, Net
from support.harness.task_cases import models_folder
from support.llm.whisper_layouts import only_method
from support.write.pte_writer import GraphWriter, write_pte

Array = np.ndarray
SIDE, WIDTH, MASKS = 8, 4, 3
PAIR = "someone/sam-ExecuTorch"  # real exports of SAM, in two programs
POINTS = "someone/SAM2.1-ExecuTorch"  # with features, points and labels of four and three dims
TOKENS = "executorch-community/SAM2-Tiny-ExecuTorch-WebGPU"  # with tables of a prompt encoder
_RNG = np.random.default_rng(3)
FREQUENCIES, LABELS, ABSENT, MIXED = (
    _RNG.standard_normal(shape).astype(np.float32)
    for shape in ((2, WIDTH // 2), (4, WIDTH), (WIDTH,), (MASKS, WIDTH))
)


def tokens_of(points: list[tuple[float, float]], labels: list[int]) -> Array:
    """Return the prompt's tokens, by the formula of SAM's prompt encoder."""
    rows = []
    for (x, y), label in zip(points, labels, strict=True):
        wave = (
            2
            * np.pi
            * (np.array([2 * (x + 0.5) / SIDE - 1, 2 * (y + 0.5) / SIDE - 1]) @ FREQUENCIES)
        )
        row = np.concatenate([np.sin(wave), np.cos(wave)])
        rows.append(ABSENT if label < 0 else row + LABELS[label])
    return np.array(rows)


def found(pixels: Array, tokens: Array) -> tuple[Array, Array]:
    """Return logits of masks and scores, for prepared pixels (3, SIDE, SIDE)."""
    grey, weights = pixels.mean(axis=0), MIXED @ tokens.sum(axis=0)
    return grey + 2 * grey * weights[:, None, None], weights


def _mean(g: GraphWriter, picture: int) -> int:
    over = (g.int_list([1]), g.bool_(False))
    return g.op("aten.mean.dim", picture, *over, g.tensor((1, SIDE, SIDE)))


def _view(g: GraphWriter, one: int, *dims: int) -> int:
    return g.op(VIEW, one, g.int_list(list(dims)), g.tensor(dims))


def _encoder() -> GraphWriter:
    """Write an encoder that gives an embedding (1, 4, 4, 4) and features (1, 1, 8, 8)."""
    g = Net().g
    picture = g.tensor((1, 3, SIDE, SIDE))
    grey = _mean(g, picture)
    twice = g.op(ADD, grey, grey, g.int(1), g.tensor((1, SIDE, SIDE)))
    g.inputs(picture)
    g.outputs(_view(g, grey, 1, WIDTH, 4, 4), _view(g, twice, 1, 1, SIDE, SIDE))
    return g


def _decoder(points: bool) -> GraphWriter:
    """Write a decoder of tokens (1, 3, WIDTH), or of points that are summed up as such."""
    g = Net().g
    features, embedding = g.tensor((1, 1, SIDE, SIDE)), g.tensor((1, WIDTH, 4, 4))
    given = []
    if points:
        places, labels = g.tensor((1, 1, 2, 2)), g.tensor((1, 1, 2), "int64")
        known = np.concatenate([ABSENT[None], LABELS[:2]])  # of labels -1, 0 and 1
        table = g.tensor(known.shape, constant=known)
        ones = g.tensor((1,), "int64", constant=np.ones(1, np.int64))
        rows = g.op(ADD, labels, g.prepack(ones), g.int(1), g.tensor((1, 1, 2), "int64"))
        tokens = g.op("aten.embedding.default", table, rows, g.tensor((1, 1, 2, WIDTH)))
        both = _view(g, tokens, 1, 2, WIDTH)
        xy = _view(g, places, 1, 1, 4)
        both = g.op(ADD, both, xy, g.int(1), g.tensor((1, 2, WIDTH)))
        given, tokens = [places, labels], both
    else:
        tokens = g.tensor((1, 3, WIDTH))
        given = [tokens]
    over = (g.int_list([1]), g.bool_(False), g.null())
    total = g.op("aten.sum.dim_IntList", tokens, *over, g.tensor((1, WIDTH)))
    weight = g.prepack(g.tensor(MIXED.shape, constant=MIXED))
    scores = g.op("aten.linear.default", total, weight, g.null(), g.tensor((1, MASKS)))
    wide = (1, MASKS, SIDE, SIDE)
    scaled = g.op("aten.mul.Tensor", features, _view(g, scores, 1, MASKS, 1, 1), g.tensor(wide))
    grey = _view(g, embedding, 1, 1, SIDE, SIDE)
    masks = g.op(ADD, scaled, grey, g.int(1), g.tensor(wide))
    g.inputs(features, *given, embedding)
    if points:
        masks, scores = _view(g, masks, 1, *wide), _view(g, scores, 1, 1, MASKS)
    g.outputs(masks, scores)
    return g


@cache
def repositories() -> dict[str, dict[str, bytes]]:
    """Return the files of a repository in each layout, by its name."""
    card = b"---\npipeline_tag: mask-generation\n---\n"
    folder = models_folder() / "prompts"
    whole = (folder / "model.pte").read_bytes()
    settings = (folder / "preprocessor_config.json").read_bytes()
    real = {"sam_encoder_xnnpack_fp32.pte": only_method(whole, "vision_encoder")}
    real["sam_decoder_xnnpack_fp32.pte"] = only_method(whole, "mask_decoder")
    encoder = write_pte(_encoder())
    tables = {
        "prompt_gaussian_matrix.bin": FREQUENCIES,
        "prompt_point_embeddings.bin": LABELS,
        "prompt_not_a_point_embed.bin": ABSENT,
    }
    official = {
        "sam2_image_encoder.pte": encoder,
        "sam2_mask_decoder.pte": write_pte(_decoder(points=False)),
        **{name: array.tobytes() for name, array in tables.items()},
    }
    files = [{"path": p, "sha256": hashlib.sha256(d).hexdigest()} for p, d in official.items()]
    return {
        PAIR: {**real, "README.md": card, "preprocessor_config.json": settings},
        POINTS: {
            "sam21_encoder_xnnpack_fp32.pte": encoder,
            "sam21_decoder_xnnpack_fp16.pte": write_pte(_decoder(points=True)),
            "README.md": card,
        },
        TOKENS: {
            **official,
            "README.md": card,
            "manifest.json": json.dumps({"files": files}).encode(),
        },
    }

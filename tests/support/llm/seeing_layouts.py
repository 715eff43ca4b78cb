"""Small models that see pictures in the layouts of published repositories."""

from __future__ import annotations

import hashlib
import json
from functools import cache

import numpy as np

from support.graphs.fusion_graphs import ADD, MUL, VIEW
from support.harness.image_text_cases import models_folder
from support.hub.hub_site import files_of
from support.llm.whisper_layouts import only_method
from support.write.pte_writer import GraphWriter, write_pte
from webpte import Program

PASSED = "executorch-community/SmolVLM-Passed-ExecuTorch-WebGPU"  # caches are inputs and outputs
STEPS = "someone/SmolVLM-Steps-ExecuTorch"  # the same without a program for prompts
PARTS = "executorch-community/SmolVLM-Tiny-ExecuTorch-WebGPU"
RUNNER = "someone/SmolVLM-ExecuTorch"
MODEL = "one-tile"  # the same model in one program of three methods
# Methods by the names of their programs in the repository.
_PROGRAMS = {
    "vlm_vision_q8.pte": "vision_encoder",
    "vlm_embed_tokens_q8.pte": "token_embedding",
    "vlm_decoder.pte": "text_decoder",
}
PERMUTE = "aten.permute.default"
WORDS, WIDTH, CONTEXT = 300, 32, 64  # the words and the width of the small model
HEAD = np.random.default_rng(3).standard_normal((WORDS, WIDTH)).astype(np.float32)
CARD = b"---\npipeline_tag: image-text-to-text\n---\n"


@cache
def repositories() -> dict[str, dict[str, bytes]]:
    """Return the files of each repository, by its name."""
    files = files_of(models_folder() / MODEL)
    whole = files.pop("model.pte")
    del files["model.manifest.json"]
    parts = {path: only_method(whole, name) for path, name in _PROGRAMS.items()}
    kept = {path: data for path, data in parts.items() if "decoder" not in path}
    steps = {**kept, "vlm_decoder.pte": write_pte(step())}
    return {
        PARTS: {**_listed(parts), **files},
        PASSED: {**_listed({**steps, "vlm_prefill.pte": write_pte(prompt())}), **files},
        STEPS: {**_listed(steps), **files},
        RUNNER: {"README.md": CARD, "m_xnnpack_8da8w.pte": _renamed(whole), **files},
    }


def _listed(programs: dict[str, bytes]) -> dict[str, bytes]:
    """Return programs with their manifest and card."""
    files = [{"path": path, "sha256": _hash(data)} for path, data in programs.items()]
    return {"README.md": CARD, "manifest.json": json.dumps({"files": files}).encode(), **programs}


def next_token(rows: np.ndarray) -> int:
    """Return the token after the embeddings of a conversation, as the programs compute it."""
    return int(np.argmax(HEAD @ np.tanh(rows.sum(axis=0) / 4)))


async def expected_tokens(
    program: Program, pixels: np.ndarray, conversation: list[int], count: int
) -> list[int]:
    """Return the tokens after a conversation by NumPy; rows of a picture follow the second word."""
    (seen,) = await program.run("vision", pixels)
    rows = [await _embedded(program, conversation[:2]), seen[0]]
    rows.append(await _embedded(program, conversation[2 + len(seen[0]) :]))
    found = list[int]()
    while len(found) < count:
        found.append(next_token(np.concatenate(rows)))
        rows.append(await _embedded(program, found[-1:]))
    return found


async def _embedded(program: Program, tokens: list[int]) -> np.ndarray:
    (rows,) = await program.run("embed_tokens", np.array([tokens], np.int64))
    found: np.ndarray = rows[0]
    return found


def prompt(last: bool = False) -> GraphWriter:
    """Write embeddings of a whole prompt -> logits of each row, or of the last, and the cache."""
    g = GraphWriter()
    rows = g.tensor((1, CONTEXT, WIDTH))
    flat = _view(g, rows, (CONTEXT, WIDTH))
    past = np.tri(CONTEXT, dtype=np.float32)[-1 if last else 0 :]
    sums = g.op("aten.mm.default", _constant(g, past), flat, g.tensor((len(past), WIDTH)))
    logits = _view(g, _head(g, sums, len(past)), (1, len(past), WORDS))
    g.inputs(rows)
    g.outputs(logits, _view(g, flat, (1, 1, CONTEXT, WIDTH)))
    return g


def step(count: int = 1, words: np.ndarray | None = None) -> GraphWriter:
    """Write embeddings, their positions and a cache -> logits, and the cache with these rows.

    With `words`, rows of embeddings, it takes tokens in place of embeddings.
    """
    g, wide = GraphWriter(), (CONTEXT, WIDTH)
    given = g.tensor((1, count, WIDTH)) if words is None else g.tensor((1, count), "int64")
    places, cache = g.tensor((count,), "int64"), g.tensor((1, 1, *wide))
    rows = given if words is None else _looked_up(g, words, given, (1, count))
    own, past = np.eye(CONTEXT, dtype=np.float32), np.tri(CONTEXT, dtype=np.float32)
    at, until = (_looked_up(g, table, places, (count,)) for table in (own, past))
    turned = g.op(PERMUTE, at, g.int_list([1, 0]), g.tensor((CONTEXT, count)))
    each = _constant(g, np.ones((count, 1), np.float32))
    written = g.op("aten.mm.default", turned, each, g.tensor((CONTEXT, 1)))
    all_rows = _constant(g, np.ones((CONTEXT, 1), np.float32))
    kept = g.op("aten.sub.Tensor", all_rows, written, g.int(1), g.tensor((CONTEXT, 1)))
    old = g.op(MUL, _view(g, cache, wide), kept, g.tensor(wide))
    new = g.op("aten.mm.default", turned, _view(g, rows, (count, WIDTH)), g.tensor(wide))
    cached = g.op(ADD, old, new, g.int(1), g.tensor(wide))
    total = g.op("aten.mm.default", until, cached, g.tensor((count, WIDTH)))
    g.inputs(given, places, cache)
    logits = _view(g, _head(g, total, count), (1, count, WORDS))
    g.outputs(logits, _view(g, cached, (1, 1, *wide)))
    return g


def _head(g: GraphWriter, sums: int, count: int) -> int:
    share = g.prepack(g.tensor((1,), constant=np.full(1, 0.25, np.float32)))
    less = g.op(MUL, sums, share, g.tensor((count, WIDTH)))
    bent = g.op("aten.tanh.default", less, g.tensor((count, WIDTH)))
    out = g.tensor((count, WORDS))
    return g.op("aten.linear.default", bent, _constant(g, HEAD), g.null(), out)


def _constant(g: GraphWriter, array: np.ndarray) -> int:
    return g.prepack(g.tensor(array.shape, constant=array))


def _looked_up(g: GraphWriter, table: np.ndarray, places: int, dims: tuple[int, ...]) -> int:
    kept, out = g.tensor(table.shape, constant=table), g.tensor((*dims, table.shape[1]))
    return g.op("aten.embedding.default", kept, places, out)


def _view(g: GraphWriter, value: int, dims: tuple[int, ...]) -> int:
    return g.op(VIEW, value, g.int_list(list(dims)), g.tensor(dims))


def _renamed(data: bytes) -> bytes:
    """Give methods shorter names, which other exporters give them."""
    for old, new in (("token_embedding", "embed_tokens"), ("text_decoder", "text_model")):
        before, after = _string(old), _string(new)
        assert data.count(before) == 1
        data = data.replace(before, after.ljust(len(before), b"\0"))
    return data


def _string(text: str) -> bytes:
    """Return a string of a flatbuffer."""
    return len(text).to_bytes(4, "little") + text.encode() + b"\0"


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()

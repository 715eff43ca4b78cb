"""Small Whispers in the layouts of published repositories, and what NumPy hears with them.

The numbers are random; a word follows from the sound, the words before it and its place.
"""

from __future__ import annotations

import hashlib
import json
import struct
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from support.graphs.fusion_graphs import ADD, VIEW, Net
from support.llm.small_seq2seq import program_of, tokenizer_of, write_files
from support.write.pte_writer import GraphWriter, write_pte

WORDS, ROOM, WIDTH, SAMPLES = 40, 24, 4, 640
START, ENGLISH, TRANSCRIBE, NO_TIMES, END = 30, 31, 33, 38, 29
SPECIAL = {
    "<|startoftranscript|>": START,
    "<|en|>": ENGLISH,
    "<|de|>": 32,
    "<|transcribe|>": TRANSCRIBE,
    "<|translate|>": 34,
    "<|notimestamps|>": NO_TIMES,
    "<|endoftext|>": END,
}
PROMPT = (START, ENGLISH, TRANSCRIBE, NO_TIMES)
EMBEDDING, SUM, MEAN = "aten.embedding.default", "aten.sum.dim_IntList", "aten.mean.dim"
_RNG = np.random.default_rng(5)
TABLE, PLACES, HEAD = (
    _RNG.standard_normal(shape).astype(np.float32)
    for shape in ((WORDS, WORDS), (ROOM, WORDS), (WORDS, WORDS))
)
TABLE[:, START:] -= 9  # no special token but the last is ever likely


def sound(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, SAMPLES - 37).astype(np.float32)


def tokenizer() -> bytes:
    made = tokenizer_of(WORDS)
    words = dict(made["model"]["vocab"])
    for text, number in SPECIAL.items():
        del words[f"w{number}"]
        words[text] = number
    made["model"]["vocab"] = words
    keys = ("single_word", "lstrip", "rstrip", "normalized")
    made["added_tokens"] = [
        {"id": number, "content": text, "special": True, **dict.fromkeys(keys, False)}
        for text, number in SPECIAL.items()
    ]
    return json.dumps(made).encode()


def plain_tokenizer() -> bytes:
    """Return a tokenizer of a model that is no Whisper."""
    return json.dumps(tokenizer_of(WORDS)).encode()


def heard(samples: np.ndarray, kind: str) -> str:
    """Return the words of a sound by NumPy, up to the end or the room."""
    states = np.pad(samples, (0, SAMPLES - len(samples))).reshape(-1, WORDS).mean(axis=0) * 40
    history = list(PROMPT)
    while len(history) < ROOM:
        if kind == "parts":
            logits = HEAD @ np.tanh(TABLE[history].sum(axis=0)) + states
        else:
            logits = TABLE[history[-1]] + states
        if kind == "methods":
            logits = logits + PLACES[len(history) - 1]
        token = int(np.argmax(logits))
        if token == END:
            break
        history.append(token)
    return " ".join(f"w{token}" for token in history[len(PROMPT) :])


# ---- graphs


@dataclass
class _Writer:
    g: GraphWriter

    def add(self, one: int, other: int, dims: tuple[int, ...]) -> int:
        return self.g.op(ADD, one, other, self.g.int(1), self.g.tensor(dims))

    def view(self, one: int, dims: tuple[int, ...]) -> int:
        return self.g.op(VIEW, one, self.g.int_list(list(dims)), self.g.tensor(dims))

    def look_up(self, table: np.ndarray, tokens: int, dims: tuple[int, ...]) -> int:
        kept = self.g.tensor(table.shape, constant=table)
        return self.g.op(EMBEDDING, kept, tokens, self.g.tensor(dims))

    def scaled(self, one: int, factor: float) -> int:
        dims, _ = self.g.shapes[one]
        by = self.g.prepack(self.g.tensor((1,), constant=np.full(1, factor, np.float32)))
        return self.g.op("aten.mul.Tensor", one, by, self.g.tensor(dims))

    def mean(self, states: int) -> int:
        """Write the mean of states (1, count, WORDS), 40 times as large."""
        g, (dims, _) = self.g, self.g.shapes[states]
        over = (g.int_list([1]), g.bool_(True))
        found = g.op(MEAN, states, *over, g.tensor((dims[0], 1, dims[2])))
        return self.scaled(found, 40)


def _writer() -> _Writer:
    return _Writer(Net().g)


STATES = (1, SAMPLES // WORDS, WORDS)


def encoder(source: tuple[int, ...] = (SAMPLES,), dynamic: bool = False) -> GraphWriter:
    w = _writer()
    given = w.g.tensor(source)
    w.g.inputs(given)
    w.g.outputs(w.scaled(w.view(given, STATES), 1.0))
    if dynamic:
        w.g.host(given, dynamic=True)
    return w.g


def decoder(count: int, places: bool) -> GraphWriter:
    """Write a decoder of `count` tokens: each row depends on its token and place."""
    w, dims = _writer(), (1, count, WORDS)
    tokens, states = w.g.tensor((1, count), "int64"), w.g.tensor(STATES)
    found = w.look_up(TABLE, tokens, dims)
    given = [tokens]
    if places:
        at = w.g.tensor((count,), "int64")
        found = w.add(found, w.look_up(PLACES, at, (count, WORDS)), dims)
        given.append(at)
    w.g.inputs(*given, states)
    w.g.outputs(w.add(found, w.mean(states), dims))
    return w.g


def step(count: int, prefill: bool) -> GraphWriter:
    """Write a decoder that sums the rows of all tokens up in its cache (1, ROOM, WORDS)."""
    w, kept = _writer(), (1, ROOM, WORDS)
    tokens, at = w.g.tensor((1, count), "int64"), w.g.tensor((1,), "int64")
    keys, values = (w.g.tensor((1, 1, WORDS)) for _ in range(2))
    found = w.look_up(TABLE, tokens, (1, count, WORDS))
    over = (w.g.int_list([1]), w.g.bool_(True), w.g.null())
    total = w.g.op(SUM, found, *over, w.g.tensor((1, 1, WORDS)))
    before = w.g.tensor(kept, constant=np.zeros(kept, np.float32)) if prefill else w.g.tensor(kept)
    cache = w.add(w.g.prepack(before) if prefill else before, total, kept)
    last = (w.g.int(1), w.g.int(0), w.g.int(1), w.g.int(1))
    row = w.g.op("aten.slice_copy.Tensor", cache, *last, w.g.tensor((1, 1, WORDS)))
    states = w.add(w.g.op("aten.tanh.default", row, w.g.tensor((1, 1, WORDS))), keys, (1, 1, WORDS))
    w.g.inputs(tokens, at, keys, values, *([] if prefill else [before]))
    w.g.outputs(w.add(states, values, (1, 1, WORDS)), cache)
    return w.g


def mel() -> GraphWriter:
    w = _writer()
    given = w.g.tensor((1, SAMPLES))
    w.g.inputs(given)
    w.g.outputs(w.scaled(w.view(given, (1, 8, SAMPLES // 8)), 1.0))
    return w.g


def cross_kv() -> GraphWriter:
    """Write what turns states to keys, and to values: together they move HEAD's result by both."""
    w = _writer()
    given = w.g.tensor(STATES)
    w.g.inputs(given)
    # HEAD @ (tanh(total) + shift) is HEAD @ tanh(total) + states for shift = inverse(HEAD) @ states
    inverse = np.linalg.inv(HEAD.astype(np.float64)).astype(np.float32)
    weight = w.g.prepack(w.g.tensor(inverse.shape, constant=inverse))
    mean = w.mean(given)
    out = w.g.tensor((1, 1, WORDS))
    shift = w.g.op("aten.linear.default", mean, weight, w.g.null(), out)
    w.g.outputs(w.scaled(shift, 0.25), w.scaled(shift, 0.75))
    return w.g


def head() -> GraphWriter:
    w = _writer()
    given = w.g.tensor((1, 1, WORDS))
    weight = w.g.prepack(w.g.tensor(HEAD.shape, constant=HEAD))
    w.g.inputs(given)
    out = w.g.tensor((1, 1, WORDS))
    w.g.outputs(w.g.op("aten.linear.default", given, weight, w.g.null(), out))
    return w.g


# ---- repositories


@cache
def repositories() -> dict[str, dict[str, bytes]]:
    """Return the files of a repository in each layout, by its name."""
    words = {"tokenizer.json": tokenizer()}
    methods = {"encode": encoder(dynamic=True), "decode": decoder(1, places=True)}
    one = write_pte(methods=methods, constant_methods={"get_max_seq_len": ROOM})
    pair = {"encoder": encoder((1, 4, SAMPLES // 4)), "decoder": decoder(ROOM, places=False)}
    parts = {
        "mel": mel(),
        "encoder": encoder((1, 8, SAMPLES // 8)),
        "cross_kv": cross_kv(),
        "decoder_prefill": step(WIDTH, prefill=True),
        "decoder_step": step(1, prefill=False),
        "lm_head": head(),
    }
    written = {f"whisper_{name}.pte": write_pte(graph) for name, graph in parts.items()}
    manifest = {
        "model": "whisper",
        "files": [{"path": p, "sha256": _hash(d)} for p, d in written.items()],
    }
    config = json.dumps({"capabilities": ["speech-to-text"]}).encode()
    settings = {"feature_size": 4, "chunk_length": 1, "hop_length": 100, "sampling_rate": 16_000}
    card = b"---\npipeline_tag: automatic-speech-recognition\n---\n"
    return {
        "software-mansion/whisper-tiny-ExecuTorch": {
            "vulkan/whisper_tiny_vulkan_fp16.pte": one,
            "vulkan/config.json": config,
            **words,
        },
        "someone/Whisper-tiny-ExecuTorch": {
            **{f"whisper_tiny_{n}_xnnpack_fp32.pte": write_pte(g) for n, g in pair.items()},
            "README.md": card,
            "preprocessor_config.json": json.dumps({**settings, "n_fft": 400}).encode(),
            **words,
        },
        "executorch-community/Whisper-Tiny-ExecuTorch-WebGPU": {
            "manifest.json": json.dumps(manifest).encode(),
            "README.md": card,
            **written,
            **words,
        },
        "someone/whisper-optimum": _optimum(),
        "someone/whisper-parts": _split(),
    }


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _files() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as name:
        write_files(Path(name), "whisper", 80, model_type="whisper")
        return {path.name: path.read_bytes() for path in Path(name).iterdir()}


def _optimum() -> dict[str, bytes]:
    """Return the small Whisper of real exports beside a program that only prepares sounds."""
    return {"model.pte": program_of("whisper"), "whisper_preprocessor.pte": b"not read", **_files()}


def _split() -> dict[str, bytes]:
    """Return the same in two programs, each with one method, `forward`."""
    whole = program_of("whisper")
    return {
        "w_encoder.pte": only_method(whole, "encoder"),
        "w_decoder.pte": only_method(whole, "text_decoder"),
        **_files(),
    }


def only_method(data: bytes, name: str) -> bytes:
    """Return a program with one of its methods, under the name `forward`; constants stay."""
    changed = bytearray(data)

    def u32(at: int) -> int:
        return int(struct.unpack_from("<I", changed, at)[0])

    def field(table: int, number: int) -> int:
        vtable = table - struct.unpack_from("<i", changed, table)[0]
        return table + int(struct.unpack_from("<H", changed, vtable + 4 + 2 * number)[0])

    place = field(u32(0), 1)  # of the program's methods
    methods = place + u32(place)
    kept = []
    for number in range(u32(methods)):
        at = methods + 4 + 4 * number
        plan = at + u32(at)
        named = field(plan, 0)
        text = named + u32(named)
        called = changed[text + 4 : text + 4 + u32(text)].decode()
        if called == name:
            assert len(name) >= len("forward")
            changed[text + 4 : text + 12] = b"forward\0"
            struct.pack_into("<I", changed, text, len("forward"))
        if called == name or called.startswith("get_") or called in _CONSTANTS:
            kept.append(plan)
    struct.pack_into("<I", changed, methods, len(kept))
    for number, plan in enumerate(kept):
        at = methods + 4 + 4 * number
        struct.pack_into("<I", changed, at, plan - at)
    return bytes(changed)


_CONSTANTS = ("decoder_start_token_id", "begin_suppress_tokens", "forced_bos_token_id")

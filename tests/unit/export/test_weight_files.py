"""GGUF and safetensors files of others: a description, or an ExportError that names the field.

Everything that is read before PyTorch is needed: headers, sizes, names, tokenizers.
"""

from __future__ import annotations

import json
import struct
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.harness import extent
from support.harness.bounded import bounded_work
from support.harness.mutants import Random, damaged, damaged_json, near_start, outcomes
from support.write.weight_files import (
    CONFIG,
    FIELDS,
    LAYERS,
    TOKENS,
    weights,
    write_folder,
    write_gguf,
    write_safetensors,
)
from webpte_export import ExportError
from webpte_export.llm import from_gguf, huggingface, weight_files
from webpte_export.llm.read_source import read_source
from webpte_export.llm.source import Shape
from webpte_export.llm.weight_files import read_gguf_header, read_safetensors_header


@pytest.fixture
def gguf(tmp_path: Path) -> Callable[[bytes], Any]:
    """Read the description of a model from a file's bytes."""
    path = tmp_path / "m.gguf"

    def described(data: bytes) -> Any:
        path.write_bytes(data)
        return from_gguf.describe(read_gguf_header(path), path)

    return described


def test_a_gguf_file_is_described(gguf: Callable[[bytes], Any]) -> None:
    source, stored = gguf(write_gguf())
    assert (source.shape.layers, source.shape.vocab_size) == (LAYERS, TOKENS)
    assert (source.bos, source.eos) == (None, (10,))
    assert source.tokenizer["model"]["merges"] == [["a", "b"], ["c", "d"]]
    assert source.tokenizer_config["eos_token"] == "<|im_end|>"
    assert len(stored) == len(weights("gguf"))
    wq = stored["layers.1.attention.wq.weight"]
    assert (wq.kind, wq.shape, wq.size) == ("Q8_0", (32, 32), 32 * 34)


@pytest.mark.parametrize("alignment", [32, 64])
def test_tensors_are_where_the_header_says(tmp_path: Path, alignment: int) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(write_gguf({**FIELDS, "general.alignment": alignment}, alignment))
    tensors = {tensor.name: tensor for tensor in read_gguf_header(path).tensors}
    wanted = weights("gguf")["output_norm.weight"]
    found = tensors["output_norm.weight"]
    data = path.read_bytes()[found.start : found.start + found.size]
    assert (np.frombuffer(data, np.float32) == wanted).all()


def test_weights_go_to_the_package_as_they_are_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fakes replace the two packages, which get rows of bytes and an array of float32."""
    import sys

    def dequantize(rows: np.ndarray, _kind: int) -> np.ndarray:
        blocks = rows.reshape(len(rows), -1, 34)[..., 2:]
        return blocks.view(np.int8).reshape(len(rows), -1).astype(np.float32)

    package = types.SimpleNamespace(dequantize=dequantize, GGMLQuantizationType=int)
    torch = types.SimpleNamespace(from_numpy=lambda array: array)
    monkeypatch.setitem(sys.modules, "torch", torch)
    path = tmp_path / "m.gguf"
    path.write_bytes(write_gguf())
    header = read_gguf_header(path)
    (up,) = [one for one in header.tensors if one.name == "blk.1.ffn_up.weight"]
    values = from_gguf._tensor(package, up, path)
    wanted = np.round(weights("gguf")["blk.1.ffn_up.weight"] * 100)
    assert (values == wanted).all()
    path.write_bytes(path.read_bytes()[: up.start])
    with pytest.raises(ExportError, match=r"m\.gguf: tensor 'blk\.1\.ffn_up\.weight' \(Q8_0\)"):
        from_gguf._tensor(package, up, path)


def changed(**changes: Any) -> bytes:
    fields = {**FIELDS, **{name.replace("__", "."): value for name, value in changes.items()}}
    return write_gguf({name: value for name, value in fields.items() if value is not None})


GOOD = write_gguf()
BAD_GGUF = [
    (b"", "the start has 4 bytes, but 0 are left"),
    (b"GGML" + GOOD[4:], "does not start as GGUF"),
    (GOOD[:4] + struct.pack(">I", 3) + GOOD[8:], "byte order is big-endian"),
    (GOOD[:4] + struct.pack("<I", 1) + GOOD[8:], "GGUF of version 1; 2 and 3 are read"),
    (GOOD[:8] + struct.pack("<Q", 1 << 60) + GOOD[16:], "the number of tensors is"),
    (GOOD[:16] + struct.pack("<Q", 1 << 60) + GOOD[24:], "the number of fields is"),
    (GOOD[:24] + struct.pack("<Q", 1 << 60) + GOOD[32:], "the name of field 0 has"),
    (GOOD[:32] + b"\xff" + GOOD[33:], "the name of field 0 is not UTF-8"),
    (GOOD[:400], "the file is damaged or incomplete"),
    (GOOD[:-100], r"tensor 'blk\.1\.ffn_down\.weight' ends at byte"),
    (changed(general__alignment=24), "general.alignment is 24"),
    (changed(general__architecture=5), "general.architecture must be a text, got 5"),
    (changed(llama__block_count=None), "lacks 'llama.block_count'"),
    (changed(llama__block_count="2"), 'block_count must be an integer, got "2"'),
    (changed(llama__block_count=3), r"lacks 9 of 29 tensors, such as 'layers\.2\.attention_norm"),
    (changed(llama__block_count=1), r"'layers\.1\..*', which a llama of 1 layers does not have"),
    (changed(llama__block_count=4_000_000_000), "layers is 4,000,000,000; from 1 to"),
    (changed(llama__attention__head_count=0), "heads is 0"),
    (changed(llama__attention__head_count=2), r"wk\.weight' is \[16, 32\], but .* \[32, 32\]"),
    (changed(llama__attention__head_count_kv=[2, 2]), r"head_count_kv must be an integer"),
    (changed(llama__rope__freq_base=float("nan")), "freq_base must be a number"),
    (changed(llama__attention__layer_norm_rms_epsilon=0.0), "epsilon 0"),
    (changed(tokenizer__ggml__merges=None), "lacks 'tokenizer.ggml.merges'"),
    (changed(tokenizer__ggml__merges=["a b c"]), "not a pair of tokens"),
    (changed(tokenizer__ggml__tokens=list("aabcdefghijk")), "has a token twice"),
    (changed(tokenizer__ggml__tokens=list(range(12))), "tokens has an item that is not a text"),
    (changed(tokenizer__ggml__token_type=[1]), "token_type has 1 items for 12 tokens"),
    (changed(tokenizer__ggml__pre=["smollm"]), "tokenizer.ggml.pre must be a text"),
    (changed(tokenizer__chat_template=7), "chat_template must be a text, got 7"),
]


@pytest.mark.parametrize(("data", "says"), BAD_GGUF, ids=[says for _, says in BAD_GGUF])
def test_bad_gguf_files_are_reported(gguf: Callable[[bytes], Any], data: bytes, says: str) -> None:
    with pytest.raises(ExportError, match=rf"m\.gguf.*{says}"):
        gguf(data)


def test_a_folder_is_described(tmp_path: Path) -> None:
    source, files = huggingface.describe(write_folder(tmp_path / "m"))
    assert [file.name for file in files] == ["model.safetensors"]
    assert isinstance(source.shape, Shape)
    assert (source.shape.dim, source.eos, source.bos) == (32, (10,), None)
    tensors = read_safetensors_header(files[0])
    wanted = weights("safetensors")
    data = files[0].read_bytes()
    for tensor in tensors:
        found = np.frombuffer(data[tensor.start : tensor.start + tensor.size], np.float16)
        assert (found.reshape(tensor.shape) == wanted[tensor.name].astype(np.float16)).all()


NORM = "model.norm.weight"
WHOLE = write_safetensors()
BAD_SAFETENSORS = [
    (b"", "the header's length has 8 bytes, but 0 are left"),
    (struct.pack("<Q", 1 << 62) + WHOLE[8:], "the header has 4,611,686,018,427,387,904 bytes"),
    (WHOLE[:8] + b"[" + WHOLE[9:], "the header is not JSON"),
    (WHOLE[:-10], "data_offsets are .* bytes follow the header: the file is damaged"),
    (write_safetensors(**{NORM: 5}), "model.norm.weight must be a table"),
    (write_safetensors(**{NORM: {"dtype": "F16"}}), "model.norm.weight lacks 'shape'"),
    (
        write_safetensors(**{NORM: {"dtype": "I64", "shape": [1], "data_offsets": [0, 8]}}),
        "dtype 'I64' is not one of",
    ),
    (
        write_safetensors(**{NORM: {"dtype": "F16", "shape": [-1], "data_offsets": [0, 2]}}),
        "shape has an item that is not a size",
    ),
    (
        write_safetensors(**{NORM: {"dtype": "F16", "shape": [3], "data_offsets": [0, 6]}}),
        r"'norm\.weight' is \[3\], but by the model's sizes it should be \[32\]",
    ),
    (
        write_safetensors(x={"dtype": "F16", "shape": [3], "data_offsets": [0, 6]}),
        "a tensor 'x', which no Llama-like model has",
    ),
]


@pytest.mark.parametrize(("data", "says"), BAD_SAFETENSORS, ids=[s for _, s in BAD_SAFETENSORS])
def test_bad_safetensors_files_are_reported(tmp_path: Path, data: bytes, says: str) -> None:
    folder = write_folder(tmp_path / "m")
    (folder / "model.safetensors").write_bytes(data)
    with pytest.raises(ExportError, match=says):
        huggingface.describe(folder)


def test_a_tensor_in_two_files_is_reported(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "m")
    (folder / "other.safetensors").write_bytes(WHOLE)
    with pytest.raises(
        ExportError, match=r"other\.safetensors has .*, which another file also has"
    ):
        huggingface.describe(folder)


BAD_CONFIGS = [
    ([1], r"config\.json must be a table .*, got \[1\]"),
    ({**CONFIG, "num_attention_heads": 0}, r"config\.json: heads is 0"),
    ({**CONFIG, "hidden_size": "8"}, r'config\.json: hidden_size must be an integer, got "8"'),
    ({**CONFIG, "rope_scaling": "linear"}, r'rope_scaling must be a table .*, got "linear"'),
    ({**CONFIG, "rope_theta": "x"}, r'rope_theta must be a number, got "x"'),
    ({**CONFIG, "model_type": ["llama"]}, r"model_type must be a text"),
    ({**CONFIG, "eos_token_id": "</s>"}, r'eos_token_id must be a token\'s number, got "</s>"'),
    ({**CONFIG, "num_key_value_heads": 3}, r"heads must be a multiple"),
]


@pytest.mark.parametrize(("config", "says"), BAD_CONFIGS, ids=[says for _, says in BAD_CONFIGS])
def test_bad_configurations_are_reported(tmp_path: Path, config: Any, says: str) -> None:
    folder = write_folder(tmp_path / "m")
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ExportError, match=says):
        huggingface.describe(folder)


def test_a_factor_of_positions_is_not_rounded() -> None:
    rope = {"rope_type": "llama3", "factor": 8.0, **huggingface._LLAMA3_ROPE}
    here = Path("m")
    assert huggingface.shape_of({**CONFIG, "rope_scaling": rope}, here).rope_scale == 8
    with pytest.raises(ExportError, match='"llama3" are not exported'):
        huggingface.shape_of({**CONFIG, "rope_scaling": {**rope, "factor": 8.5}}, here)


def test_sources_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="cannot be the name of a file"):
        read_source("a\0b")
    folder = write_folder(tmp_path / "m")
    (folder / "config.json").unlink()
    (folder / "config.json").mkdir()
    with pytest.raises(ExportError, match=r"config\.json cannot be read"):
        read_source(folder)


GGUF_HEAD = GOOD.find(b"blk.1.ffn_down.weight") + 60


def test_damaged_gguf_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m.gguf"

    def make(rng: Random) -> bytes:
        return near_start(GOOD, rng, GGUF_HEAD) if rng.random() < 0.9 else damaged(GOOD, rng)

    _refuses_only(path, make, lambda: from_gguf.describe(read_gguf_header(path), path), monkeypatch)


def test_damaged_safetensors_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_folder(tmp_path / "m")
    (length,) = struct.unpack_from("<Q", WHOLE)
    header = json.loads(WHOLE[8 : 8 + length])

    def make(rng: Random) -> bytes:
        if rng.random() < 0.5:
            return near_start(WHOLE, rng, 8 + length)
        text = damaged_json(header, rng)
        return struct.pack("<Q", len(text)) + text + WHOLE[8 + length :]

    file = folder / "model.safetensors"
    _refuses_only(file, make, lambda: huggingface.describe(folder), monkeypatch)


def test_damaged_configurations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_folder(tmp_path / "m")
    rope = {"rope_type": "llama3", "factor": 8.0, **huggingface._LLAMA3_ROPE}

    def make(rng: Random) -> bytes:
        return damaged_json({**CONFIG, "rope_scaling": rope, "head_dim": None}, rng)

    file = folder / "config.json"
    _refuses_only(file, make, lambda: huggingface.describe(folder), monkeypatch)


def _refuses_only(
    file: Path,
    make: Callable[[Random], bytes],
    describe: Callable[[], object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each mutant replaces the file in memory, because a disk is slow."""
    import io

    current = b""
    plain = Path.open

    def opening(path: Path, *rest: Any, **more: Any) -> Any:
        return io.BytesIO(current) if path == file else plain(path, *rest, **more)

    def read(data: bytes) -> None:
        nonlocal current
        current = data
        describe()

    monkeypatch.setattr(Path, "open", opening)
    times = extent.count(1200, 20_000)
    with bounded_work(4 * weight_files.MAX_HEADER):
        good, bad = outcomes(read, make, times, ExportError, file.name)
    assert good > 0
    assert bad > times // 3

"""Models of known sizes with weights that repeat themselves, exported for timing tasks.

Each weight is filled with one block of random numbers again and again, as large as its
initialisation has it: numbers stay ordinary, and an archive of the programs is small to send. They
say nothing about sounds or pictures. `bench.task_bench --write` writes them; it needs the
environment of `serve.py export`.
"""

from __future__ import annotations

import json
import lzma
import shutil
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from data.make.make_image_text import END, FAKE, GLOBAL, IMAGE, START, TEMPLATE
from data.make.small_vlm import COLOURS
from data.make.task_models import transformers as tf
from support.llm.small_seq2seq import RATE
from webpte_export.report import Report
from webpte_export.tasks import export_task

BLOCK = 8191  # numbers, a prime: rows of one weight begin at different ones
SPEECH, SEEING = "automatic-speech-recognition", "image-text-to-text"
PROGRAM = "model.pte"
QUANTIZATIONS = {"whisper": "8w", "smolvlm": "4w"}  # by the model's size, as exporting.md says
TASKS = {"whisper": SPEECH, "smolvlm": SEEING}

# The vocabulary of Whisper's models of many languages: text, then special tokens, then times.
WHISPER_VOCABULARY, WHISPER_END = 51_865, 50_257
LANGUAGES, TRANSLATE, TRANSCRIBE, NO_TIMES = 99, 50_358, 50_359, 50_363

SPECIAL = ["<unk>", "<pad>", START, END, FAKE, IMAGE, GLOBAL] + [
    f"<row_{row}_col_{column}>" for row in range(1, 7) for column in range(1, 7)
]


def whisper(folder: Path, tiny: bool) -> None:
    """Write a model of whisper-tiny's sizes, or a much smaller model with the same windows."""
    width, layers, heads = (64, 1, 2) if tiny else (384, 4, 6)
    sizes = {"d_model": width, "vocab_size": WHISPER_VOCABULARY, "num_mel_bins": 80}
    for half in ("encoder", "decoder"):
        sizes[f"{half}_layers"] = layers
        sizes[f"{half}_attention_heads"] = heads
        sizes[f"{half}_ffn_dim"] = 4 * width
    known = {"bos_token_id": WHISPER_END, "eos_token_id": WHISPER_END, "pad_token_id": WHISPER_END}
    known["decoder_start_token_id"] = WHISPER_END + 1
    model = tf.WhisperForConditionalGeneration(tf.WhisperConfig(**sizes, **known))
    repeat(model).save_pretrained(folder)
    languages = {f"<|l{n}|>": WHISPER_END + 2 + n for n in range(LANGUAGES)}
    first, *_ = languages.values()
    generation = {
        **known,
        "lang_to_id": {"<|en|>": first, **dict(list(languages.items())[1:])},
        "task_to_id": {"translate": TRANSLATE, "transcribe": TRANSCRIBE},
        "no_timestamps_token_id": NO_TIMES,
        "is_multilingual": True,
        "max_initial_timestamp_index": 50,
        "begin_suppress_tokens": [220, WHISPER_END],
        "suppress_tokens": [1, 2, *range(WHISPER_END + 1, NO_TIMES)],
    }
    features = {"feature_size": 80, "chunk_length": 30, "n_fft": 400, "hop_length": 160}
    write_json(folder / "generation_config.json", generation)
    write_json(folder / "preprocessor_config.json", {**features, "sampling_rate": RATE})
    write_tokenizer(folder, {f"w{n}": n for n in range(WHISPER_VOCABULARY)}, [])


def smolvlm(folder: Path, tiny: bool) -> None:
    """Write a model of SmolVLM-256M's sizes, or a much smaller model with smaller tiles."""
    vision = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12}
    text = {"hidden_size": 576, "num_hidden_layers": 30, "num_attention_heads": 9}
    if tiny:
        vision = {"hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}
        text = {"hidden_size": 192, "num_hidden_layers": 2, "num_attention_heads": 3}
    names = {"bos": START, "eos": END, "pad": "<pad>"}
    ids = {f"{name}_token_id": SPECIAL.index(token) for name, token in names.items()}
    vocabulary, side = 49_280, 128 if tiny else 512
    config = tf.Idefics3Config(
        vision_config={
            **vision,
            "model_type": "idefics3_vision",
            "intermediate_size": 4 * vision["hidden_size"],
            "image_size": side,
            "patch_size": 16,
        },
        text_config={
            **text,
            "model_type": "llama",
            "num_key_value_heads": text["num_attention_heads"] // 3,
            "intermediate_size": 96 if tiny else 1536,
            "vocab_size": vocabulary,
            "max_position_embeddings": 8192,
            "tie_word_embeddings": False,
            **ids,
        },
        image_token_id=SPECIAL.index(IMAGE),
        scale_factor=4,
        pad_token_id=ids["pad_token_id"],
        tie_word_embeddings=False,
    )
    repeat(tf.Idefics3ForConditionalGeneration(config)).save_pretrained(folder)
    pictures = {
        "image_processor_type": "Idefics3ImageProcessor",
        "do_resize": True,
        "do_image_splitting": True,
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "size": {"longest_edge": 4 * side},
        "max_image_size": {"longest_edge": side},
        **COLOURS,
    }
    write_json(folder / "preprocessor_config.json", pictures)
    numbers = numbered_words(SPECIAL, vocabulary)
    write_tokenizer(folder, numbers, SPECIAL, chat_template=TEMPLATE, bos_token=START)


# Decoders by family: transformers' name, layers, and sizes of Llama-3.2-1B, SmolLM2-135M,
# Qwen3-0.6B, Gemma-3-1B, Phi-1.5.
DECODERS: dict[str, tuple[str, int, dict[str, Any]]] = {
    "llama": (
        "Llama",
        16,
        {"hidden_size": 2048, "num_attention_heads": 32, "num_key_value_heads": 8}
        | {"intermediate_size": 8192, "vocab_size": 128_256, "rope_theta": 500_000.0},
    ),
    "smollm2": (
        "Llama",
        30,
        {"hidden_size": 576, "num_attention_heads": 9, "num_key_value_heads": 3}
        | {"intermediate_size": 1536, "vocab_size": 49_152, "tie_word_embeddings": True},
    ),
    "qwen3": (
        "Qwen3",
        28,
        {"hidden_size": 1024, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128}
        | {"intermediate_size": 3072, "vocab_size": 151_936, "tie_word_embeddings": True},
    ),
    "gemma3": (
        "Gemma3",
        26,
        {"hidden_size": 1152, "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 256}
        | {"intermediate_size": 6912, "vocab_size": 262_144, "sliding_window": 512},
    ),
    "phi": (
        "Phi",
        24,
        {"hidden_size": 2048, "num_attention_heads": 32, "num_key_value_heads": 32}
        | {"intermediate_size": 8192, "vocab_size": 51_200, "partial_rotary_factor": 0.5},
    ),
}


def write_decoder(name: str, folder: Path, layers: int | None, context: int) -> None:
    """Write a language model of a family's sizes, with fewer layers if asked."""
    family, every, sizes = DECODERS[name]
    kind = f"{family}TextConfig" if family == "Gemma3" else f"{family}Config"
    ends = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1}
    config = getattr(tf, kind)(
        **sizes, **ends, num_hidden_layers=layers or every, max_position_embeddings=context
    )
    repeat(getattr(tf, f"{family}ForCausalLM")(config)).save_pretrained(folder)
    write_tokenizer(folder, numbered_words([], sizes["vocab_size"]), [])


def numbered_words(special: list[str], count: int) -> dict[str, int]:
    """Return so many words with their numbers: special words, then letters, then others."""
    letters = [chr(n) for n in (*range(33, 127), *range(161, 512))]
    words = [*special, *letters]
    words += [f"w{n}" for n in range(len(words), count)]
    return {word: number for number, word in enumerate(words)}


def write_tokenizer(
    folder: Path, numbers: dict[str, int], special: list[str], **settings: Any
) -> None:
    """Write a byte-level tokenizer that has a word for each number and joins no letters."""
    flags = ("single_word", "lstrip", "rstrip", "normalized")
    letters = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    added = [
        {"id": numbers[one], "content": one, "special": True, **dict.fromkeys(flags, False)}
        for one in special
    ]
    content = {
        "version": "1.0",
        "added_tokens": added,
        "normalizer": None,
        "post_processor": None,
        "pre_tokenizer": {**letters, "use_regex": True},
        "decoder": letters,
        "model": {"type": "BPE", "vocab": numbers, "merges": []},
    }
    write_json(folder / "tokenizer.json", content)
    write_json(folder / "tokenizer_config.json", settings)


def repeat(model: Any) -> Any:
    """Fill every weight that is trained with the same random numbers, of its own size."""
    block = torch.randn(BLOCK, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1 and weight.requires_grad:
                times = -(-weight.numel() // BLOCK)
                flat = block.repeat(times)[: weight.numel()]
                weight.copy_(flat.reshape(weight.shape) * weight.std())
    return model.eval()


def write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False) + "\n", encoding="utf-8")


MAKERS: dict[str, Callable[[Path, bool], None]] = {"whisper": whisper, "smolvlm": smolvlm}


def export_model(name: str, out: Path, *, tiny: bool, quantize: str | None) -> Report:
    """Make one of the models and export it into OUT/NAME."""
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work, name)
        folder.mkdir()
        MAKERS[name](folder, tiny)
        how = QUANTIZATIONS[name] if quantize is None else quantize
        chosen = None if how == "none" else how
        return export_task(folder, out / name, TASKS[name], quantize=chosen)


def pack_program(program: Path) -> Path:
    """Write PROGRAM.xz beside a program; return its path."""
    packed = program.with_suffix(".pte.xz")
    with lzma.open(packed, "wb", preset=1) as out, program.open("rb") as source:
        shutil.copyfileobj(source, out, 1 << 24)
    return packed


def pack(folder: Path) -> Path:
    """Write FOLDER.tar.xz with the files that the task reads; return its path."""
    archive = folder.with_suffix(".tar.xz")
    with tarfile.open(archive, "w:xz", preset=9) as packed:
        for path in sorted(folder.glob("*")):
            if path.is_file() and path.suffix in (".pte", ".json"):
                packed.add(path, f"{folder.name}/{path.name}")
    return archive

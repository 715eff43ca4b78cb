"""Small language models of optimum-executorch, with their answers in ExecuTorch; and as published.

tests/data/make/make_optimum.py makes the programs.
"""

from __future__ import annotations

import json
import zipfile
from functools import cache

from support.llm.small_seq2seq import tokenizer_of
from webpte_host.base.layout import ROOT

LONE = "someone/llama-xnnpack"
WORDS = 64


@cache
def files() -> dict[str, bytes]:
    """Read the programs and the answers."""
    with zipfile.ZipFile(ROOT / "tests" / "data" / "llm" / "optimum.zip") as packed:
        return {name: packed.read(name) for name in packed.namelist()}


def answers() -> dict[str, list[int]]:
    """Return the prompt, and the tokens that each program gives."""
    found: dict[str, list[int]] = json.loads(files()["answers.json"])
    return found


def repositories() -> dict[str, dict[str, bytes]]:
    """Return a repository with a lone model.pte for XNNPACK, as optimum-executorch writes it."""
    template = "{% for one in messages %}{{ one['content'] }} {% endfor %}"
    texts = {
        "tokenizer.json": tokenizer_of(WORDS),
        "tokenizer_config.json": {"chat_template": template},
        "config.json": {"architectures": ["LlamaForCausalLM"], "model_type": "llama"},
    }
    written = {name: json.dumps(text).encode() for name, text in texts.items()}
    return {LONE: {"model.pte": files()["quantized.pte"], **written}}

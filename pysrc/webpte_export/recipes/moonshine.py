"""Moonshine tiny: English speech to text."""

from __future__ import annotations

from pathlib import Path

from webpte_export.catalog.recipe import LanguageModel, Recipe, Value, Wheel

_WEIGHTS = "package/dist/model/tiny/quantized"
_ENCODER, _DECODER = f"{_WEIGHTS}/encoder_model.onnx", f"{_WEIGHTS}/decoder_model_merged.onnx"
_TOKENIZER = "moonshine_onnx/assets/tokenizer.json"
_SOUND, _EXAMPLE = "moonshine_onnx/assets/beckett.wav", "example.wav"


def build(files: Path) -> LanguageModel:
    from webpte_export.networks.moonshine import write_folder

    folder = files / "folder"
    write_folder(files / _ENCODER, files / _DECODER, files / _TOKENIZER, folder)
    # The weights were in 8 bits before, so 8 bits lose nothing.
    return LanguageModel(folder, quantize="8w", files={_EXAMPLE: (files / _SOUND).read_bytes()})


RECIPE = Recipe(
    name="moonshine",
    title="Moonshine tiny",
    task="English speech to text",
    licence="MIT",
    licence_from="package/LICENSE",
    wheels=(
        Wheel(
            name="@moonshine-ai/moonshine-js",
            version="0.1.29",
            sha256="864e17a00ed494857c71693e835306fa038e0f82002c76e3056d67d574e1c2d8",
            bytes=21_514_347,
            members=(_ENCODER, _DECODER),
            registry="npm",
        ),
        Wheel(
            name="useful-moonshine-onnx",
            version="20251121",
            sha256="b4189b0d7dc8064d567fd0b5d5ce78634be290b0a3a3274ab80ad11c46d531a2",
            bytes=729_305,
            members=(_TOKENIZER, _SOUND),
        ),
    ),
    bytes=40_000_000,
    view="speech",
    inputs=(Value("samples", "a sound of at most 30 seconds", rate=16_000),),
    outputs=(Value("keys and values", "of the sound, for each layer of the decoder"),),
    build=build,
    sound=_EXAMPLE,
    notes="Open the view Speech, press Listen and speak. It knows English alone.",
)

"""Writes image models and an encoder whose lone calls are timed, with weights that repeat.

    PYTHONPATH=pysrc:tests python -m bench.lone_models FOLDER [--only resnet18]

writes FOLDER/NAME.pte and an archive of each: ResNet-18 and MobileNetV2 of torchvision for pictures
of 224 x 224, and MiniLM-L6's sizes for 128 tokens. It needs the environment of `serve.py export`.
`program_page.py` times them in a page.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from bench.repeating_models import pack_program, repeat
from support.write.task_models import transformers as tf
from webpte_export import export

TOKENS = 128
Model = tuple[torch.nn.Module, tuple[torch.Tensor, ...]]


class Encoder(torch.nn.Module):
    """An encoder that returns its last states."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.model(tokens).last_hidden_state


def picture_model(name: str) -> Model:
    import torchvision

    model = getattr(torchvision.models, name)(weights=None)
    return model, (torch.rand(1, 3, 224, 224),)


def minilm() -> Model:
    sizes = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12}
    config = tf.BertConfig(**sizes, intermediate_size=1536, attn_implementation="sdpa")
    model = tf.BertModel(config, add_pooling_layer=False)
    return Encoder(model), (torch.randint(0, 1000, (1, TOKENS)),)


MODELS: dict[str, Callable[[], Model]] = {
    "resnet18": lambda: picture_model("resnet18"),
    "mobilenetv2": lambda: picture_model("mobilenet_v2"),
    "minilm": minilm,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="+", choices=MODELS, default=list(MODELS))
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.only:
        model, inputs = MODELS[name]()
        program = options.folder / f"{name}.pte"
        report = export(repeat(model), inputs, program)
        print(report.text())
        archive = pack_program(program)
        print(f"{archive}: {archive.stat().st_size / 1e6:.1f} MB", flush=True)


if __name__ == "__main__":
    main()

"""Exports the sample `stories` again from its program, without training.

    python -m webpte_export.samples.stories.from_program web/samples OUT_DIR

The weights of stories.pte are 8-bit numbers with a scale for each row, and the exporter finds the
same numbers in the dequantized weights. OUT_DIR gets the files of `export_samples stories`, with
the method `learn`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from webpte.engine.graph.graph import Graph
from webpte.engine.load.program_file import read_contents
from webpte.engine.open.open_source import open_source
from webpte.engine.ops import definition_of
from webpte.engine.rewrite.dataflow import Dataflow
from webpte_export.exporter import Clock
from webpte_export.exporter_patches import patch_exporter
from webpte_export.llm.export import export_source
from webpte_export.llm.source import Shape, Source
from webpte_export.report import Report
from webpte_export.samples.stories.training import LORA

# In the order of ExecuTorch's Llama, for each layer.
LINEARS = tuple(f"attention.w{name}" for name in "qkvo") + tuple(
    f"feed_forward.w{name}" for name in "132"
)
NORMS = ("attention_norm", "ffn_norm")
_LINEAR, _NORM = "aten._weight_int8pack_mm.default", "et_vk.rms_norm.default"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("samples", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    print(export_again(options.samples, options.out).text())


def export_again(samples: Path, out: Path) -> Report:
    patch_exporter()
    source = asyncio.run(read_stories(samples))
    context = source.shape.max_context
    report = export_source(
        source,
        out / "stories.pte",
        quantize="8w",
        context=context,
        chunk=context,
        half=False,
        clock=Clock(),
        train=LORA,
    )
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (out / name).unlink()
    return report


async def read_stories(samples: Path) -> Source:
    """Return the model of stories.pte with float weights, and its tokenizer."""
    contents = await read_contents(await open_source(samples / "stories.pte"))
    graph = next(one for one in contents.methods["forward"].graphs if one is not None)
    linears = await _constants(graph, _LINEAR, ("weight", "scales"))
    norms = await _constants(graph, _NORM, ("weight",))
    shape, weights = _shape(), dict[str, Any]()
    for layer in range(shape.layers):
        for name in LINEARS:
            weights[f"layers.{layer}.{name}.weight"] = _dequantized(*linears.pop(0))
        for name in NORMS:
            weights[f"layers.{layer}.{name}.weight"] = torch.from_numpy(norms.pop(0)[0])
    weights["norm.weight"] = torch.from_numpy(norms.pop(0)[0])
    weights["output.weight"] = _dequantized(*linears.pop(0))
    weights["tok_embeddings.weight"] = weights["output.weight"].clone()
    assert not linears
    assert not norms
    files = [
        json.loads((samples / f"stories.{name}.json").read_text(encoding="utf-8"))
        for name in ("tokenizer", "tokenizer_config")
    ]
    return Source("stories", shape, weights, files[0], files[1], 0, (3,))


def _shape() -> Shape:
    from webpte_export.samples.stories.train_stories import CONTEXT, VOCABULARY, new_model

    config = new_model().config
    return Shape(
        architecture="llama",
        layers=config.num_hidden_layers,
        vocab_size=VOCABULARY,
        max_context=CONTEXT,
        dim=config.hidden_size,
        heads=config.num_attention_heads,
        kv_heads=config.num_key_value_heads,
        head_dim=config.head_dim,
        hidden_dim=config.intermediate_size,
        norm_eps=config.rms_norm_eps,
        rope_theta=10000.0,
    )


async def _constants(
    graph: Graph, operator: str, names: tuple[str, ...]
) -> list[tuple[np.ndarray, ...]]:
    """Return the constants in calls of an operator, in the order of the calls."""
    flow, found = Dataflow.of(graph), []
    sources = {call.args[-1]: call.args[0] for call in flow.prepacks}
    for call in flow.computing:
        op = definition_of(call)
        if op is None or op.name != operator:
            continue
        arrays = []
        for name in names:
            value = call.args[op.signature.positions[name]]
            tensor = graph.tensor(sources.get(value, value))
            assert tensor.constant is not None
            region = tensor.constant.region
            data = await region.source.read(region.offset, region.size)
            arrays.append(tensor.dtype.from_bytes(data).reshape(tensor.dims).copy())
        found.append(tuple(arrays))
    return found


def _dequantized(numbers: np.ndarray, scales: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(numbers.astype(np.float32) * scales.reshape(-1, 1))


if __name__ == "__main__":
    main()

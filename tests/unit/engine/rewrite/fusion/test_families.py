"""Counts of dispatches per layer of decoders of many families: six for all of them."""

from __future__ import annotations

import pytest

from support.decoders.decoder_graphs import FAMILIES, decoder_layers
from support.graphs.graphs import build_graph, make_planner
from webpte.engine.ops.core.target import Target
from webpte.engine.rewrite.fusion import fuse


def kernels(family: str, tokens: int, count: int) -> list[str]:
    graph = fuse(build_graph(decoder_layers(FAMILIES[family], tokens, count)))
    planner, _ = make_planner(graph, Target(storage_buffers=10))
    planner.lower_all()
    return [dispatch.kernel for dispatch in planner.dispatches()]


@pytest.mark.parametrize(
    ("family", "decode", "prefill"),
    [
        ("llama", 5, 15),
        ("qwen2", 5, 15),
        ("qwen3", 5, 17),
        ("gemma", 5, 15),
        ("gemma3", 5, 19),  # norms after attention and MLP, too
        ("mistral", 5, 15),
        ("olmo2", 5, 17),
        ("smollm3", 5, 14),
        ("gpt2", 5, 15),
        ("gpt_neox", 5, 16),
        ("phi", 6, 15),  # attention and MLP read one norm
        ("cohere", 6, 14),
    ],
)
def test_a_layer(family: str, decode: int, prefill: int) -> None:
    """Count the dispatches of a layer: the difference between two layers and a single layer."""
    counts = [
        len(kernels(family, tokens, 2)) - len(kernels(family, tokens, 1)) for tokens in (1, 33)
    ]
    assert counts == [decode, prefill]


@pytest.mark.parametrize("family", ["llama", "qwen2", "gemma3", "gpt2"])
def test_a_layer_of_a_step_of_many_sequences(family: str) -> None:
    """Up to 32 rows take fewer dispatches than a long prompt: gates and sums stay fused."""
    some, many = (len(kernels(family, tokens, 1)) for tokens in (32, 33))
    assert some <= many - 2

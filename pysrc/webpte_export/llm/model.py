"""Builds the PyTorch model to export: ExecuTorch's Llama, with its operators for KV caches."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from webpte_export.errors import ExportError
from webpte_export.llm.source import Shape, Source
from webpte_export.quantize import row_scales


def build(source: Source, max_context: int, max_chunk: int) -> Any:
    """Build the float32 model: (tokens, {"input_pos"}) -> logits of the last token."""
    from executorch.examples.models.llama.llama_transformer import construct_transformer
    from executorch.examples.models.llama.model_args import ModelArgs
    from executorch.examples.models.llama.source_transformation.custom_kv_cache import (
        replace_kv_cache_with_custom_kv_cache,
    )
    from executorch.examples.models.llama.source_transformation.sdpa import (
        replace_sdpa_with_custom_op,
    )

    assert isinstance(source.shape, Shape)
    arguments = ModelArgs(
        max_seq_len=max_chunk,
        max_context_len=max_context,
        max_batch_size=1,
        use_kv_cache=True,
        use_sdpa_with_kv_cache_op=True,
        enable_dynamic_shape=True,
        **source.shape.params,
    )
    with _one_causal_mask():
        model = construct_transformer(arguments)
    missing, unexpected = model.load_state_dict(source.weights, strict=False, assign=True)
    missing = [name for name in missing if name.endswith((".weight", ".bias"))]
    if missing or unexpected:
        raise ExportError(
            f"{source.name} does not have the tensors of a {source.shape.architecture}: "
            f"missing {missing[:3]}, too many {unexpected[:3]}."
        )
    return replace_kv_cache_with_custom_kv_cache(replace_sdpa_with_custom_op(model)).eval()


@contextmanager
def _one_causal_mask() -> Iterator[None]:
    """Let all layers share a mask, because each layer would make a mask of 1 GB at a context of
    32,768.

    The operator for KV caches does not read the mask.
    """
    import torch

    triangle, made = torch.tril, dict[tuple[int, ...], torch.Tensor]()

    def shared(whole: torch.Tensor, *options: Any, **more: Any) -> torch.Tensor:
        if options or more or whole.dtype != torch.bool:
            return triangle(whole, *options, **more)
        shape = tuple(whole.shape)
        if shape not in made:
            made[shape] = triangle(whole)
        return made[shape]

    with patch.object(torch, "tril", shared):
        yield


def quantize_embedding(model: Any) -> None:
    """Quantize the embedding to 8 bits, which loses little, in place."""
    model.tok_embeddings = row_quantized_embedding(model.tok_embeddings)


def row_quantized_embedding(embedding: Any) -> Any:
    """Build an embedding of 8-bit rows with a scale each.

    The rows are the embedding's results, which include a factor (Gemma's, BART's).
    """
    import executorch.exir.passes._quant_patterns_and_replacements  # noqa: F401
    import torch

    # Registers the operators, also the operator that the program calls.
    from torch.ao.quantization.fx._decomposed import quantized_decomposed_lib  # noqa: F401

    class RowQuantizedEmbedding(torch.nn.Module):
        """An embedding: indices (...) -> (..., width)"""

        def __init__(self, weight: Any) -> None:
            super().__init__()
            scales = row_scales(weight)
            rounded = (weight / scales[:, None]).round().clamp(-127, 127)
            self.register_buffer("weight", rounded.to(torch.int8))
            self.register_buffer("scales", scales)

        def forward(self, numbers: Any) -> Any:
            return torch.ops.quantized_decomposed.embedding_byte.dtype(
                self.weight, self.scales, None, -128, 127, numbers, dtype=torch.float32
            )

    with torch.no_grad():
        rows = embedding(torch.arange(embedding.num_embeddings, device=embedding.weight.device))
    return RowQuantizedEmbedding(rows.detach())


def as_program(model: Any) -> Any:
    """Wrap the model with the program's inputs: tokens (1, n) and the first position (1,)."""
    import torch

    class LlamaProgram(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, tokens: Any, input_pos: Any) -> Any:
            return self.model(tokens, {"input_pos": input_pos})

    return LlamaProgram().eval()


def all_logits(model: Any, tokens: Sequence[int]) -> Any:
    """Return the logits after each token of a text, (n, vocabulary); clear the caches."""
    import torch

    model.generate_full_logits = True
    try:
        with torch.no_grad():
            given = torch.tensor([tokens])
            return model(given, {"input_pos": torch.zeros(1, dtype=torch.long)})[0]
    finally:
        model.generate_full_logits = False
        for name, buffer in model.named_buffers():
            if name.endswith(("k_cache", "v_cache")):
                buffer.zero_()  # otherwise the file would contain the text's keys and values


def perplexity_of(logits: Any, following: Sequence[int]) -> float:
    """Return the perplexity of tokens from the logits (n, vocabulary) that precede them."""
    import torch

    return math.exp(torch.nn.functional.cross_entropy(logits, torch.tensor(following)).item())

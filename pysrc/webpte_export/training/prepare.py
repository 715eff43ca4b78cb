"""Prepares the method `learn` of a language model for the exporter, and checks its gradient."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from webpte.training.lora_form import LEARN
from webpte_export.errors import ExportError
from webpte_export.exporter import PreparedMethod
from webpte_export.llm.export import Training
from webpte_export.llm.source import Shape, Source
from webpte_export.suite_writer import Tolerance
from webpte_export.training.adapters import BETAS, LoraOptions, facts, layout
from webpte_export.training.network import LearnStep, Tables

_RATE, _DECAY = 1e-3, 0.01  # for the compared calls
_SPREAD = 0.02  # of matrices in these calls: B is not zero, so that A has a gradient, too
_MOST_DIFFERENCE = 1e-3  # relative to a gradient's largest element, and to the largest logit
_TOLERANCE = Tolerance(1e-5, 1e-2)  # gradients and their squares are small


def lora_training(options: LoraOptions) -> Training:
    """Return the argument `train` of `export_llm`."""
    return partial(_prepare, options)


def _prepare(
    options: LoraOptions, source: Source, model: Any, tokens: Sequence[int]
) -> tuple[dict[str, PreparedMethod], dict[str, str]]:
    """Return the method, and the constant method that describes the LoRA.

    model   the result of `webpte_export.llm.model.build`, quantized as for the export
    tokens  a text, for the compared calls
    """
    if not isinstance(source.shape, Shape):
        raise ExportError(
            f"{source.name} is not a Llama-like model (Llama, Mistral, Qwen2, Qwen3): others "
            "cannot be trained."
        )
    options.check(source.shape)
    adapters = layout(source.shape, options)
    step = LearnStep(model, source.shape, adapters, options).eval()
    calls = _calls(tokens, options, adapters[-1].end)
    _check(step, model, calls[0])
    return {LEARN: PreparedMethod(step, calls, tolerance=_TOLERANCE)}, facts(adapters, options)


def _calls(tokens: Sequence[int], options: LoraOptions, count: int) -> list[tuple[Tensor, ...]]:
    """Return two steps: with full rows, and with a padded last row."""
    batch, length = options.batch, options.length
    generator = torch.Generator().manual_seed(0)
    w = torch.randn(count, generator=generator) * _SPREAD
    needed = batch * length + 1
    text = torch.tensor((list(tokens) * (1 + needed // len(tokens)))[:needed])
    found = []
    for number, left in enumerate((length, max(1, length // 2))):
        targets = text[1:].reshape(batch, length).to(torch.int32)
        targets[-1, left:] = -1
        corrections = [1 / (1 - beta ** (number + 1)) for beta in BETAS]
        settings = torch.tensor([_RATE, _DECAY, *corrections])
        moments = torch.zeros(count), torch.zeros(count)
        found.append((text[:-1].reshape(batch, length), targets, settings, w.clone(), *moments))
    return found


def _check(step: LearnStep, model: Any, call: tuple[Tensor, ...]) -> None:
    """Compare the logits with the model's, and the gradient with autograd's."""
    tokens, targets, _, w, *_ = call
    model.generate_full_logits = True
    try:
        with torch.no_grad():
            first = {"input_pos": torch.zeros(1, dtype=torch.long)}
            wanted = model(tokens[:1], first)[0]
            logits = _logits(step, tokens, torch.zeros_like(w))[: tokens.shape[1]]
            _, gradient = step.gradient(tokens, targets, w)
    finally:
        model.generate_full_logits = False
        for name, buffer in model.named_buffers():
            if name.endswith(("k_cache", "v_cache")):
                buffer.zero_()
    trained = w.clone().requires_grad_()
    with torch.enable_grad():
        loss = cross_entropy(
            _logits(step, tokens, trained), targets.reshape(-1).long(), ignore_index=-1
        )
        (expected,) = torch.autograd.grad(loss, trained)
    for what, one, other in (("logits", logits, wanted), ("gradient", gradient, expected)):
        error = float((one - other).abs().max())
        if not error <= _MOST_DIFFERENCE * float(other.abs().max()):
            raise ExportError(
                f"the method {LEARN!r} would be wrong: its {what} differ by {error:.2g} from "
                f"PyTorch's. Export it without --train."
            )


def _logits(step: LearnStep, tokens: Tensor, w: Tensor) -> Tensor:
    """Return the logits after each token, (N, vocabulary), by the forward pass alone."""
    x = step.embedding(tokens.reshape(-1))
    tables = Tables(step.cosines, step.sines, step.places)
    for block in step.blocks:
        x, _ = block(x, w, tables)
    logits: Tensor = step.output(step.norm(x))
    return logits

"""Attention of a decoder to its cache, for the library's table of attention functions.

It uses ExecuTorch's operators. A sliding window is a mask, which all layers share; a soft cap,
sinks and values of another width than keys are written out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from webpte_export.llm.decoder_state import STEP, KVCache

ATTENTION = "webpte_kv_cache"
_SHAPES = f"{ATTENTION}_shapes"
_MASKED = -1e30


def register_functions() -> None:
    """Register attention and mask in the library's tables, and the operators that they call."""
    import executorch.backends.vulkan.custom_ops_lib  # noqa: F401
    from executorch.extension.llm.custom_ops import custom_ops  # noqa: F401
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(ATTENTION, attend)
    AttentionMaskInterface.register(ATTENTION, _mask)


@dataclass(frozen=True)
class AttentionLayer:
    """The keys and values of a short text in an attention layer, (1, heads, n, head_dim)."""

    key: Tensor
    value: Tensor


def attention_layers(model: Any) -> dict[int, AttentionLayer]:
    """Return the attention layers by their number; empty if the model does not use the table."""
    from transformers import AttentionInterface

    found: dict[int, AttentionLayer] = {}

    def record(
        module: Any, query: Tensor, key: Tensor, value: Tensor, *_: Any, **_options: Any
    ) -> tuple[Tensor, None]:
        if module.layer_idx in found:
            raise ValueError("a layer calls its attention twice")
        found[module.layer_idx] = AttentionLayer(key, value)
        return query.new_zeros(*query.shape[:3], value.shape[3]).transpose(1, 2), None

    AttentionInterface.register(_SHAPES, record)
    before = model.config._attn_implementation
    model.set_attn_implementation(_SHAPES)
    try:
        with torch.no_grad():
            model(input_ids=torch.zeros(1, 2, dtype=torch.long), use_cache=False)
    except Exception:
        found.clear()  # its own attention needs the mask, which this table lacks
    finally:
        model.set_attn_implementation(before)
    return dict(sorted(found.items()))


def attend(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None = None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    indices: Tensor | None = None,
    **_options: Any,
) -> tuple[Tensor, None]:
    """Attend to the cache: (1, heads, n, head_dim) each -> (1, n, heads, head_dim).

    `s_aux` (heads,) are sinks: a score of nothing for each head. `indices` (1, n, k) are the keys
    that an indexer chose for each token.
    """
    assert STEP.decoder is not None
    width = query.shape[-1]
    scale = scaling if scaling is not None else width**-0.5
    if STEP.decoder.masked:
        if indices is not None and indices.shape[-1] < key.shape[2]:
            assert attention_mask is not None
            hidden = torch.full_like(attention_mask[:, 0], _MASKED)
            chosen = hidden.scatter(-1, indices.to(torch.int64), 0.0)
            attention_mask = torch.minimum(attention_mask, chosen.unsqueeze(1))
        return _behind_mask(query * scale, key, value, attention_mask, softcap, s_aux), None
    cache = STEP.decoder.caches[str(module.layer_idx)]
    window = sliding_window if sliding_window and sliding_window < cache.context else None
    if value.shape[-1] != width:
        cache.write(key, value, STEP.positions)
        return _written_out(query * scale, cache, window, softcap, s_aux), None
    torch.ops.llama.update_cache(key.transpose(1, 2), cache.k_cache, STEP.start)
    torch.ops.llama.update_cache(value.transpose(1, 2), cache.v_cache, STEP.start)
    if softcap is not None or s_aux is not None:
        return _written_out(query * scale, cache, window, softcap, s_aux), None
    given = (query.transpose(1, 2), cache.k_cache, cache.v_cache, STEP.start)
    if window is not None:
        # The scale comes last, and keeps the arguments before it, which the partitioner reads.
        mask = _window_mask(cache.context, window)
        return torch.ops.llama.custom_sdpa(*given, mask, 0.0, False, scale), None
    # The partitioner's operator knows only the usual scale.
    if not math.isclose(scale, width**-0.5, rel_tol=1e-6):
        given = ((query * (scale * math.sqrt(width))).transpose(1, 2), *given[1:])
    return torch.ops.llama.custom_sdpa(*given, None, 0.0, True), None


def _window_mask(context: int, window: int) -> Tensor:
    """Return the mask (n, context) that hides later keys and keys before a window, once a step."""
    if window not in STEP.masks:
        ago = STEP.positions.unsqueeze(1) - torch.arange(context).unsqueeze(0)
        hidden = (ago < 0) | (ago >= window)
        STEP.masks[window] = torch.where(hidden, -math.inf, 0.0)
    return STEP.masks[window]


def _written_out(
    query: Tensor, cache: KVCache, window: int | None, softcap: float | None, sinks: Tensor | None
) -> Tensor:
    """Attend to the whole cache behind a mask, with a sliding window, a soft cap or sinks."""
    heads = query.shape[1]
    keys, values = (_for_heads(each, heads) for each in (cache.k_cache, cache.v_cache))
    return _attended(query[0], keys, values, _seen(cache.context, window), softcap, sinks)


def _behind_mask(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    softcap: float | None,
    sinks: Tensor | None,
) -> Tensor:
    """Attend to keys and values (1, heads, n, head_dim) behind the mask of a model."""
    keys, values = (_for_heads(each.transpose(1, 2), query.shape[1]) for each in (key, value))
    seen: Tensor | None = None
    if mask is not None:
        seen = mask[0] if mask.dtype == torch.bool else mask[0] > _MASKED / 2
        if mask.dtype != torch.bool:  # a mask of floats may hold scores, too
            added = torch.where(seen, mask[0], 0.0)
            return _attended(query[0], keys, values, seen, softcap, sinks, added)
    return _attended(query[0], keys, values, seen, softcap, sinks)


def _attended(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    seen: Tensor | None,
    softcap: float | None,
    sinks: Tensor | None,
    added: Tensor | None = None,
) -> Tensor:
    """Attend to keys and values (heads, n, head_dim) that `seen` shows."""
    heads = query.shape[0]
    scores = torch.bmm(query, keys.transpose(1, 2))
    if softcap is not None:
        scores = torch.tanh(scores / softcap) * softcap
    if added is not None:
        scores = scores + added
    if seen is not None:
        scores = torch.where(seen, scores, _MASKED)
    if sinks is None:
        weights = torch.softmax(scores, -1)
    else:
        nothing = sinks.reshape(heads, 1, 1).expand(heads, scores.shape[1], 1)
        weights = torch.softmax(torch.cat([scores, nothing], -1), -1)[..., :-1]
    return torch.bmm(weights, values).transpose(0, 1).contiguous().unsqueeze(0)


def _seen(context: int, window: int | None) -> Tensor:
    """Return a mask of the cache positions that each token attends to, (n, context)."""
    rows = STEP.positions.unsqueeze(1)
    columns = torch.arange(context).unsqueeze(0)
    seen = columns <= rows
    return seen if window is None else seen & (columns > rows - window)


def _for_heads(cache: Tensor, heads: int) -> Tensor:
    """Repeat the keys or values of a cache for all heads: (heads, context, head_dim)."""
    _, context, kv_heads, width = cache.shape
    each = cache[0].transpose(0, 1).unsqueeze(1)
    return each.expand(kv_heads, heads // kv_heads, context, width).reshape(heads, context, width)


class CausalRows:
    """The causal mask that an attention holds as a buffer, (1, 1, most, most), read by position.

    Models take the last rows, which belong to the tokens unless the keys are a whole cache.
    """

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def __getitem__(self, index: Any) -> Tensor:
        if STEP.decoder is None:
            return self.mask[index]
        return self.mask[:, :, STEP.positions][..., index[-1]]


def read_masks_by_position(model: Any, context: int) -> bool:
    """Let attentions read causal masks of their own by position; return whether there are any."""
    found = False
    for module in model.modules():
        mask = module._buffers.get("bias")
        if mask is not None and mask.dtype == torch.bool and mask.dim() == 4:
            del module._buffers["bias"]
            module.bias = CausalRows(mask[..., :context, :context].contiguous())
            found = True
    return found


def _mask(*_arguments: Any, **options: Any) -> Tensor | None:
    """Return the mask to add to scores, (1, 1, n, context); None if no model needs it.

    `mask_function` is the library's rule for a query and a key: a window, for example.
    """
    decoder = STEP.decoder
    if decoder is None or not decoder.masked:
        return None
    seen = _seen(decoder.context, None)
    rule = options.get("mask_function")
    if rule is not None:
        first = torch.zeros((), dtype=torch.int64)
        seen = seen & rule(
            *(first, first, STEP.positions.unsqueeze(1)), torch.arange(decoder.context).unsqueeze(0)
        )
    return torch.where(seen, 0.0, _MASKED)[None, None]

"""Turns an encoder-decoder model of the transformers library into two modules to export.

- `Encoder` runs the model's encoder and returns the keys and values of its output for every layer
  of the decoder, computed once per input for cross-attention. - `CrossDecoder` takes tokens, their
  position and these keys and values. The cache of its self-attention is its state.

The model's code runs unchanged, except for its attention (an entry of the library's table of
attention functions), its cache object, and relative positions, which are read from a table. Both
modules are compared with the model before they are used.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from transformers import Cache, EncoderDecoderCache
from transformers.modeling_outputs import BaseModelOutput

from webpte_export.errors import ExportError
from webpte_export.llm.cached_attention import attend, register_functions
from webpte_export.llm.decoder_state import CACHE_BUFFERS, STEP, KVCache
from webpte_export.llm.simplify_modules import simplify_modules

ATTENTION = "webpte_encoder_decoder"
_TOLERANCE = 1e-3  # relative to the largest logit
_MASKED = -1e30
_NEVER = -6e4  # added to the logits of tokens that are never generated; f16 has it
_STEPS = 5  # tokens for the comparison with the model


class Encoder(nn.Module):
    """A model's input -> keys and values, (1, heads, length, head_dim) each, layer by layer."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, given: Tensor) -> tuple[Tensor, ...]:
        hidden = self.model.get_encoder()(given)[0]
        cross = _RecordingCache()
        start = torch.full((1, 1), self.model.config.decoder_start_token_id)
        STEP.begin(self, 0, torch.arange(1))
        try:
            _run(self.model, start, hidden, _WriteThroughCache(), cross)
        finally:
            STEP.decoder = None
        return tuple(state for layer in cross.layers for state in (layer.keys, layer.values))


class CrossDecoder(nn.Module):
    """Tokens (1, n), position (1,), keys and values of an encoder's output -> logits (1, vocab)."""

    never: Tensor

    def __init__(
        self, model: Any, context: int, like: Sequence[Tensor], suppressed: Sequence[int] = ()
    ) -> None:
        """Shape keys and values by `like`; `suppressed` are tokens that are never generated."""
        super().__init__()
        self._suppresses = bool(suppressed)
        if suppressed:
            never = torch.zeros(model.config.vocab_size)
            never[list(suppressed)] = _NEVER
            self.register_buffer("never", never, persistent=False)
        self.model = model
        self.context = context
        self.crossed: set[int] = set()  # ids of an encoder's keys
        self.caches = nn.ModuleDict(
            {
                str(layer): KVCache(context, key, value)
                for layer, (key, value) in enumerate(zip(like[::2], like[1::2], strict=True))
            }
        )

    def forward(self, tokens: Tensor, input_pos: Tensor, encoded: tuple[Tensor, ...]) -> Tensor:
        start = input_pos[0].item()
        torch._check(start >= 0)
        torch._check(start + tokens.shape[1] <= self.context)
        STEP.begin(self, start, input_pos + torch.arange(tokens.shape[1]))
        self.crossed = {id(key) for key in encoded[::2]}
        try:
            own, cross = _WriteThroughCache(input_pos), _FixedCache(encoded)
            logits = _run(self.model, tokens, encoded[0][:, 0], own, cross)
        finally:
            STEP.decoder = None
        return logits[:, -1] + self.never if self._suppresses else logits[:, -1]

    def clear(self) -> None:
        """Clear the caches: otherwise the file would contain their contents."""
        for name, buffer in self.named_buffers():
            if name.endswith(CACHE_BUFFERS):
                buffer.zero_()


def split_model(
    model: Any, example: Tensor, context: int, source: int, suppressed: Sequence[int] = ()
) -> tuple[Encoder, CrossDecoder]:
    """Return a model's two modules, after a comparison with the model, which is changed.

    `context` is the number of tokens that the decoder's cache holds, `source` the number of
    positions of an input; `suppressed` are tokens that are never generated.
    """
    _register()
    expected, tokens = _reference(model, example, min(_STEPS, context))
    simplify_modules(model)
    _use_tables(model, context, source)
    _replace_group_norms(model)
    model.set_attn_implementation(ATTENTION)
    encoder = Encoder(model).eval()
    with torch.no_grad():
        encoded = encoder(example)
        if not encoded:
            raise ExportError(
                f"{type(model).__name__} does not keep cross-attention in the library's cache."
            )
        decoder = CrossDecoder(model, context, encoded, suppressed).eval()
        expected[..., list(suppressed)] += _NEVER
        for place in range(tokens.shape[1]):
            here = tokens[:, place : place + 1]
            logits = decoder(here, torch.tensor([place]), encoded)
            _check_same(model, logits[0], expected[0, place])
        decoder.clear()
    return encoder, decoder


def _check_same(model: Any, logits: Tensor, expected: Tensor) -> None:
    error = float((logits - expected).abs().max())
    if not error <= _TOLERANCE * max(1.0, float(expected.abs().max())):
        raise ExportError(
            f"{type(model).__name__} cannot be given a cache of fixed size: its logits differ by "
            f"{error:.2g}"
        )


def _reference(model: Any, example: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the model's logits after each of some tokens, and the tokens."""
    drawn = torch.randint(
        0, model.config.vocab_size, (1, count), generator=torch.Generator().manual_seed(0)
    )
    drawn[0, 0] = model.config.decoder_start_token_id
    name = model.main_input_name
    with torch.no_grad():
        found = model(**{name: example}, decoder_input_ids=drawn, use_cache=False)
    return found.logits, drawn


def _run(model: Any, tokens: Tensor, hidden: Tensor, own: Cache, cross: Cache) -> Tensor:
    """Run a model's decoder; `hidden` is the encoder's output, or unused if `cross` has it."""
    both = EncoderDecoderCache(own, cross)
    # The library makes masks from it by a function that is replaced here.
    seen = torch.ones(1, tokens.shape[1], dtype=torch.long)
    logits: Tensor = model(
        encoder_outputs=_EncoderOutput(last_hidden_state=hidden),
        decoder_input_ids=tokens,
        decoder_attention_mask=seen,
        past_key_values=both,
        use_cache=True,
        return_dict=True,
    ).logits
    return logits


class _EncoderOutput(BaseModelOutput):
    """The output of an encoder; some models also ask for its mask."""

    attention_mask = None


class _WriteThroughCache(Cache):
    """A cache of self-attention that returns its arguments: the attention function writes them."""

    def __init__(self, position: Tensor | None = None) -> None:
        super().__init__(layers=[])
        self._position = torch.zeros(1, dtype=torch.long) if position is None else position

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        return key_states, value_states

    def get_seq_length(self, layer_idx: int = 0) -> Any:
        return self._position  # models add it to their tokens' positions

    def get_mask_sizes(self, query_length: int, layer_idx: int) -> tuple[int, int]:
        return query_length, 0


class _RecordingCache(_WriteThroughCache):
    """A cache of cross-attention that records the results of every layer."""

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        self.layers.append(SimpleNamespace(keys=key_states, values=value_states))
        return key_states, value_states


class _FixedCache(_WriteThroughCache):
    """A cache of cross-attention with the keys and values of all layers."""

    def __init__(self, encoded: Sequence[Tensor]) -> None:
        super().__init__()
        pairs = zip(encoded[::2], encoded[1::2], strict=True)
        self.layers = [SimpleNamespace(keys=key, values=value) for key, value in pairs]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return 1  # not empty, which is all that models check


def _register() -> None:
    from transformers import AttentionInterface, AttentionMaskInterface

    register_functions()
    AttentionInterface.register(ATTENTION, _attend)
    AttentionMaskInterface.register(ATTENTION, lambda *_, **__: None)


def _attend(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    _mask: Tensor | None,
    scaling: float | None = None,
    position_bias: Tensor | None = None,
    **_options: Any,
) -> tuple[Tensor, None]:
    """Attend: (1, heads, n, head_dim) each -> (1, n, heads, head_dim)."""
    scale, decoder = scaling if scaling is not None else query.shape[-1] ** -0.5, STEP.decoder
    if isinstance(decoder, Encoder):  # keys and values do not depend on the tokens
        return query.transpose(1, 2), None
    if decoder is None:
        return _softmax_attention(query, key, value, scale, position_bias), None
    if id(key) in decoder.crossed:
        return _softmax_attention(query, key, value, scale, None), None
    if position_bias is None:
        return attend(module, query, key, value, None, scaling=scale)
    cache = decoder.caches[str(module.layer_idx)]
    torch.ops.llama.update_cache(key.transpose(1, 2), cache.k_cache, STEP.start)
    torch.ops.llama.update_cache(value.transpose(1, 2), cache.v_cache, STEP.start)
    keys, values = cache.k_cache.transpose(1, 2), cache.v_cache.transpose(1, 2)
    return _softmax_attention(query, keys, values, scale, position_bias), None


def _softmax_attention(
    query: Tensor, key: Tensor, value: Tensor, scale: float, bias: Tensor | None
) -> Tensor:
    scores = torch.matmul(query, key.transpose(2, 3))
    if scale != 1.0:
        scores = scores * scale
    if bias is not None:
        scores = scores + bias
    return torch.matmul(torch.softmax(scores, -1), value).transpose(1, 2)


def _use_tables(model: Any, context: int, source: int) -> None:
    """Read positions from tables, by the position itself, without computing with it.

    The tables are the embeddings of positions, and T5's biases by the distance of two positions.
    """
    for stack, length in ((model.get_encoder(), source), (model.get_decoder(), context)):
        decodes = stack is model.get_decoder()
        for module in list(stack.modules()):
            if hasattr(module, "relative_attention_bias") and hasattr(module, "compute_bias"):
                module.biases = (_DecoderBiases if decodes else _EncoderBiases)(module, length)
                module.__dict__["compute_bias"] = module.biases  # before the class's method
        embedding = getattr(stack, "embed_positions", None)
        # All sounds have the same length, and their encoder reads all rows unmasked.
        if embedding is not None and (decodes or model.main_input_name == "input_ids"):
            stack.embed_positions = _PositionTable(embedding, length, decodes)


def _replace_group_norms(model: Any) -> None:
    """Write norms of a single group out: ExecuTorch's partitioner lacks them for sounds."""
    for owner in list(model.modules()):
        for name, child in list(owner.named_children()):
            if isinstance(child, nn.GroupNorm) and child.num_groups == 1:
                setattr(owner, name, _WholeNorm(child))


class _WholeNorm(nn.Module):
    """A norm over channels and places, (1, channels, length)."""

    def __init__(self, norm: nn.GroupNorm) -> None:
        super().__init__()
        self.weight, self.bias, self.eps = norm.weight, norm.bias, norm.eps

    def forward(self, values: Tensor) -> Tensor:
        # Means of means: every channel has as many places.
        centered = values - values.mean(2, keepdim=True).mean(1, keepdim=True)
        spread = (centered * centered).mean(2, keepdim=True).mean(1, keepdim=True)
        normal = centered * torch.rsqrt(spread + self.eps)
        return normal * self.weight[None, :, None] + self.bias[None, :, None]


class _PositionTable(nn.Module):
    """Embeddings of positions, as rows of a table (length, width)."""

    table: Tensor

    def __init__(self, embedding: Any, length: int, decodes: bool) -> None:
        super().__init__()
        self._decodes = decodes
        places = torch.arange(length)
        with torch.no_grad():
            rows = embedding(places.unsqueeze(0), 0, position_ids=places)
        self.register_buffer("table", rows.reshape(length, -1).clone(), persistent=False)

    def forward(self, tokens: Any, *_: Any, **__: Any) -> Tensor:
        """Return the rows of this call's tokens; some models only pass the tokens' shape."""
        shape = tokens.shape if isinstance(tokens, Tensor) else tokens
        return self.table.narrow(0, STEP.start if self._decodes else 0, shape[1])


def _bias_of(attention: Any, distance: Tensor, bidirectional: bool) -> Tensor:
    """Return the biases of distances between positions, (..., heads)."""
    with torch.no_grad():
        buckets = attention._relative_position_bucket(
            distance,
            bidirectional=bidirectional,
            num_buckets=attention.relative_attention_num_buckets,
            max_distance=attention.relative_attention_max_distance,
        )
        found: Tensor = attention.relative_attention_bias(buckets)
        return found.clone()


class _EncoderBiases(nn.Module):
    """Biases of attention by the distance between two positions, (2 * length - 1, heads)."""

    table: Tensor

    def __init__(self, attention: Any, length: int) -> None:
        super().__init__()
        self._length = length
        table = _bias_of(attention, torch.arange(1 - length, length), bidirectional=True)
        self.register_buffer("table", table, persistent=False)

    def forward(self, queries: int, keys: int, **_: Any) -> Tensor:
        """Return the biases of all positions, (1, heads, queries, keys)."""
        distance = torch.arange(keys).unsqueeze(0) - torch.arange(queries).unsqueeze(1)
        rows = nn.functional.embedding(distance + (self._length - 1), self.table)
        return rows.permute(2, 0, 1).unsqueeze(0)


class _DecoderBiases(nn.Module):
    """Biases of attention to all positions of the cache, (context, heads, context).

    Later positions are hidden.
    """

    table: Tensor

    def __init__(self, attention: Any, context: int) -> None:
        super().__init__()
        places = torch.arange(context)
        distance = places.unsqueeze(0) - places.unsqueeze(1)
        biases = _bias_of(attention, distance, bidirectional=False)
        seen = torch.where((distance > 0).unsqueeze(2), _MASKED, biases)
        self.register_buffer("table", seen.transpose(1, 2).contiguous(), persistent=False)

    def forward(self, queries: int, _keys: int, **_: Any) -> Tensor:
        """Return the biases of this call's tokens, (1, heads, queries, context)."""
        return self.table.narrow(0, STEP.start, queries).transpose(0, 1).unsqueeze(0)

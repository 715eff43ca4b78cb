"""Turns a language model of the transformers library into a decoder with a cache.

The model's code runs unchanged, except for these parts:

- attention (an entry of the library's table of attention functions) writes keys and values into the
  decoder's cache, and attends to the cache;
- the causal mask, which that attention does not need. A model with other attention gets the mask,
    and the whole cache, from the cache object that the library's models take;
- the rotary embedding, if it is of a usual kind: a table of all positions and a single operator;
- experts: see `webpte_export.experts`;
- modules with a simpler replacement: see `webpte_export.llm.simplify_modules`.

Layers without keys and values (Mamba, linear attention) keep states, which each token replaces.
Their decoders take a single token per call.

A decoder is compared with its model before it is used, so a model with other code is refused, not
exported wrongly.
"""

from __future__ import annotations

import inspect
import sys
from typing import Any

import torch
from torch import Tensor, nn

from webpte_export.errors import ExportError, error_text
from webpte_export.experts import SmallTopK, WideExperts, replace_experts
from webpte_export.failures import line_of, places_of
from webpte_export.llm.cached_attention import (
    ATTENTION,
    AttentionLayer,
    attention_layers,
    read_masks_by_position,
    register_functions,
)
from webpte_export.llm.decoder_state import (
    CACHE_BUFFERS,
    STEP,
    DecoderCache,
    IndexerCache,
    KVCache,
    indexers_of,
    new_cache,
    own_cache,
    states_of,
)
from webpte_export.llm.rotary import ROTATION, remove_rotary_tables, with_rotary_tables
from webpte_export.llm.simplify_modules import simplify_modules

_TEXT = 9  # tokens for the comparison with the model, unless it has windows
_LONGEST_TEXT = 512
_TOLERANCE = 1e-3  # relative to the largest logit
_MOST_HIDDEN = 1 << 24  # values of the wide layer of experts, 64 MiB


class Decoder(nn.Module):
    """A program for webpte.llm: tokens (1, n), first position (1,) -> logits (1, vocabulary).

    Instead of tokens it takes embeddings (1, n, width), too.

    `masked`: attention does not use the library's table, and is given the whole cache and a mask.
    `max_chunk`: the most tokens per call; None leaves the limit to the caller.
    """

    def __init__(self, model: Any, context: int) -> None:
        super().__init__()
        refused = self._refused(model, context, masked=False)
        if refused is not None and not self.masked:  # the attention may compute a mask itself
            again = self._refused(model, context, masked=True)
            refused = again and refused
        if refused is not None and read_masks_by_position(model, context):
            refused = self._refused(model, context, masked=True)
        if refused is not None:
            raise refused

    def _refused(self, model: Any, context: int, masked: bool) -> ExportError | None:
        """Take a model in one of the ways; return the error if that fails."""
        self._give_back(model)
        try:
            self._take(model, context, masked)
        except ExportError as refused:
            return refused
        return None

    def _take(self, model: Any, context: int, masked: bool) -> None:
        try:
            self._fit(model, context, masked)
        except ExportError:
            raise
        except Exception as problem:  # raised by the model's code for an unexpected cache
            raise _refusal(model, _said(problem)) from problem

    def _give_back(self, model: Any) -> None:
        """Undo the changes of an earlier attempt to the model's attention."""
        model.set_attn_implementation("eager")
        remove_rotary_tables(model)

    def _fit(self, model: Any, context: int, masked: bool) -> None:
        self.masked = masked
        self.model = model
        self.context = context
        self._takes = set(inspect.signature(model.forward).parameters)
        text, expected = self._reference()
        register_functions()
        replace_experts(model)
        simplify_modules(model)
        layers = {} if masked else attention_layers(model)
        used = self._fill_library_cache()
        self.states = nn.ModuleDict(states_of(used))
        self.masked = not layers
        self._cache_type = type(used)
        if self.masked:
            layers = _cached_layers(used)
        if not layers and not self.states:
            raise ExportError(
                f"{type(model).__name__} does not keep its state in the library's cache: it cannot "
                "be exported with one."
            )
        self.caches = nn.ModuleDict(
            {str(number): KVCache(context, it.key, it.value) for number, it in layers.items()}
        )
        self.indexers = nn.ModuleDict(
            {str(number): IndexerCache(context, keys) for number, keys in indexers_of(used).items()}
            if self.masked
            else {}
        )
        self.max_chunk = 1 if self.states else _most_tokens(model)
        self._gives_mask = False
        if self.masked:
            model.config._attn_implementation = ATTENTION  # so the mask alone selects positions
        else:
            model.set_attn_implementation(ATTENTION)
        # Latent attention, with values of another width, rotates parts in a special order.
        usual = bool(layers) and all(it.key.shape[3] == it.value.shape[3] for it in layers.values())
        self._rotation = with_rotary_tables(model, _code_of(model), context) if usual else None
        self._own_rotation = getattr(_code_of(model), ROTATION, None)
        self._compare(text, expected)

    def forward(self, tokens: Tensor, input_pos: Tensor) -> Tensor:
        start: Any = 0
        if self.caches:
            start = input_pos[0].item()
            torch._check(start >= 0)
            torch._check(start + tokens.shape[1] <= self.context)
        if self.states:
            first = input_pos == 0
            for held in self.states.values():
                held.state.copy_(torch.where(first, 0.0, held.state))
        positions = input_pos + torch.arange(tokens.shape[1])
        return self._run(tokens, positions, start, 1)[:, -1]

    def all_logits(self, tokens: Tensor) -> Tensor:
        """Return the logits after each token of a text, (1, n, vocabulary); clear the cache."""
        length = tokens.shape[1]
        try:
            if not self.states:
                return self._run(tokens, torch.arange(length), 0, 0)
            each = [self(tokens[:, n : n + 1], torch.tensor([n])) for n in range(length)]
            return torch.stack(each, 1)
        finally:
            self.clear()

    def clear(self) -> None:
        """Clear the caches: otherwise the file would contain the text's keys and values."""
        for name, buffer in self.named_buffers():
            if name.endswith(CACHE_BUFFERS):
                buffer.zero_()

    def _run(self, tokens: Tensor, positions: Tensor, start: Any, keep: int) -> Tensor:
        STEP.begin(self, start, positions)
        options = self._options(positions, keep)
        code = _code_of(self.model)
        if self._rotation is not None:
            setattr(code, ROTATION, self._rotation)
        try:
            with SmallTopK():
                name = "inputs_embeds" if tokens.is_floating_point() else "input_ids"
                logits: Tensor = self.model(**{name: tokens}, return_dict=False, **options)[0]
        finally:
            STEP.decoder = None
            if self._rotation is not None:
                setattr(code, ROTATION, self._own_rotation)
        return logits

    def _options(self, positions: Tensor, keep: int) -> dict[str, Any]:
        """Return further arguments of the model's call, limited to its parameters."""
        options: dict[str, Any] = {"use_cache": False}
        if "position_ids" in self._takes:
            options["position_ids"] = positions.unsqueeze(0)
        if "logits_to_keep" in self._takes:
            options["logits_to_keep"] = keep
        if self.masked or self.states:
            cache = DecoderCache.like(self._cache_type, self)
            options |= {self._cache_name: cache, "use_cache": True}
        if self._gives_mask:
            options["attention_mask"] = torch.ones(1, self.context, dtype=torch.long)
        return options

    @property
    def _cache_name(self) -> str:
        return "cache_params" if "cache_params" in self._takes else "past_key_values"

    def _reference(self) -> tuple[Tensor, Tensor]:
        """Return a short text, and the model's logits after each token."""
        vocabulary = self.model.config.get_text_config().vocab_size
        generator = torch.Generator().manual_seed(0)
        length = min(tokens_to_compare(self.model.config.get_text_config()), self.context)
        # Equal tokens have equal keys in the first layer, of which a model may choose any.
        text = torch.randperm(vocabulary, generator=generator)[:length].unsqueeze(0)
        with torch.no_grad():
            return text, self.model(input_ids=text, use_cache=False, return_dict=False)[0]

    def _fill_library_cache(self) -> Any:
        """Return a cache object of the library, filled by the model with a short text."""
        from transformers import DynamicCache

        config = self.model.config.get_text_config()
        own = own_cache(_code_of(self.model))
        cache = DynamicCache(config=config) if own is None else new_cache(own, config)
        options: dict[str, Any] = {self._cache_name: cache, "use_cache": True}
        if self._cache_name not in self._takes:
            return cache
        with torch.no_grad():
            self.model(input_ids=torch.zeros(1, 2, dtype=torch.long), **options)
        return cache

    def _compare(self, text: Tensor, expected: Tensor) -> None:
        """Check that the decoder computes its model's logits; raises ExportError."""
        given = "attention_mask" in self._takes and self.masked
        reasons = []
        for self._gives_mask in (False, True) if given else (False,):
            try:
                error = self._largest_error(text, expected)
            except Exception as problem:  # raised by the model's code for an unexpected cache
                reasons.append(_said(problem))
                continue
            finally:
                self.clear()
            if error <= _TOLERANCE * max(1.0, float(expected.abs().max())):
                return
            reasons.append(f"its logits differ by {error:.2g}")
        raise _refusal(self.model, reasons[0])

    def _largest_error(self, text: Tensor, expected: Tensor) -> float:
        """Return the largest error of logits of a text in pieces, against `expected`."""
        length = text.shape[1]
        ends = [length // 2, length // 2 + 1, length]
        if self.states:
            ends = [*range(1, min(length, 2 * _TEXT) + 1)]
        first, errors = 0, []
        with torch.no_grad():
            for last in ends:
                logits = self(text[:, first:last], torch.tensor([first]))
                errors.append(float((logits[0] - expected[0, last - 1]).abs().max()))
                first = last
        return max(errors)


def _said(problem: Exception) -> str:
    """Return an error of a model's code, with the line of that code."""
    line = line_of(places_of(problem))
    where = f" ({line.place})" if line else ""
    return f"its code fails with it: {error_text(problem, 1)}{where}"


def _refusal(model: Any, reason: str) -> ExportError:
    return ExportError(
        f"{type(model).__name__} cannot be given a cache of fixed size: {reason}.\n"
        "Its attention or its state is not of the usual kind. docs/reference/decoders.md lists "
        "models that can; any other is exported without a cache by MODULE:FUNCTION."
    )


def tokens_to_compare(config: Any) -> int:
    """Return the length of a text that is longer than the windows of a model's attention."""
    given = {key: value for key, value in vars(config).items() if "window" in key or "chunk" in key}
    windows = [value + 3 for value in given.values() if type(value) is int]
    return max([_TEXT, *(length for length in windows if length <= _LONGEST_TEXT)])


def _code_of(model: Any) -> Any:
    """Return the module that has the code of the model's class."""
    return sys.modules[type(model).__module__]


def _most_tokens(model: Any) -> int | None:
    """Return the most tokens per call, limited if experts multiply the values."""
    widths = [it.entering for it in model.modules() if isinstance(it, WideExperts)]
    return max(2, _MOST_HIDDEN // max(widths)) if widths else None


def _cached_layers(cache: Any) -> dict[int, AttentionLayer]:
    """Return the attention layers with keys and values that a model has written to a cache."""
    found = {}
    for number, layer in enumerate(getattr(cache, "layers", ())):
        keys, values = getattr(layer, "keys", None), getattr(layer, "values", None)
        if isinstance(keys, Tensor) and isinstance(values, Tensor):
            found[number] = AttentionLayer(keys, values)
    return found

"""Turns a language model of the transformers library into a decoder with a KV cache.

The model's own code runs unchanged, but for three things that it takes from outside:

- attention (an entry of the library's table of attention functions) writes keys and values into the
  decoder's cache, and attends to the cache, by ExecuTorch's operators. A sliding window is a mask,
  which all layers share; a soft cap is written out.
- the causal mask, which is then never needed;
- the rotary embedding, if it is of a usual kind: a table of all positions and one operator;

and modules for which there is a simpler one: simplify_modules.py.

So every model that calls its attention by the library's table has a decoder.
"""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from webpte_export.errors import ExportError
from webpte_export.llm.simplify_modules import simplify_modules

ATTENTION = "webpte_kv_cache"
ROTATION = "apply_rotary_pos_emb"  # what the library's models call their function


class KVCache(nn.Module):
    """The keys and values of one layer, (1, context, heads, head_dim) each."""

    k_cache: Tensor
    v_cache: Tensor

    def __init__(self, context: int, key: Tensor, value: Tensor) -> None:
        super().__init__()
        for name, like in (("k_cache", key), ("v_cache", value)):
            cache = torch.zeros(1, context, like.shape[1], like.shape[3])
            self.register_buffer(name, cache)

    @property
    def context(self) -> int:
        """The number of tokens that the cache holds."""
        return self.k_cache.shape[1]


@dataclass
class Step:
    """The call that is being computed, for the functions that the library calls without it."""

    decoder: Decoder | None = None
    start: Any = 0  # the position of the first token
    positions: Any = None  # of all tokens
    masks: dict[int, Tensor] = field(default_factory=dict)  # by their windows
    rows: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)  # of rotary tables


_STEP = Step()


class Decoder(nn.Module):
    """A program for webpte.llm: tokens (1, n), first position (1,) -> logits (1, vocabulary)."""

    def __init__(self, model: Any, context: int) -> None:
        super().__init__()
        self.model = model
        self.context = context
        self.caches = nn.ModuleDict()
        _register_functions()
        simplify_modules(model)
        checked = True
        for layer, seen in _attention_layers(model).items():
            self.caches[str(layer)] = KVCache(context, seen.key, seen.value)
            checked = checked and seen.checks_position
        model.set_attn_implementation(ATTENTION)
        # Its operator needs a first position that attention's operators have checked.
        self._rotation = _with_rotary_tables(model, _code_of(model), context) if checked else None
        self._can_keep = "logits_to_keep" in inspect.signature(model.forward).parameters

    def forward(self, tokens: Tensor, input_pos: Tensor) -> Tensor:
        start = input_pos[0].item()
        torch._check(start >= 0)
        torch._check(start + tokens.shape[1] <= self.context)
        positions = input_pos + torch.arange(tokens.shape[1])
        return self._run(tokens, positions, start, 1)[:, -1]

    def all_logits(self, tokens: Tensor) -> Tensor:
        """Return the logits after each token of a text, (1, n, vocabulary); clear the cache."""
        try:
            return self._run(tokens, torch.arange(tokens.shape[1]), 0, 0)
        finally:
            for name, buffer in self.named_buffers():
                if name.endswith(("k_cache", "v_cache")):
                    buffer.zero_()  # otherwise the file would contain the text's keys and values

    def _run(self, tokens: Tensor, positions: Tensor, start: Any, keep: int) -> Tensor:
        _STEP.decoder, _STEP.start, _STEP.positions = self, start, positions
        _STEP.masks, _STEP.rows = {}, {}
        options = {"logits_to_keep": keep} if self._can_keep else {}
        code = _code_of(self.model)
        original = getattr(code, ROTATION, None)
        if self._rotation is not None:
            setattr(code, ROTATION, self._rotation)
        try:
            logits: Tensor = self.model(
                input_ids=tokens,
                position_ids=positions.unsqueeze(0),
                use_cache=False,
                return_dict=False,
                **options,
            )[0]
        finally:
            _STEP.decoder = None
            if self._rotation is not None:
                setattr(code, ROTATION, original)
        return logits


def _code_of(model: Any) -> Any:
    """Return the module that has the code of the model's class."""
    return sys.modules[type(model).__module__]


def _register_functions() -> None:
    import executorch.backends.vulkan.custom_ops_lib  # noqa: F401
    from executorch.extension.llm.custom_ops import custom_ops  # noqa: F401
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(ATTENTION, attend)
    AttentionMaskInterface.register(ATTENTION, lambda *_arguments, **_options: None)


@dataclass(frozen=True)
class AttentionLayer:
    """The arguments of one attention layer: keys and values of a short text, and options."""

    key: Tensor
    value: Tensor
    options: dict[str, Any]

    @property
    def checks_position(self) -> bool:
        """Whether the layer's operators check the first position: those of ExecuTorch do."""
        return self.key.shape[-1] == self.value.shape[-1]


def _attention_layers(model: Any) -> dict[int, AttentionLayer]:
    """Return the attention layers by their number."""
    from transformers import AttentionInterface

    found: dict[int, AttentionLayer] = {}

    def record(
        module: Any, query: Tensor, key: Tensor, value: Tensor, _mask: Any, **options: Any
    ) -> tuple[Tensor, None]:
        if module.layer_idx in found:
            raise ExportError(f"layer {module.layer_idx} calls its attention twice.")
        if options.get("s_aux") is not None:
            raise ExportError("attention with sinks of their own weights is not exported.")
        found[module.layer_idx] = AttentionLayer(key, value, options)
        return query.new_zeros(*query.shape[:3], value.shape[3]).transpose(1, 2), None

    AttentionInterface.register(f"{ATTENTION}_shapes", record)
    model.set_attn_implementation(f"{ATTENTION}_shapes")
    with torch.no_grad():
        model(input_ids=torch.zeros(1, 2, dtype=torch.long), use_cache=False)
    if not found:
        raise ExportError(
            f"{type(model).__name__} does not call its attention by transformers' table of "
            "attention functions: it cannot be given a KV cache."
        )
    return dict(sorted(found.items()))


def attend(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    _mask: Tensor | None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    **_options: Any,
) -> tuple[Tensor, None]:
    """Attend to the cache: (1, heads, n, head_dim) each -> (1, n, heads, head_dim)."""
    decoder = _STEP.decoder
    assert decoder is not None
    cache = decoder.caches[str(module.layer_idx)]
    width = query.shape[-1]
    scale = scaling if scaling is not None else width**-0.5
    window = sliding_window if sliding_window and sliding_window < cache.context else None
    if value.shape[-1] != width:
        cache.k_cache[:, _STEP.positions] = key.transpose(1, 2)
        cache.v_cache[:, _STEP.positions] = value.transpose(1, 2)
        return _written_out(query * scale, cache, window, softcap), None
    torch.ops.llama.update_cache(key.transpose(1, 2), cache.k_cache, _STEP.start)
    torch.ops.llama.update_cache(value.transpose(1, 2), cache.v_cache, _STEP.start)
    if softcap is not None:
        return _written_out(query * scale, cache, window, softcap), None
    given = (query.transpose(1, 2), cache.k_cache, cache.v_cache, _STEP.start)
    if window is not None:
        # The scale comes last, and keeps the arguments before it, which the partitioner reads.
        mask = _window_mask(cache.context, window)
        return torch.ops.llama.custom_sdpa(*given, mask, 0.0, False, scale), None
    # The partitioner's operator knows the usual scale alone.
    if not math.isclose(scale, width**-0.5, rel_tol=1e-6):
        given = ((query * (scale * math.sqrt(width))).transpose(1, 2), *given[1:])
    return torch.ops.llama.custom_sdpa(*given, None, 0.0, True), None


def _window_mask(context: int, window: int) -> Tensor:
    """Return the mask (n, context) that hides later keys and those before a window, once a step."""
    if window not in _STEP.masks:
        ago = _STEP.positions.unsqueeze(1) - torch.arange(context).unsqueeze(0)
        hidden = (ago < 0) | (ago >= window)
        _STEP.masks[window] = torch.where(hidden, -math.inf, 0.0)
    return _STEP.masks[window]


def _written_out(
    query: Tensor, cache: KVCache, window: int | None, softcap: float | None
) -> Tensor:
    """Attend to the whole cache behind a mask, with a sliding window or a soft cap."""
    heads = query.shape[1]
    scores = torch.bmm(query[0], _for_heads(cache.k_cache, heads).transpose(1, 2))
    if softcap is not None:
        scores = torch.tanh(scores / softcap) * softcap
    rows = _STEP.positions.unsqueeze(1)
    columns = torch.arange(cache.context).unsqueeze(0)
    seen = columns <= rows
    if window is not None:
        seen = seen & (columns > rows - window)
    weights = torch.softmax(torch.where(seen, scores, -1e30), -1)
    attended = torch.bmm(weights, _for_heads(cache.v_cache, heads))
    return attended.transpose(0, 1).unsqueeze(0)


def _for_heads(cache: Tensor, heads: int) -> Tensor:
    """Repeat the keys or values of a cache for all heads: (heads, context, head_dim)."""
    _, context, kv_heads, width = cache.shape
    each = cache[0].transpose(0, 1).unsqueeze(1)
    return each.expand(kv_heads, heads // kv_heads, context, width).reshape(heads, context, width)


class RotaryTables(nn.Module):
    """The rotary embedding of all positions, in the place of the model's own module."""

    def __init__(self, original: Any, context: int) -> None:
        super().__init__()
        self.original = original
        self.context = context
        self.tables: dict[Any, tuple[Tensor, Tensor]] = {}

    def forward(self, x: Tensor, position_ids: Tensor, *kinds: Any) -> tuple[Tensor, Tensor]:
        if kinds not in self.tables:
            every = torch.arange(self.context).unsqueeze(0)
            with torch.no_grad():
                cos, sin = self.original(torch.zeros(1), every, *kinds)
            self.tables[kinds] = (cos[0].contiguous(), sin[0].contiguous())
        return self.tables[kinds]


def _with_rotary_tables(model: Any, code: Any, context: int) -> Callable[..., Any] | None:
    """Replace a rotary embedding of a usual kind by tables; return the function that reads them.

    `code` is the module of the model's class. Other kinds stay as they are: None.
    """
    original = getattr(code, ROTATION, None)
    owners = [m for m in model.modules() if isinstance(getattr(m, "rotary_emb", None), nn.Module)]
    if original is None or not owners:
        return None
    if _is_usual(original):
        found: Callable[..., Any] = _rotate
    elif _rotates_neighbours(original):
        found = _rotate_neighbours
    else:
        return None
    for owner in owners:
        owner.rotary_emb = RotaryTables(owner.rotary_emb, context)
    return found


def _rotate(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    """Rotate queries and keys (1, heads, n, head_dim) by tables of all positions."""
    rotated = torch.ops.et_vk.apply_rotary_emb_hf(
        q.transpose(1, 2), k.transpose(1, 2), cos, sin, _STEP.start
    )
    return rotated[0].transpose(1, 2), rotated[1].transpose(1, 2)


def _rotate_neighbours(
    q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, *_: Any
) -> tuple[Tensor, Tensor]:
    """Do the same for pairs of neighbours, with this step's rows of the tables."""
    if id(cos) not in _STEP.rows:
        halves = cos[:, ::2].contiguous(), sin[:, ::2].contiguous()
        _STEP.rows[id(cos)] = halves[0][_STEP.positions], halves[1][_STEP.positions]
    rotated = torch.ops.et_vk.apply_rotary_emb(
        q.transpose(1, 2), k.transpose(1, 2), *_STEP.rows[id(cos)]
    )
    return rotated[0].transpose(1, 2), rotated[1].transpose(1, 2)


def _is_usual(rotation: Any) -> bool:
    """Tell whether a function rotates pairs half a head apart, in queries and keys by head."""
    return _does(rotation, lambda x: torch.cat([-x[..., 4:], x[..., :4]], -1), (1, 2))


def _rotates_neighbours(rotation: Any) -> bool:
    """Tell whether a function rotates pairs of neighbours, in queries and keys by head."""
    return _does(
        rotation, lambda x: torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2), (2, 1)
    )


def _does(rotation: Any, turn: Callable[[Tensor], Tensor], order: tuple[int, int]) -> bool:
    """Tell whether a function gives x * cos + turn(x) * sin, with an angle for each pair.

    The angles of a head are repeated as a whole or one by one: (1, 2) or (2, 1).
    """
    q, k, angles = torch.randn(1, 2, 3, 8), torch.randn(1, 1, 3, 8), torch.randn(3, 4)
    each, whole = order
    angles = angles.repeat_interleave(each, -1).repeat(1, whole)
    cos, sin = (fn(angles).unsqueeze(0) for fn in (torch.cos, torch.sin))
    try:
        got = rotation(q, k, cos, sin)
    except Exception:
        return False
    wanted = [x * cos.unsqueeze(1) + turn(x) * sin.unsqueeze(1) for x in (q, k)]
    return all(torch.allclose(g, w, atol=1e-5) for g, w in zip(got, wanted, strict=True))

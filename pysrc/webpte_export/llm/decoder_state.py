"""The state of a decoder: keys and values by position, and states that every token replaces.

The library's models write to a cache object. Here this cache consists of buffers of the decoder,
which the program keeps on the GPU.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from transformers import Cache

CACHE_BUFFERS = ("k_cache", "v_cache", "state")
_KINDS = ("conv", "recurrent")


class KVCache(nn.Module):
    """The keys and values of a layer, (1, context, heads, head_dim) each."""

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

    def write(self, key: Tensor, value: Tensor, positions: Tensor) -> None:
        """Write keys and values (1, heads, n, head_dim) at n positions."""
        self.k_cache[:, positions] = key.transpose(1, 2)
        self.v_cache[:, positions] = value.transpose(1, 2)


class IndexerCache(nn.Module):
    """The keys by which a layer chooses the tokens to attend to, (1, context, width)."""

    k_cache: Tensor

    def __init__(self, context: int, like: Tensor) -> None:
        super().__init__()
        self.register_buffer("k_cache", torch.zeros(1, context, like.shape[-1]))


class RecurrentState(nn.Module):
    """A state that each token replaces, of a convolution or a scan."""

    state: Tensor

    def __init__(self, like: Tensor) -> None:
        super().__init__()
        self.register_buffer("state", torch.zeros_like(like))


@dataclass
class Step:
    """The current call, for functions that the library calls without it."""

    decoder: Any = None
    start: Any = 0  # the position of the first token
    positions: Any = None  # positions of all tokens
    masks: dict[int, Tensor] = field(default_factory=dict)  # masks by window
    rows: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)  # rows of rotary tables
    tables: tuple[Tensor, Tensor] | None = None  # rotary tables, if the call has them as arguments

    def begin(self, decoder: Any, start: Any, positions: Tensor) -> None:
        """Begin a call, without masks and rows so far."""
        self.decoder, self.start, self.positions = decoder, start, positions
        self.masks, self.rows = {}, {}


STEP = Step()


class DecoderCache(Cache):
    """The library's cache object, whose content is a decoder's buffers.

    Layers that call their attention by the library's table get their keys and values back, because
    the function in the table writes them. Other layers get the whole cache, behind a mask.
    """

    def __init__(self, decoder: Any) -> None:
        Cache.__init__(self, layers=[])
        self.decoder = decoder

    @classmethod
    def like(cls, kind: type, decoder: Any) -> Any:
        """Return a cache that also is of a model's own kind, which its code may ask for."""
        if kind.__module__ == Cache.__module__:
            return cls(decoder)
        if not issubclass(kind, Cache):
            return _StatesOnly(decoder)
        return type(kind.__name__, (cls, kind), {})(decoder)

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        if not self.decoder.masked:
            return key_states, value_states
        cache = self.decoder.caches[str(layer_idx)]
        cache.write(key_states, value_states, STEP.positions)
        return cache.k_cache.transpose(1, 2), cache.v_cache.transpose(1, 2)

    def update_indexer(self, indexer_key_states: Tensor, layer_idx: int) -> Tensor:
        keys: Tensor = self.decoder.indexers[str(layer_idx)].k_cache
        keys[:, STEP.positions] = indexer_key_states
        return keys

    def get_linear_cache(self, layer_idx: int) -> Tensor:
        return self._state("linear", layer_idx, 0)

    def set_linear_cache(self, layer_idx: int, linear_cache: Tensor) -> None:
        self._state("linear", layer_idx, 0).copy_(linear_cache)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return 0  # models take positions from `position_ids`

    def get_query_offset(self, layer_idx: int = 0) -> int:
        return 0

    def get_mask_sizes(self, query_length: int, layer_idx: int) -> tuple[int, int]:
        return self.decoder.context, 0

    def get_conv_state(self, layer_idx: int, state_idx: int = 0) -> Tensor:
        return self._state("conv", layer_idx, state_idx)

    def get_recurrent_state(self, layer_idx: int, state_idx: int = 0) -> Tensor:
        return self._state("recurrent", layer_idx, state_idx)

    def update_conv_state(
        self, conv_states: Tensor, layer_idx: int, state_idx: int = 0, **_: Any
    ) -> Tensor:
        state = self._state("conv", layer_idx, state_idx)
        whole = torch.cat([state, conv_states], -1)
        state.copy_(whole[..., -state.shape[-1] :])
        return whole

    def update_recurrent_state(
        self, recurrent_states: Tensor, layer_idx: int, state_idx: int = 0, **_: Any
    ) -> Tensor:
        return self._state("recurrent", layer_idx, state_idx).copy_(recurrent_states)

    def has_previous_state(
        self, layer_idx: int | None = None, state_idx: int | None = None
    ) -> bool:
        return True  # zeros before the first token

    def is_recording_past(self, layer_idx: int) -> bool:
        return False

    def _state(self, kind: str, layer: int, number: int) -> Tensor:
        state: Tensor = self.decoder.states[f"{kind}_{layer}_{number}"].state
        return state


class _StatesOnly:
    """The cache object of a model that only keeps states, as tuples by layer (xLSTM)."""

    def __init__(self, decoder: Any) -> None:
        found: dict[int, list[Tensor]] = {}
        for name, held in decoder.states.items():
            _, layer, _ = name.split("_")
            found.setdefault(int(layer), []).append(held.state)
        self.rnn_state = {layer: tuple(states) for layer, states in found.items()}
        self.rnn_state_initial = False
        self.seqlen_offset = torch.zeros(1, dtype=torch.int64)


def own_cache(code: Any) -> type | None:
    """Return the class of caches that a model's code defines, if any."""
    found = (
        value
        for name, value in vars(code).items()
        if isinstance(value, type) and name.endswith("Cache") and value.__module__ == code.__name__
    )
    return next(found, None)


def new_cache(kind: type, config: Any) -> Any:
    """Return an empty cache of a model's own kind."""
    if issubclass(kind, Cache):
        return kind()
    return kind(config, 1, dtype=torch.float32)


def indexers_of(cache: Any) -> dict[int, Tensor]:
    """Return the indexers' keys in a library's cache that a model has filled, by layer."""
    layers = enumerate(getattr(cache, "layers", ()))
    found = {number: getattr(layer, "indexer_keys", None) for number, layer in layers}
    return {number: keys for number, keys in found.items() if isinstance(keys, Tensor)}


def states_of(cache: Any) -> dict[str, RecurrentState]:
    """Return the states of the layers in a library's cache that a model has filled, by name."""
    found: dict[str, RecurrentState] = {}
    for layer, content in enumerate(getattr(cache, "layers", ())):
        for kind in _KINDS:
            held = getattr(content, f"{kind}_states", None) or {}
            for number, like in held.items():
                if like is not None:
                    found[f"{kind}_{layer}_{number}"] = RecurrentState(like)
    for layer, like in enumerate(getattr(cache, "linear_cache", ())):
        if isinstance(like, Tensor):
            found[f"linear_{layer}_0"] = RecurrentState(like)
    for layer, states in getattr(cache, "rnn_state", {}).items():
        for number, like in enumerate(states):
            found[f"rnn_{layer}_{number}"] = RecurrentState(like)
    return found

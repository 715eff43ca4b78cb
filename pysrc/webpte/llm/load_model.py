"""Loads language models: `webpte.load`, with KV caches of another size, and room for LoRAs."""

from __future__ import annotations

from typing import Any

from webpte.engine.load.program_file import OPTIONAL_METHODS, Contents
from webpte.inspection.forecast import forecast as forecast_program
from webpte.inspection.report.forecast import MemoryForecast
from webpte.llm.cache.pack_cache import fit_caches
from webpte.llm.lora.branches import with_room
from webpte.llm.lora.program_loras import give_room
from webpte.llm.lora.slots import LoraRoom, LoraSlots
from webpte.loading import load as load_program
from webpte.program import Program


class _Preparation:
    """A rewrite of a language model's file; remembers the slots that it has made for LoRAs."""

    def __init__(
        self, max_context: int | None, kv_cache: str | None, lora: LoraRoom | int | None
    ) -> None:
        self._max_context, self._kv_cache, self._lora = max_context, kv_cache, lora
        self.slots: LoraSlots | None = None

    def __call__(self, contents: Contents) -> Contents:
        contents = fit_caches(contents, self._max_context, self._kv_cache)
        if self._lora is not None:
            contents, self.slots = with_room(contents, self._lora)
        return contents


async def load(
    source: Any,
    *,
    max_context: int | None = None,
    kv_cache: str | None = None,
    lora: LoraRoom | int | None = None,
    training: bool = False,
    **loading: Any,
) -> Program:
    """Open a language model's `.pte` and make it ready to run.

    max_context  keep a KV cache of at most so many tokens, to save memory
    kv_cache     "f16" or "int8" keeps the KV cache in fewer bits than the file; "f32" needs a file
                 with a cache in f32
    lora         room for LoRAs of up to this rank, or a `LoraRoom`; see `load_lora`
    training     also read the method `learn` of an export with `--train lora`, for
                 `webpte.training.LoraTrainer`
    source, loading   as for `webpte.load`
    """
    prepare = _Preparation(max_context, kv_cache, lora)
    optional = OPTIONAL_METHODS if training else ()
    program = await load_program(source, prepare=prepare, optional=optional, **loading)
    if prepare.slots is not None:
        give_room(program, prepare.slots)
    return program


async def forecast(
    source: Any,
    *,
    max_context: int | None = None,
    kv_cache: str | None = None,
    lora: LoraRoom | int | None = None,
    training: bool = False,
    **forecasting: Any,
) -> MemoryForecast:
    """Tell how much GPU memory a language model will need, before its weights are fetched.

    max_context, kv_cache, lora, training   as for `load`
    source, forecasting   as for `webpte.forecast`
    """
    prepare = _Preparation(max_context, kv_cache, lora)
    optional = OPTIONAL_METHODS if training else ()
    return await forecast_program(source, prepare=prepare, optional=optional, **forecasting)

"""A decoder whose method takes its KV caches, and gives changed caches after the logits.

Programs that are parts of a model share no memory, so the caches go from call to call as values;
on a GPU they stay there. A second method may begin them, from a whole prompt; further tokens go to
the method itself, as many as it takes at once. A token is sampled from the last row of the logits:
on a GPU by the sampler that decoders have, unless the settings need the host.

A method that takes a fixed number of tokens gets the last token several times where fewer are left.
The rows that these write are written again by the next call. Where they would be past the end of
the caches, the call begins earlier instead, with tokens again that the caches have already.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from webpte.engine.call.call import CallLog
from webpte.engine.call.gpu_tensor import WORD_BYTES, GpuTensor, join_rows, lend
from webpte.engine.call.info import TensorInfo
from webpte.engine.dtypes import DTYPES
from webpte.engine.run.build import Build
from webpte.engine.run.io import Input, OutputPlacement
from webpte.engine.run.method import Method
from webpte.engine.run.request import RunRequest
from webpte.errors import ContextError, UnsupportedError
from webpte.llm.decode.cache_state import CacheLayout
from webpte.llm.decode.decoder import Decoder, decoder_of
from webpte.llm.decode.derived import row_sampler
from webpte.llm.decode.sampler_graph import SamplerKind
from webpte.llm.decode.sampling import SampledToken, SamplerSettings
from webpte.llm.program_signature import passed_caches, prompt_method
from webpte.program import Program, build_of, call_log_of, method_of

Array = np.ndarray
_WHY = "the program passes its caches from call to call"


class PassedCaches(Decoder):
    """A method that takes caches, and perhaps a method for prompts, with a sampler on the host."""

    follows_position = False

    def __init__(
        self,
        build: Build,
        method: Method,
        log: CallLog,
        embedding: Method | None,
        prompt: Method | None,
    ) -> None:
        super().__init__(build, method, log, embedding)
        self._prompt = prompt
        self._held: list[Any] = build.keep(("passed caches", method.info.name), list)
        # The rows that the caches are of, if calls take several: tokens or embeddings.
        self._rows: list[Array] = build.keep(("rows of passed caches", method.info.name), list)

    async def run_unread(self, inputs: Sequence[Any]) -> None:
        with self._calling():
            _free([await self._run(inputs)])

    async def sample(
        self,
        inputs: Sequence[Any],
        settings: SamplerSettings,
        history: Sequence[int],
        room: int | None,
        allowed: Array | None = None,
    ) -> SampledToken:
        with self._calling():
            row = await self._run(inputs)
            try:
                return await self._sampled(row, settings, history, room, allowed)
            finally:
                _free([row])

    async def _sampled(
        self,
        row: Array | GpuTensor,
        settings: SamplerSettings,
        history: Sequence[int],
        room: int | None,
        allowed: Array | None,
    ) -> SampledToken:
        if not isinstance(row, GpuTensor):
            return settings.on_host(row, history, allowed)
        kind = SamplerKind.of(settings, room, allowed is not None)
        if kind is None or kind.penalized:
            return settings.on_host(await row.numpy(), history, allowed)
        given: list[Input] = [lend(row, row.device), *kind.inputs(settings, len(history))]
        sampler = await row_sampler(self._build, kind, row)
        found = await sampler.run(RunRequest([*given, *([] if allowed is None else [allowed])]))
        token, *words = (each.reshape(-1) for each in found)
        return SampledToken(int(token[-1]), words[0] if words else None)

    async def _run(self, inputs: Sequence[Any]) -> Array | GpuTensor:
        """Run the tokens or embeddings of a call; return the row of logits of the last."""
        rows, begin = inputs[0], int(inputs[1].reshape(-1)[0])
        if self._embedding is not None and rows.dtype.kind in "iu":
            (rows,) = await self._embedding.run(self._embedding.request([rows]))
        if begin and not self._held:
            raise ContextError("the caches of the conversation are gone: begin it again")
        made: list[Any] = []  # caches of this call
        logits: Array | GpuTensor = np.zeros(0, np.float32)
        try:
            done = 0
            if not begin and self._prompt is not None:
                done = rows.shape[1]
                logits, made = await self._call(self._prompt, rows, 0, ())
            caches = made or (self._held if begin else _zeros(self._method))
            width, end = _first(self._method).shape[1], self._end()
            known, start = rows, begin
            if end is not None:
                before = [each[:, :begin] for each in self._rows]
                known, start = np.concatenate([*before, rows], axis=1), 0
            for at in range(begin + done, begin + rows.shape[1], width):
                first = at if end is None else max(min(at, end - width), 0)
                given = known[:, first - start : at - start + width], first, caches
                _free([logits])
                logits, found = await self._call(self._method, *given)
                _free(made)
                caches = made = found
        except BaseException:
            _free([*made, logits])
            raise
        _free(self._held)
        self._held[:] = made
        self._rows[:] = [] if end is None else [known]
        return logits

    def _end(self) -> int | None:
        """Return the rows of the caches; None for a method whose calls never go past them."""
        first = _first(self._method)
        if first.dynamic or first.shape[1] == 1:
            return None
        return min(max(one.shape[1:-1]) for one in _cache_inputs(self._method))

    async def _call(
        self, method: Method, rows: Array, begin: int, caches: Sequence[Any]
    ) -> tuple[Array | GpuTensor, list[Any]]:
        """Run a method on tokens or embeddings; return the logits of the last, and the caches."""
        info, count = method.info, rows.shape[1]
        width = count if _first(method).dynamic else _first(method).shape[1]
        rows = np.concatenate([rows, *[rows[:, -1:]] * (width - count)], axis=1)
        given, passed = [rows], iter(caches)
        for at, one in enumerate(info.inputs[1:], 1):
            if at in passed_caches(info):
                given.append(next(passed))
            elif isinstance(one, TensorInfo):
                several = max(one.shape, default=1) > 1
                places = np.arange(begin, begin + (width if several else 1), dtype=one.dtype)
                given.append(places.reshape(*(1,) * (len(one.shape) - 1), -1))
        on_host = isinstance(self._build.device, str)
        place = OutputPlacement.HOST if on_host else OutputPlacement.OWNED
        logits, *made = await method.run(method.request(given, place))
        try:
            return await _row(logits, count), made
        except BaseException:
            _free([logits, *made])
            raise

    # Other ways of decoding, which take a method with state

    def steps(self, settings: SamplerSettings, room: int | None, masked: bool = False) -> str:
        return _WHY

    async def sample_rows(self, *_: Any) -> str:
        return _WHY

    async def rounds_ahead(self, *_: Any) -> str:
        return _WHY

    def _drafting(self, *_: Any) -> str:
        return _WHY

    def cache_layout(self) -> list[CacheLayout]:
        self._refuse()

    async def read_caches(self, count: int) -> list[Array]:
        self._refuse()

    async def write_caches(self, arrays: Sequence[Array]) -> None:
        self._refuse()

    async def with_slots(self, slots: int, rows: int, context: int | None) -> NoReturn:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise UnsupportedError(f"method {self._method.info.name!r}: {_WHY}")


async def _row(logits: Array | GpuTensor, count: int) -> Array | GpuTensor:
    """Return the last of `count` rows of logits; on a GPU it is [1, 1, vocabulary] there.

    The logits on the GPU are freed, but for a single row. Rows of no whole words come back.
    """
    width = logits.shape[-1]
    last = min(count, math.prod(logits.shape) // width) - 1
    if not isinstance(logits, GpuTensor):
        found: Array = logits.reshape(-1, width)[last]
        return found
    if math.prod(logits.shape) == width:
        return logits
    if width * logits.stored_dtype.itemsize % WORD_BYTES:
        row: Array | GpuTensor = (await logits.numpy()).reshape(-1, width)[last]
    else:
        row = await join_rows([(logits, last, 1)])
    logits.destroy()
    return row


def _first(method: Method) -> TensorInfo:
    """Return the input of tokens or embeddings."""
    first = method.info.inputs[0]
    assert isinstance(first, TensorInfo), "see language_model"
    return first


def _cache_inputs(method: Method) -> list[TensorInfo]:
    given = [method.info.inputs[at] for at in passed_caches(method.info)]
    return [one for one in given if isinstance(one, TensorInfo)]


def _zeros(method: Method) -> list[Array]:
    """Return caches without contents."""
    return [np.zeros(one.shape, DTYPES[one.dtype].numpy) for one in _cache_inputs(method)]


def _free(values: Sequence[Any]) -> None:
    for value in values:
        if isinstance(value, GpuTensor):
            value.destroy()


def session_decoder(program: Program, method: str, embedding: str | None = None) -> Decoder:
    """Return the decoder for conversations with a method, which is valid until `recover`."""
    if not passed_caches(program.methods[method]):
        return decoder_of(program, method, embedding)
    prompt = prompt_method(program, method)
    return PassedCaches(
        build_of(program),
        method_of(program, method),
        call_log_of(program),
        None if embedding is None else method_of(program, embedding),
        None if prompt is None else method_of(program, prompt),
    )

"""A language model's method, called for the token that it samples instead of for its logits.

The method takes tokens [1, S] and the position. Where it is a single delegate on a GPU, the sampler
runs on the GPU, too (`SampledDelegate`), and several steps can go in one submission; elsewhere the
logits come back, and the NumPy reference of the same operator samples.

A method that takes embeddings is accompanied by a second method, which embeds tokens. On a GPU both
become a single delegate for tokens; embeddings, such as embeddings of pictures, go to the method
itself.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    nullcontext,
)
from dataclasses import replace
from typing import Any

import numpy as np

from webpte.engine.call.call import CallLog, executing
from webpte.engine.call.gpu_tensor import GpuTensor
from webpte.engine.gpu.device import Device
from webpte.engine.load.fingerprint import fingerprint
from webpte.engine.run.build import Build
from webpte.engine.run.delegate import GpuDelegate
from webpte.engine.run.io import Input, OutputPlacement, check_inputs
from webpte.engine.run.method import Method
from webpte.engine.run.numpy_delegate import NumpyDelegate
from webpte.engine.run.request import Delegate, RunRequest
from webpte.errors import IndexRangeError, ResizeError, UnsupportedError
from webpte.llm.decode.batched_steps import BatchedSteps
from webpte.llm.decode.cache_state import (
    CacheLayout,
    StatefulDelegate,
    layout_of,
    read_caches,
    write_caches,
)
from webpte.llm.decode.decode_steps import DecodeSteps, StepPacker
from webpte.llm.decode.derived import (
    batched_steps,
    built_token_delegate,
    guessed_rounds,
    row_logits_delegate,
    sampled_delegate,
    token_delegate,
)
from webpte.llm.decode.guessed_rounds import PendingRounds, RoundStart
from webpte.llm.decode.rollback_safety import unsafe_state
from webpte.llm.decode.sampled_delegate import SampledDelegate
from webpte.llm.decode.sampler_graph import SamplerKind, tokens_of_rows
from webpte.llm.decode.sampling import SampledToken, SamplerSettings
from webpte.program import Program, build_of, call_log_of, method_of

_EMBEDDINGS = "the method takes embeddings, not tokens"


class Decoder:
    """A method of a build, with a sampler; its calls are counted in `log`.

    `embedding` is the method that embeds tokens, if the method takes embeddings: then the first
    input of a call is either tokens or embeddings.
    """

    def __init__(
        self, build: Build, method: Method, log: CallLog, embedding: Method | None = None
    ) -> None:
        self._build = build
        self._method = method
        self._log = log
        self._embedding = embedding

    @property
    def follows_position(self) -> bool:
        """Whether the method can go back to an earlier position and continue from there."""
        graph = getattr(self._method.only_delegate, "graph", None)
        return graph is not None and unsafe_state(graph) is None

    async def fingerprint(self) -> str:
        """Return a hash that distinguishes the program from others."""
        assert self._build.contents is not None
        return await fingerprint(self._build.contents)

    def cache_layout(self) -> list[CacheLayout]:
        """Return the layout of the KV caches; raise UnsupportedError if there is other state."""
        return layout_of(self._delegate().graph)

    async def read_caches(self, count: int) -> list[np.ndarray]:
        """Read the first `count` positions of the KV caches."""
        with self._log.context():
            return await read_caches(self._delegate(), count)

    async def write_caches(self, arrays: Sequence[np.ndarray]) -> None:
        """Write the first positions of the KV caches; other conversations notice it as a call."""
        delegate = self._delegate()
        self._log.count(self._method.info.name)
        with self._log.context():
            await write_caches(delegate, arrays)

    def _delegate(self) -> StatefulDelegate:
        delegate = self._method.only_delegate
        if not isinstance(delegate, GpuDelegate | NumpyDelegate):
            raise UnsupportedError(
                f"method {self._method.info.name!r} is more than one delegate: its KV cache cannot "
                "be read"
            )
        return delegate

    async def run_unread(self, inputs: Sequence[Any]) -> None:
        """Run the method for its effect on state (caches) alone: nothing is read back."""
        method, unread = self._method, OutputPlacement.BORROWED
        self._log.count(method.info.name)
        with self._build.lifetime.lease(), self._log.context():
            async with self._given(inputs) as (body, given):
                if body is method.only_delegate:
                    await method.run(method.request(given, unread))
                else:
                    assert body is not None
                    with executing(method.info.name):
                        await body.run(RunRequest(given, unread))

    @asynccontextmanager
    async def _given(
        self, inputs: Sequence[Any]
    ) -> AsyncIterator[tuple[Delegate | None, Sequence[Any]]]:
        """Yield the delegate that takes these inputs, and the inputs for it or for the method."""
        method, embedding = self._method, self._embedding
        first = inputs[0] if inputs else None
        is_tokens = isinstance(first, np.ndarray) and first.dtype.kind in "iu"
        if embedding is None or not is_tokens:
            yield method.only_delegate, inputs
            return
        joined = await token_delegate(self._build, method, embedding)
        if isinstance(joined, GpuDelegate):
            info = replace(method.info, inputs=(*embedding.info.inputs, *method.info.inputs[1:]))
            yield joined, check_inputs(info, inputs, joined.device)
            return
        on_gpu = isinstance(method.only_delegate, GpuDelegate)
        place = OutputPlacement.OWNED if on_gpu else OutputPlacement.HOST
        (made,) = await embedding.run(embedding.request([first], place))
        try:
            yield method.only_delegate, (made, *inputs[1:])
        finally:
            if isinstance(made, GpuTensor):
                made.destroy()

    async def sample(
        self,
        inputs: Sequence[Any],
        settings: SamplerSettings,
        history: Sequence[int],
        room: int | None,
        allowed: np.ndarray | None = None,
    ) -> SampledToken:
        """Run the method once, and return the token that follows its last token.

        `history` has all tokens before the sampled token, the tokens of this call included; there
        will be at most `room` tokens, if that is known. `allowed` is the mask of tokens to sample
        from, in the form of webpte.sample.default. The token also stays on the GPU, for `steps`.
        """
        method = self._method
        with self._log.calling(method.info.name, self._build.lifetime):
            async with self._given(inputs) as (body, given):
                kind = SamplerKind.of(settings, room, allowed is not None)
                joined = body is not method.only_delegate
                if kind is None or not isinstance(body, GpuDelegate):
                    if joined and body is not None:
                        (logits,) = await body.run(RunRequest(given))
                    else:
                        (logits,) = await method.run(method.request(given))
                    return settings.on_host(logits, history, allowed)
                taken = given if joined else method.take_inputs(given)
                with executing(method.info.name):
                    sampled = sampled_delegate(self._build, body, kind)
                    extra: list[Input] = [*kind.inputs(settings, len(history))]
                    if allowed is not None:
                        extra.append(allowed)
                    if kind.penalized:
                        extra.append(_padded(history, kind.room))
                    tokens, *words = await sampled.run(taken, extra, keep_token=True)
                return SampledToken(
                    int(tokens.reshape(-1)[-1]), words[0].reshape(-1) if words else None
                )

    async def sample_rows(
        self,
        inputs: Sequence[Any],
        settings: SamplerSettings,
        history: Sequence[int],
        room: int | None,
    ) -> list[SampledToken] | str:
        """Run the method once; return the token that follows each of its tokens, or why it cannot.

        `history` has all tokens, the tokens of this call included; there will be at most `room`
        tokens, if that is known. Calls of the same length run by the same commands. The KV cache is
        written as by `sample`, and can go back to an earlier position.
        """
        method = self._method
        if self._embedding is not None:
            return _EMBEDDINGS
        with self._log.calling(method.info.name, self._build.lifetime):
            given = method.take_inputs(inputs)
            with executing(method.info.name):
                try:
                    return await self._sample_rows(given, settings, history, room)
                except (ResizeError, IndexRangeError) as error:
                    return str(error)  # not raised: the caller has not requested these tokens yet

    async def _sample_rows(
        self,
        given: Sequence[Any],
        settings: SamplerSettings,
        history: Sequence[int],
        room: int | None,
    ) -> list[SampledToken] | str:
        rows = given[0].shape[1]
        verifier = await row_logits_delegate(self._build, self._method, rows)
        if isinstance(verifier, str):
            return verifier
        kind = SamplerKind.of(settings, room, rows=rows)
        first = len(history) - rows + 1
        if kind is None or not isinstance(verifier, GpuDelegate):
            async with _turn_of(self._method.only_delegate):
                (logits,) = await verifier.run(RunRequest(given))
            by_row = enumerate(logits.reshape(rows, -1))
            return [settings.on_host(row, history[: first + n]) for n, row in by_row]
        extra: list[Input] = [*kind.inputs(settings, first)]
        if kind.penalized:
            extra.append(_padded(history, kind.room))
        async with _turn_of(self._method.only_delegate):
            found = await sampled_delegate(self._build, verifier, kind).run(given, extra)
        return tokens_of_rows(found, kind)

    def cache_positions(self) -> int:
        """Return the number of tokens that each of the KV caches holds."""
        return min((cache.positions for cache in self.cache_layout()), default=0)

    async def with_slots(self, slots: int, rows: int, context: int | None) -> BatchedSteps:
        """Return steps of several sequences at once, or raise UnsupportedError.

        A step has up to `rows` tokens. Each of the `slots` has a separate cache, with as many
        positions as the method's, or `context` if that is less.
        """
        if self._embedding is not None:
            raise UnsupportedError(_EMBEDDINGS)
        with self._build.lifetime.lease(), self._log.context(), executing(self._method.info.name):
            return await batched_steps(self._build, self._method, slots, rows, context)

    async def rounds_ahead(
        self,
        draft: Decoder | None,
        settings: SamplerSettings,
        places: range,
        rounds: int,
        start: RoundStart | None,
        count: int,
        most: int,
        known: dict[SampledDelegate, StepPacker],
        room: int | None,
    ) -> PendingRounds | str:
        """Submit rounds of speculative decoding, several at once; or return the reason why not.

        A round is a run of `count` tokens, all but the first of which the draft has sampled, or a
        lookup has found; rounds of up to `most` tokens share a graph. The first round begins at a
        position among `places`; `start` gives the position, and the tokens before it. Without
        `start` it begins where the last round ends, which may be under way. The caches have room
        for all rounds. The rounds of an answer share `known`: their packed steps.
        """
        method, body = self._method, self._method.only_delegate
        with draft._calling() if draft else nullcontext(), self._calling():
            kind = SamplerKind.of(settings, room, rows=count)
            if self._embedding is not None:
                return _EMBEDDINGS
            if not isinstance(body, GpuDelegate):
                return "the method is not one delegate on a GPU"
            if room is None and draft is None:
                return "a lookup needs the program's `get_max_context_len`"
            if kind is None or kind.penalized:
                return "a penalty depends on the tokens that were accepted"
            sampled = draft._drafting(body.device, settings, room) if draft else None
            if isinstance(sampled, str):
                return sampled
            verifier = await row_logits_delegate(self._build, method, most)
            if isinstance(verifier, str):
                return verifier
            assert isinstance(verifier, GpuDelegate)
            target = sampled_delegate(self._build, verifier, kind)
            guessed = guessed_rounds(self._build, method, target, sampled, count, room or 0)
            packers = [known.setdefault(target, StepPacker(target, settings, count))]
            if sampled is not None:
                packers.append(known.setdefault(sampled, StepPacker(sampled, settings)))
            with executing(method.info.name):
                return await guessed.submit(places, rounds, start, packers)

    def _drafting(
        self, device: Device, settings: SamplerSettings, room: int | None
    ) -> SampledDelegate | str:
        """Return the delegate with a sampler of a draft for a model on a device, or why not."""
        body = self._method.only_delegate
        kind = SamplerKind.of(SamplerSettings(settings.sampling, settings.seed), room)
        if self._embedding is not None:
            return _EMBEDDINGS
        if not isinstance(body, GpuDelegate):
            return "the draft is not one delegate on a GPU"
        if body.device is not device:
            return "the draft is on another device"
        assert kind is not None, "a draft has no penalty"
        return sampled_delegate(self._build, body, kind)

    def _calling(self) -> AbstractContextManager[None]:
        return self._log.calling(self._method.info.name, self._build.lifetime)

    def steps(
        self, settings: SamplerSettings, room: int | None, masked: bool = False
    ) -> DecodeSteps | str:
        """Return the steps that follow a `sample`, or the reason why they cannot.

        Each takes the token that the step before has sampled. `room` is as for `sample`; with
        `masked`, each step takes a mask of allowed tokens.
        """
        body: Delegate | str | None = self._method.only_delegate
        if self._embedding is not None:  # a call with tokens has built the delegate
            body = built_token_delegate(self._build, self._method)
            if isinstance(body, str):
                return body
        kind = SamplerKind.of(settings, room, masked)
        if not isinstance(body, GpuDelegate):
            return "the method is not one delegate on a GPU"
        if settings.rule is not None:
            return "a rule changes the logits on the host"
        if kind is None:
            return "a penalty needs the program's `get_max_context_len`"
        sampled = sampled_delegate(self._build, body, kind)
        return DecodeSteps(sampled, settings, self._method.info.name, self._log)


def _turn_of(body: Delegate | None) -> AbstractAsyncContextManager[None]:
    """Keep other runs of a delegate away while another delegate writes its state."""
    return body.turn() if isinstance(body, GpuDelegate) else nullcontext()


def _padded(history: Sequence[int], room: int) -> np.ndarray:
    padded = np.zeros(room, np.int32)
    padded[: len(history)] = history
    return padded.reshape(SamplerKind.history_dims(room))


def decoder_of(program: Program, method: str, embedding: str | None = None) -> Decoder:
    """Return a decoder for a method of a program, which is valid until `recover`.

    `embedding` is the method that embeds tokens, if the decoder's method takes embeddings.
    """
    before = None if embedding is None else method_of(program, embedding)
    return Decoder(build_of(program), method_of(program, method), call_log_of(program), before)

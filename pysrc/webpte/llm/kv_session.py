"""The context of a language model: tokens in the program's cache, and tokens on their way there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from operator import index
from typing import Any, TypeVar

import numpy as np

from webpte.errors import ContextError, DeviceError, InputError
from webpte.llm.pipelined_decode import Pace, PipelinedDecode
from webpte.runtime.base.info import ScalarInfo, TensorInfo
from webpte.runtime.decode.sampled_delegate import PendingSteps
from webpte.runtime.decode.sampling import GREEDY, SampledToken, SamplerSettings
from webpte.runtime.program import Program

T = TypeVar("T")


class KVSession:
    """What a program's cache holds of a conversation, and how more gets there.

    It is the `position` tokens in the program's cache, and after them `pending`: the last
    token of an answer (also a stop token) is in no cache yet, and is fed with the next turn.

    The cache is the program's: it holds the context of whoever called the method last. A Context
    notices when that was not itself, or when `recover` rebuilt the program.
    """

    def __init__(self, program: Program, method: str = "forward") -> None:
        self.program = program
        self.method = method
        methods = program.methods
        if method not in methods:
            raise InputError(f"{program.name} has no method {method!r}")
        inputs = methods[method].inputs
        if not (
            len(inputs) == 2
            and all(isinstance(i, TensorInfo) and i.dtype in ("int64", "int32") for i in inputs)
            and [len(i.shape) for i in inputs if isinstance(i, TensorInfo)] == [2, 1]
        ):
            listed = "; ".join(map(str, inputs))
            raise InputError(
                f"{program.name} is not a language model with a KV cache: it takes {listed}, "
                "not tokens [1, S] and input_pos [1]"
            )
        outputs = methods[method].outputs
        if len(outputs) != 1 or not isinstance(outputs[0], TensorInfo):
            raise InputError(
                f"{program.name} is not a language model that can be asked for tokens: it gives "
                f"{'; '.join(map(str, outputs)) or 'nothing'}, not logits alone"
            )
        tokens, position = inputs
        assert isinstance(tokens, TensorInfo)
        assert isinstance(position, TensorInfo)
        self._dtypes = np.dtype(tokens.dtype), np.dtype(position.dtype)
        self.max_chunk = tokens.shape[1]
        context = self._metadata("get_max_context_len") or self._metadata("get_max_seq_len")
        self.max_context = int(context[0]) if context else None
        self.eos = frozenset(map(int, self._metadata("get_eos_ids") or ()))
        self._cached: list[int] = []
        self._pending: list[int] = []
        self._answer: object = None  # the one that may go on
        self._busy = False
        self._ahead: PipelinedDecode | None = None  # those that follow the last call, if any do
        self._note_cache()

    def _metadata(self, method: str) -> list[Any]:
        """What a constant method returns; empty if the program does not have it."""
        info = self.program.methods.get(method)
        if info is None or not info.is_constant:
            return []
        return [output.value for output in info.outputs if isinstance(output, ScalarInfo)]

    @property
    def vocabulary(self) -> int:
        """How many tokens there are: the last dim of the logits."""
        (logits,) = self.program.methods[self.method].outputs
        assert isinstance(logits, TensorInfo)
        return logits.shape[-1]

    @property
    def position(self) -> int:
        """How many tokens of the context are in the cache."""
        return len(self._cached)

    @property
    def pending(self) -> tuple[int, ...]:
        """Tokens of the context that are not in the cache yet."""
        return tuple(self._pending)

    @property
    def context(self) -> tuple[int, ...]:
        """The whole conversation so far."""
        return (*self._cached, *self._pending)

    def reset(self) -> None:
        """Start anew. What is in the cache is behind every position that will be looked at."""
        self._check_idle()
        self._cached, self._pending, self._answer = [], [], None
        self._note_cache()

    def _checked(self, tokens: Iterable[int]) -> list[int]:
        """Tokens as whole numbers; raises InputError for what is none of the program's."""
        numbers: list[int] = []
        vocabulary = self.vocabulary
        for place, token in enumerate(tokens):
            try:
                number = index(token)
            except TypeError:
                number = -1
            if not 0 <= number < vocabulary:
                raise InputError(
                    f"{token!r} (place {place}) is no token of {self.program.name}: they are whole "
                    f"numbers from 0 to {vocabulary - 1}"
                )
            numbers.append(number)
        return numbers

    async def feed(self, tokens: Sequence[int], choice: SamplerSettings = GREEDY) -> int:
        """Run what is pending and `tokens` through the model; returns the token after them.

        That token is not a part of the context. If this fails or is cancelled, the context is
        what it was before. Where a program's state is not known to follow the position, what was
        begun cannot be undone then: the Context raises ContextError until it is `reset`.
        """
        chosen = await self._feed(self._checked(tokens), choice)
        self._answer = None
        return chosen.token

    async def _feed(
        self, tokens: list[int], choice: SamplerSettings, allowed: np.ndarray | None = None
    ) -> SampledToken:
        """`feed`, within an answer. `allowed` are the tokens to choose from, if not all."""
        self._check_room(tokens)
        context = [*self._pending, *tokens]
        self._check_given(context)
        self._check_idle()
        self._busy = True
        calls = self.program.calls(self.method)
        try:
            chosen = await self._feed_chunks(context, choice, allowed)
        except BaseException as error:
            # Where state follows the position, what is fed next writes the same rows again.
            run = self.program.calls(self.method) - calls
            self._is_broken |= not self._goes_back and _leaves_traces(error, run)
            raise
        finally:
            self._busy = False
        self._cached += context
        self._pending = []
        return chosen

    def _check_given(self, tokens: Sequence[int]) -> None:
        if not tokens:
            raise InputError("there must be at least one token to go on from")

    def _check_room(self, tokens: Sequence[int]) -> None:
        """Raises InputError if the context cannot hold these tokens, too."""
        if self.max_context is None:
            return
        if self.position + len(self._pending) + len(tokens) > self.max_context:
            pending = f", {len(self._pending)} pending" if self._pending else ""
            raise InputError(
                f"{self.position} tokens{pending} and {len(tokens)} more are over the "
                f"{self.max_context} that the program's context holds"
            )

    async def _feed_chunks(
        self, tokens: list[int], choice: SamplerSettings, allowed: np.ndarray | None
    ) -> SampledToken:
        decoder, history = self.program.decoder(self.method), [*self._cached, *tokens]
        position = self.position
        while len(tokens) > self.max_chunk:
            chunk, tokens = tokens[: self.max_chunk], tokens[self.max_chunk :]
            await self._call(self._run_unread, chunk, position)
            position += len(chunk)

        def choose(arrays: Sequence[np.ndarray]) -> Awaitable[SampledToken]:
            return decoder.choose(arrays, choice, history, self.max_context, allowed)

        return await self._call(choose, tokens, position)

    def _run_unread(self, arrays: Sequence[np.ndarray]) -> Awaitable[None]:
        return self.program.run_unread(self.method, *arrays)

    async def _call(
        self,
        run: Callable[[Sequence[np.ndarray]], Awaitable[T]],
        tokens: Sequence[int],
        position: int,
    ) -> T:
        """One call of the method, and only one: others may have written to the cache."""
        if position:
            self._check_cache()
        self._is_broken = False  # what was there before the first token does not matter
        self._generation = self.program.generation
        self._ahead = None  # it may have written where they have, whatever becomes of it
        arrays = np.asarray([tokens], self._dtypes[0]), np.asarray([position], self._dtypes[1])
        with self._one_call():
            result = await run(arrays)  # (1, S), (1,)
        self._check_cache()
        return result

    @contextmanager
    def _one_call(self) -> Iterator[None]:
        """One of the calls that are counted in here is this Context's own, and no more."""
        before = self.program.calls(self.method)
        try:
            yield
        finally:
            # A call that was refused at once (the program is closed) was not counted.
            self._calls = before + min(1, self.program.calls(self.method) - before)

    # Steps ahead of the host

    def _steps_ahead(self, choice: SamplerSettings, most: int) -> PipelinedDecode:
        """Those that follow the token which the last call has chosen."""
        decoder = self.program.decoder(self.method)

        async def submit(position: int, steps: int) -> PendingSteps | str:
            if self.max_context is not None:
                steps = min(steps, self.max_context - position)
            if steps < 1:
                return "the context is full"
            self._check_cache()
            dtype = self._dtypes[1]
            positions = [[np.asarray([position + step], dtype)] for step in range(steps)]
            with self._one_call():
                return await decoder.ahead(positions, choice, position + 1, self.max_context)

        self._ahead = PipelinedDecode(self.position, Pace(most), submit)
        return self._ahead

    def _follows(self, steps: PipelinedDecode) -> bool:
        """Whether nothing was fed since these steps began, not even by a call that failed."""
        return steps is self._ahead

    async def _take(self, steps: PipelinedDecode, wanted: int) -> SampledToken | str:
        """The next token, or why it has to be fed. What was pending is in the cache then."""
        self._check_idle()
        self._check_cache()
        self.program.check_open()
        self._busy = True
        try:
            chosen = await steps.take(wanted)
        finally:
            self._busy = False
        self._check_cache()
        if not isinstance(chosen, str):
            self._cached += self._pending
            self._pending = []
        return chosen

    # Whose cache it is

    def _note_cache(self) -> None:
        self._calls = self.program.calls(self.method)
        self._generation = self.program.generation
        self._is_broken = False  # whether a feed was broken off, and what it did stays

    @property
    def _is_mine(self) -> bool:
        """Whether what is in the cache is what this Generator put there."""
        called = self.program.calls(self.method) != self._calls
        rebuilt = self.program.generation != self._generation
        return not (called or rebuilt or self._is_broken)

    def _check_cache(self) -> None:
        if self._is_mine:
            return
        advice = "call reset() and feed the conversation again, or make a new Generator"
        if self.program.generation != self._generation:
            raise ContextError(
                f"{self.program.name} was rebuilt by recover(), and its cache is empty: {advice}"
            )
        if self._is_broken:
            raise ContextError(
                f"{self.program.name}: a feed was broken off, and the state of this program is not "
                f"known to follow the position, so what is in it is not known either: {advice}"
            )
        raise ContextError(
            f"{self.program.name}: method {self.method!r} was called by another Generator or "
            f"directly, so its cache is not this conversation's any more: {advice}"
        )

    def _check_idle(self) -> None:
        if self._busy:
            raise ContextError(
                "one answer at a time: this Generator is busy with another; await that first, or "
                "load the program once more for a conversation beside this one"
            )

    def _begin(self, answer: object) -> None:
        """From here on only this answer goes on."""
        self._answer = answer

    @property
    def _goes_back(self) -> bool:
        return self.program.decoder(self.method).follows_position

    def _go_back(self, conversation: list[int]) -> list[int]:
        """Keep what the cache has of a conversation's beginning; returns what is left to feed.

        The last token is always left: what follows it has to be computed.
        """
        self._check_given(conversation)
        if self.max_context is not None and len(conversation) > self.max_context:
            raise InputError(
                f"a conversation of {len(conversation)} tokens is over the {self.max_context} that "
                "the program's context holds"
            )
        known = self.context if self._is_mine else ()
        pairs = zip(known, conversation[:-1], strict=False)
        common = next((i for i, (a, b) in enumerate(pairs) if a != b), None)
        if common is None:
            common = min(len(known), max(0, len(conversation) - 1))
        if common < self.position and not self._goes_back:
            common = 0  # as after `reset`: such state cannot go back to a position
        kept = self.context[:common]
        self._pending = list(kept[self.position :])
        self._cached = list(kept[: self.position])
        if not self._cached:
            self._note_cache()
        return conversation[common:]

    def _check_current(self, answer: object) -> None:
        if self._answer is not answer:
            raise ContextError(
                "one answer at a time: this one ended when the Generator began another, was fed "
                "directly, or was reset"
            )

    def _add_pending(self, tokens: Sequence[int]) -> None:
        """Tokens that belong to the context, to be fed with what comes next."""
        self._pending += tokens


def _leaves_traces(error: BaseException, calls: int) -> bool:
    """Whether calls that were made before this was raised may have changed state.

    One that fails leaves it as it was, but one that is cancelled runs to its end if it is on the
    GPU, and of one whose device fails nobody knows.
    """
    if calls == 0:
        return False
    return calls > 1 or not isinstance(error, Exception) or isinstance(error, DeviceError)

"""Continuous batching: several answers of a model at once, which begin and end at any time.

    scheduler = webpte.llm.Scheduler(program, slots=8)
    first = scheduler.submit(prompt_tokens, max_new_tokens=100)
    second = scheduler.submit(other_tokens, max_new_tokens=20, temperature=0.8, seed=1)
    async for token in first:
        ...

A step runs the next token of every answer, and parts of new prompts, in one call of the model: the
weights are read once for all of them. An answer joins at the next step and leaves with its last
token. Each answer has a slot of the KV caches, which belong to the scheduler: the program can be
used at the same time. Answers wait while all slots are taken.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from webpte.errors import ClosedError, InputError
from webpte.llm.batched_generation import BatchedGeneration, BatchSequence
from webpte.llm.decode.batched_steps import BatchedSteps, BatchRow
from webpte.llm.decode.sampling import SamplerSettings, Sampling, check_most, check_stop
from webpte.llm.passed_caches import session_decoder
from webpte.llm.program_signature import (
    check_token_ids,
    embedding_of,
    language_method,
    language_model,
    stop_tokens_of,
)
from webpte.program import Program, call_log_of

SLOTS = 8
CHUNK = 256  # tokens of a step, at most: prompts take the room that other answers leave
SHARED = 16  # tokens of a prompt that are copied from another slot, at least
IN_FLIGHT = 2  # steps: one runs while the tokens of the other are on their way


@dataclass
class SchedulerStats:
    """Counts of a scheduler: steps, and the tokens that they read, reused and generated.

    Reused tokens that are shared with other answers were copied from the slots of these answers.
    """

    steps: int = 0
    prefill_tokens: int = 0
    reused_tokens: int = 0
    shared_tokens: int = 0
    decode_tokens: int = 0


@dataclass(frozen=True)
class _Step:
    """A step that was submitted, and the sequences that its tokens are for."""

    tokens: asyncio.Future[list[int]]
    sequences: list[BatchSequence]


class Scheduler:
    """Answers several prompts at once with a program.

    slots        answers at once; more wait
    max_context  the tokens of a prompt and its answer: as many as the program's cache holds, or
                 less, to save memory
    chunk        the tokens of a step, at most
    """

    def __init__(
        self,
        program: Program,
        slots: int = SLOTS,
        *,
        method: str = "forward",
        max_context: int | None = None,
        chunk: int = CHUNK,
    ) -> None:
        for name, number in (("slots", slots), ("max_context", max_context), ("chunk", chunk)):
            if number is not None and number < 1:
                raise InputError(f"{name} must be 1 or more, not {number}")
        self.program, self.method = program, language_method(program, method)
        *_, logits = language_model(program, self.method)
        self.slots, self.max_context = slots, max_context
        self.stats = SchedulerStats()
        self._vocabulary = logits.shape[-1]
        self._eos = stop_tokens_of(program)
        self._log = call_log_of(program)
        self._rows = max(chunk, slots)
        self._steps: BatchedSteps | None = None
        self._version = self._log.version
        self._waiting: deque[BatchSequence] = deque()
        self._running: list[BatchSequence | None] = [None] * slots
        self._held: list[list[int]] = [[] for _ in range(slots)]  # tokens in each slot
        self._in_flight: deque[_Step] = deque()
        self._building = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def running(self) -> int:
        """The number of answers that have a slot."""
        return sum(sequence is not None for sequence in self._running)

    @property
    def waiting(self) -> int:
        """The number of answers that wait for a slot; answers that get a free slot next do not."""
        return max(0, len(self._waiting) - self._running.count(None))

    async def prepare(self) -> None:
        """Build everything that steps need, for which the first answer would wait otherwise.

        Raises UnsupportedError, with the reason, for a program whose calls cannot have tokens of
        several sequences.
        """
        await self._built()

    def submit(
        self,
        prompt: Sequence[int],
        max_new_tokens: int,
        *,
        stop: Collection[int] = (),
        seed: int | None = None,
        **sampling: Any,
    ) -> BatchedGeneration:
        """Begin an answer to a prompt; the options are as for `Generator.generate`.

        `stop` are tokens that end it, besides the program's own.
        """
        if self._closed:
            raise ClosedError("the scheduler was closed")
        self._log.check_open()
        tokens = check_token_ids(prompt, self._vocabulary, self.program.name)
        if not tokens:
            raise InputError("there must be at least one token to continue from")
        settings = SamplerSettings.of(Sampling(**sampling), seed)
        room = self._positions() - len(tokens) + 1
        if room < 1:
            raise InputError(
                f"a prompt of {len(tokens)} tokens is over the {self._positions()} that a slot "
                "holds"
            )
        stops = self._eos | check_stop(stop)
        sequence = BatchSequence(tokens, settings, stops, check_most(max_new_tokens), room)
        if not sequence.ended:
            self._waiting.append(sequence)
            self._wake()
        return BatchedGeneration(sequence, self._leave)

    def close(self) -> None:
        """End all answers, and free the caches once the steps under way have ended."""
        if self._closed:
            return
        self._closed = True
        for sequence in self._sequences():
            sequence.fail(ClosedError("the scheduler was closed"))
        self._waiting.clear()
        self._running = [None] * self.slots
        if self._steps is not None:
            self._steps.close()
            self._steps = None

    async def __aenter__(self) -> Scheduler:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    # Slots

    def _positions(self) -> int:
        """Return the number of tokens that a slot holds."""
        own = session_decoder(self.program, self.method).cache_positions()
        return own if self.max_context is None else min(own, self.max_context)

    def _sequences(self) -> list[BatchSequence]:
        return [*(one for one in self._running if one is not None), *self._waiting]

    def _leave(self, sequence: BatchSequence, why: str) -> None:
        """End an answer because of `why`, and free its slot."""
        sequence.end(why)
        if sequence in self._waiting:
            self._waiting.remove(sequence)
        self._free(sequence)

    def _free(self, sequence: BatchSequence) -> None:
        slot, sequence.slot = sequence.slot, None
        if slot is not None and self._running[slot] is sequence:
            self._running[slot] = None
            self._held[slot] = sequence.context[: sequence.written]

    async def _admit(self) -> None:
        """Give waiting answers free slots, in order, each the slot with most of its prompt."""
        while self._waiting and None in self._running:
            prompt = self._waiting[0].context
            free = [slot for slot, taken in enumerate(self._running) if taken is None]
            known = [_common(self._tokens_in(slot), prompt) for slot in range(self.slots)]
            # Of equally good slots, the slot with the fewest held tokens.
            slot = max(free, key=lambda one: (known[one], -len(self._held[one])))
            source = max(range(self.slots), key=known.__getitem__)
            if known[source] >= known[slot] + SHARED and self._steps is not None:
                self._held[slot] = []
                await self._steps.copy_prefix(source, slot, known[source])
                self._held[slot] = prompt[: known[source]]
                self.stats.shared_tokens += known[source]
                continue  # the answer may have left meanwhile
            sequence = self._waiting.popleft()
            sequence.begin(slot, known[slot])
            self._running[slot] = sequence
            self._held[slot] = []
            self.stats.reused_tokens += known[slot]

    def _tokens_in(self, slot: int) -> list[int]:
        """Return the tokens whose keys and values a slot has, or will have when steps have run."""
        sequence = self._running[slot]
        return self._held[slot] if sequence is None else sequence.context[: sequence.written]

    # Steps

    def _wake(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        """Submit steps and deliver their tokens until there is nothing to do."""
        try:
            while not self._closed:
                await self._keep_up()
                rows, sequences = self._compose()
                if rows:
                    await self._submit(rows, sequences)
                elif self._in_flight:
                    await self._receive()
                else:
                    return
        except Exception as error:  # an error of the device or the program ends all answers
            self._fail(error)

    async def _built(self) -> BatchedSteps:
        async with self._building:
            if self._steps is None:
                embedding = embedding_of(self.program, self.method)
                decoder = session_decoder(self.program, self.method, embedding)
                steps = await decoder.with_slots(self.slots, self._rows, self.max_context)
                if self._closed:
                    steps.close()
                    raise ClosedError("the scheduler was closed")
                self._steps = steps
            return self._steps

    async def _keep_up(self) -> None:
        """Start over if the program was rebuilt, or another LoRA was chosen."""
        self._log.check_open()
        if self._version != self._log.version:
            while self._in_flight:
                await self._receive()
            self._version = self._log.version
            self._held = [[] for _ in range(self.slots)]
            for sequence in self._running:
                if sequence is not None:
                    sequence.restart()
            if self._steps is not None:
                self._steps.close()
                self._steps = None
        await self._admit()

    def _compose(self) -> tuple[list[BatchRow], list[BatchSequence]]:
        """Return the rows of the next step, and the sequences that wait for a token of it.

        Answers that go on come first; prompts share the remaining rows, the oldest prompts first.
        """
        if len(self._in_flight) >= IN_FLIGHT:
            return [], []
        rows, sequences = list[BatchRow](), list[BatchSequence]()
        going = [one for one in self._running if one is not None and one.wanted]
        for sequence in sorted(going, key=lambda one: one.wanted > 1):
            wanted = sequence.wanted
            taken = sequence.take_rows(self._rows - len(rows))
            rows += taken
            if taken and taken[-1].settings is not None:
                sequences.append(sequence)
            self.stats.decode_tokens += wanted == 1
            self.stats.prefill_tokens += len(taken) if wanted > 1 else 0
        return rows, sequences

    async def _submit(self, rows: list[BatchRow], sequences: list[BatchSequence]) -> None:
        steps = await self._built()
        tokens = await steps.submit(rows)
        self.stats.steps += 1
        self._in_flight.append(_Step(tokens, sequences))

    async def _receive(self) -> None:
        """Wait for the oldest step, and deliver its tokens."""
        step = self._in_flight[0]
        await asyncio.wait([step.tokens])
        self._in_flight.popleft()
        for sequence, token in zip(step.sequences, step.tokens.result(), strict=True):
            sequence.deliver(token)
            if sequence.ended:
                self._free(sequence)

    def _fail(self, error: Exception) -> None:
        """End all answers with an error; later answers begin with new slots."""
        sequences, self._running = self._sequences(), [None] * self.slots
        self._waiting.clear()
        self._in_flight.clear()
        self._held = [[] for _ in range(self.slots)]
        for sequence in sequences:
            sequence.fail(error)
        if self._steps is not None:
            self._steps.close()
            self._steps = None


def _common(held: Sequence[int], prompt: Sequence[int]) -> int:
    """Return the number of a prompt's tokens that a slot holds; the last token does not count.

    The last token is always computed, for its logits.
    """
    pairs = zip(held, prompt[:-1], strict=False)
    differing = next((at for at, (a, b) in enumerate(pairs) if a != b), None)
    return min(len(held), len(prompt) - 1) if differing is None else differing

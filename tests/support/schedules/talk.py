"""Conversations in schedules: what a Generator is asked, and whether it answers as it must.

Every token is what NumPy says for the context as it is known here; the Generator's context is that
one after each token, each error and each cancel; and errors are those that something explains.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from support.graphs.small_llm import logits_of
from support.schedules.generate import REHEARSALS, Call, Recover, Talk
from support.schedules.judge import Event, History
from webpte.errors import ContextError, InputError
from webpte.llm import Generation, Generator
from webpte.runtime.decode.sampling import SamplerSettings, Sampling
from webpte.runtime.program import Program


@dataclass(eq=False)
class _Answer:
    """One answer, and what is left of it. `prompt` is what the context does not have yet."""

    generation: Generation
    choice: SamplerSettings
    stop: tuple[int, ...]
    left: int
    whole: bool
    prompt: list[int]
    begun: int  # when, by the clock of the schedule
    started: bool = False  # whether it has come to a token


class Conversation:
    """One Generator. `tick` is the clock of the schedule."""

    def __init__(self, program: Program, history: History, tick: Callable[[], int]) -> None:
        self._generator = Generator(program)
        self._limit = self._generator.max_context or 0
        self._history = history
        self._tick = tick
        self._context: list[int] = []
        self._since = 0  # uses of the cache by others that ended before do not matter
        self._latest: _Answer | None = None
        self._current: _Answer | None = None  # the one that may go on
        self._busy: Event | None = None

    async def run(self, event: Event, step: Talk) -> list[int]:
        """What it says; only so much as it is asked for."""
        others, self._busy = self._busy, self._busy or event
        answer = self._latest if step.how == "more" else None
        fresh, before = self._generator.position == 0, list(self._context)
        try:
            if step.how == "reset":
                return self._reset()
            if step.how == "prefill":
                return await self._prefill(event, step)
            if answer is None:
                answer = self._begin(step, event, others is None)
            return await self._take(event, answer, step.take)
        except ContextError as error:
            event.explained = self._explains(event, answer, str(error), others)
            raise
        except InputError as error:
            event.explained = self._refuses(step, answer, before, str(error))
            raise
        finally:
            if others is None:
                self._busy = None
                self._check_context(event, answer)
                if fresh and self._generator.position:
                    self._since = max(self._since, event.started)

    def _reset(self) -> list[int]:
        self._generator.reset()
        self._context, self._current, self._since = [], None, self._tick()
        return []

    async def _prefill(self, event: Event, step: Talk) -> list[int]:
        choice = _choice(step)
        token = await self._generator.prefill(step.tokens, choice)
        self._context += step.tokens
        self._current = None
        self._check_token(event, token, self._expected(choice))
        return [token]

    def _begin(self, step: Talk, event: Event, is_idle: bool) -> _Answer:
        whole = step.how != "continue"
        kept = self._context[: step.kept] if whole else []
        prompt = [*kept, *step.tokens]
        ask = self._generator.generate if whole else self._generator.continue_
        generation = ask(
            prompt,
            step.most,
            temperature=0.0 if step.seed is None else 1.0,
            repetition_penalty=step.penalty,
            seed=step.seed,
            stop=step.stop,
            steps_ahead=step.ahead,
        )
        answer = _Answer(
            generation, _choice(step), step.stop, step.most, whole, prompt, event.started
        )
        if is_idle:
            self._latest = self._current = answer
        return answer

    async def _take(self, event: Event, answer: _Answer, count: int) -> list[int]:
        found: list[int] = []
        for _ in range(count):
            try:
                token = await anext(answer.generation)
            except StopAsyncIteration:
                self._ended(event, answer)
                break
            self._accept(answer)
            self._check_token(event, token, self._expected(answer.choice))
            if token in answer.stop:
                self._complain(event, f"hands out {token}, which is to end it")
            self._context.append(token)
            answer.left -= 1
            found.append(token)
            self._check_same(event)
        return found

    def _accept(self, answer: _Answer) -> None:
        """Its prompt is in the context from now on."""
        if not answer.started:
            self._context = [*([] if answer.whole else self._context), *answer.prompt]
            self._since = max(self._since, answer.begun if answer.whole else 0)
        answer.started, answer.prompt = True, []

    def _ended(self, event: Event, answer: _Answer) -> None:
        """It needs a reason: enough tokens, a full context, or a token that ends it."""
        if answer.left <= 0:
            self._accept(answer)  # without a token, but the prompt is a part of the context
        elif answer.started and len(self._context) > self._limit:
            answer.left = 0
        else:
            self._accept(answer)
            expected = self._expected(answer.choice)
            if expected not in answer.stop:
                self._complain(event, f"ends where {expected} should come")
            self._context.append(expected)
            answer.left = 0

    # What is right

    def _expected(self, choice: SamplerSettings) -> int:
        return choice.on_host(logits_of(self._context), self._context).token

    def _check_token(self, event: Event, token: int, expected: int) -> None:
        if token != expected:
            context = self._context
            self._complain(event, f"{token} follows {context}, but NumPy says {expected}")

    def _check_same(self, event: Event) -> None:
        if self._generator.context != tuple(self._context):
            have = list(self._generator.context)
            self._complain(event, f"the context is {have}, and should be {self._context}")

    def _check_context(self, event: Event, answer: _Answer | None) -> None:
        """After an event, however it went.

        A whole conversation that has begun, but not come to a token, has left of the context
        what both begin with, or nothing.
        """
        found = list(self._generator.context)
        if answer is not None and answer.whole and not answer.started and found != self._context:
            count = len(found)
            if self._context[:count] == found == answer.prompt[:count] and count:
                self._context = found
            elif not found:
                self._context = []
        self._check_same(event)

    def _complain(self, event: Event, what: str) -> None:
        self._history.problems.append(f"{event}: {what}")

    def _explains(
        self, event: Event, answer: _Answer | None, message: str, others: Event | None
    ) -> bool:
        """Whether a ContextError is right."""
        if "one answer at a time" in message:
            return others is not None or (answer is not None and answer is not self._current)
        since = self._since
        if answer is not None and answer.whole:
            since = max(since, answer.begun)
        return any(
            self._is_foreign(other, event) and other.ended > since for other in self._history.events
        )

    def _refuses(self, step: Talk, answer: _Answer | None, before: list[int], message: str) -> bool:
        """Whether an InputError is right."""
        prompt = list(step.tokens) if answer is None else answer.prompt
        whole = answer is not None and answer.whole and not answer.started
        if "at least one token" in message:
            return not prompt and (whole or not self._generator.pending)
        return len(prompt) + (0 if whole else len(before)) > self._limit

    def _is_foreign(self, other: Event, event: Event) -> bool:
        step, mine = other.step, event.step
        assert isinstance(mine, Talk)
        if other.program != event.program:
            return False
        if isinstance(step, Talk):
            return step.generator != mine.generator and step.how != "reset"
        used = isinstance(step, Call) and step.how not in (*REHEARSALS, "again")
        return used or isinstance(step, Recover)


def _choice(step: Talk) -> SamplerSettings:
    temperature = 0.0 if step.seed is None else 1.0
    return SamplerSettings.of(Sampling(temperature, repetition_penalty=step.penalty), step.seed)

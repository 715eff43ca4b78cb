"""Conversations in schedules: requests to a Generator, and checks of its answers.

Every token must be NumPy's for the context that is tracked here; the Generator's context must equal
the same after each token, error and cancellation; and errors must have a cause.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from support.graphs.small_llm import logits_of
from support.schedules.check_history import Event, History
from support.schedules.generate import REHEARSALS, Call, Recover, Talk
from webpte.errors import ContextError, InputError
from webpte.llm import Generation, Generator
from webpte.llm.decode.sampling import SamplerSettings, Sampling
from webpte.program import Program


@dataclass(eq=False)
class _Answer:
    """An answer in progress. `prompt` is the part that is not in the context yet."""

    generation: Generation
    choice: SamplerSettings
    stop: tuple[int, ...]
    left: int
    whole: bool
    prompt: list[int]
    begun: int  # time by the schedule's clock
    started: bool = False  # whether it has given a token


class Conversation:
    """A Generator and its expected context. `tick` is the clock of the schedule."""

    def __init__(self, program: Program, history: History, tick: Callable[[], int]) -> None:
        self._generator = Generator(program)
        self._limit = self._generator.max_context or 0
        self._history = history
        self._tick = tick
        self._context: list[int] = []
        self._since = 0  # uses of the cache by others that ended before this do not matter
        self._latest: _Answer | None = None
        self._current: _Answer | None = None  # the answer that may continue
        self._busy: Event | None = None

    async def run(self, event: Event, step: Talk) -> list[int]:
        """Carry out a request, and return the tokens that were read."""
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
        token = await self._generator.prefill(step.tokens, choice.sampling, step.seed)
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
        """Move the answer's prompt into the context."""
        if not answer.started:
            self._context = [*([] if answer.whole else self._context), *answer.prompt]
            self._since = max(self._since, answer.begun if answer.whole else 0)
        answer.started, answer.prompt = True, []

    def _ended(self, event: Event, answer: _Answer) -> None:
        """Check the reason of an end: enough tokens, a full context, or an end token."""
        if answer.left <= 0:
            self._accept(answer)  # even without a token, the prompt is in the context
        elif answer.started and len(self._context) > self._limit:
            answer.left = 0
        else:
            self._accept(answer)
            expected = self._expected(answer.choice)
            if expected not in answer.stop:
                self._complain(event, f"ends where {expected} should come")
            self._context.append(expected)
            answer.left = 0

    # Checks

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
        """Check the context after an event, for any outcome.

        A new conversation that has not given a token yet may have left the common prefix of both
        contexts, or nothing.
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
        """Tell whether a ContextError is right."""
        if "one answer at a time" in message:
            return others is not None or (answer is not None and answer is not self._current)
        since = self._since
        if answer is not None and answer.whole:
            since = max(since, answer.begun)
        return any(
            self._is_foreign(other, event) and other.ended > since for other in self._history.events
        )

    def _refuses(self, step: Talk, answer: _Answer | None, before: list[int], message: str) -> bool:
        """Tell whether an InputError is right."""
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

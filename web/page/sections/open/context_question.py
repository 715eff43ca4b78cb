"""The question how long a context may be, where a language model needs more memory than there is.

The forecast comes before weights are read. The opening waits for the answer; cancelling it ends
the question, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from page.browser import Message, Source
from page.core.state import AppState
from page.sections.open.context_view import context_view
from webpte import MethodInfo, ScalarInfo
from webpte.errors import InputError
from webpte.inspection.report import PHONE_BUDGET, MemoryForecast

SHORTEST = 32  # tokens: a shorter conversation is of no use
MOST_CHOICES = 4  # each half as long as the choice before
_LENGTHS = ("get_max_context_len", "get_max_seq_len")


class TooLargeError(Exception):
    """The program does not fit, and a shorter context may help."""

    def __init__(self, forecast: MemoryForecast) -> None:
        super().__init__(str(forecast))
        self.forecast = forecast


class ContextQuestion:
    def __init__(self, state: AppState) -> None:
        self._state = state
        self._answer: asyncio.Future[int] | None = None
        self._forced = False

    def force(self) -> None:
        """Ask at the next opening in any case: without a question it has run out of memory."""
        self._forced = True

    def told(self, forecast: MemoryForecast) -> MemoryForecast:
        """Return a forecast with the memory that this device may give."""
        return replace(forecast, budget=PHONE_BUDGET if self._state.narrow else None)

    def check(self, told: MemoryForecast, methods: Mapping[str, MethodInfo]) -> None:
        """Raise TooLargeError if the program does not fit and has a context to shorten."""
        forced, self._forced = self._forced, False
        if (forced or not told.fits) and shorter_contexts(methods, told):
            raise TooLargeError(told)

    async def can_shorten(self, source: Source, methods: Mapping[str, MethodInfo]) -> bool:
        """Tell whether the program's context can be made shorter: not every export's can."""
        device, length = self._state.adapter or "numpy", longest_context(methods) // 2
        try:
            await self._state.engine.forecast(
                source.data, data=source.extra, device=device, max_context=length
            )
        except InputError:
            return False
        return True

    async def ask(self, name: str, told: MemoryForecast, methods: Mapping[str, MethodInfo]) -> int:
        """Show the question, and return the chosen number of tokens: the program's own, too."""
        longest = longest_context(methods)
        choices = {longest: told.total, **shorter_contexts(methods, told)}
        self._answer = asyncio.get_running_loop().create_future()
        shown = context_view(name, told, choices, _proposed(choices, told))
        self._state.show(arriving=shown, stages="")
        self._state.browser.show(reveal="progress")
        self._state.tell(f"{name} may need too much memory: choose a context", "bad")
        try:
            return await self._answer
        finally:
            self._answer = None

    def answer(self, message: Message) -> None:
        """Take the answer; a late answer does nothing."""
        if self._answer is not None and not self._answer.done():
            self._state.show(arriving="")
            self._answer.set_result(int(message["fields"]["context"]))


def longest_context(methods: Mapping[str, MethodInfo]) -> int:
    """Return the tokens of a language model's context; 0 if the program does not say."""
    for name in _LENGTHS:
        info = methods.get(name)
        if info is not None and info.is_constant and len(info.outputs) == 1:
            (length,) = info.outputs
            if isinstance(length, ScalarInfo) and isinstance(length.value, int):
                return length.value
    return 0


def shorter_contexts(methods: Mapping[str, MethodInfo], told: MemoryForecast) -> dict[int, int]:
    """Return shorter contexts with the bytes that the program then needs: caches shrink with the
    context, all else keeps its size."""
    longest, found = longest_context(methods), dict[int, int]()
    length = longest // 2
    while told.state and length >= SHORTEST and len(found) < MOST_CHOICES:
        found[length] = told.total - told.state + told.state * length // longest
        length //= 2
    return found


def _proposed(choices: Mapping[int, int], told: MemoryForecast) -> int:
    """Return the longest context that fits, but not the program's own; else the shortest."""
    shorter = list(choices)[1:]
    budget = told.budget
    fits = [one for one in shorter if budget and choices[one] + told.staging <= budget]
    return max(fits, default=min(shorter) if budget else max(shorter))

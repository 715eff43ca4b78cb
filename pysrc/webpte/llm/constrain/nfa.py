"""Expressions as automata over bytes: first an NFA with empty moves, then a DFA.

Patterns and schemas come from users, and some need more states than there is memory for. So all
work is counted, ends with an InputError at a limit, and lets the event loop run in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from time import perf_counter

from webpte.errors import InputError
from webpte.llm.constrain.characters import END, Spelling
from webpte.llm.constrain.expression import (
    Alternatives,
    Chars,
    Concatenation,
    EscapedChar,
    Expression,
    Intersection,
    Members,
    Repeated,
    Text,
)

Edge = tuple[int, int, int]  # lowest byte, highest byte, next state

STATES = 30_000  # per automaton
STEPS = 1_000_000  # some microseconds each
DEPTH = 250  # nested levels of parts
SLICE = 0.02  # seconds between two turns of the event loop

_ADVICE = (
    "fewer or smaller repetitions ({m,n}, minLength, maxLength, minItems, maxItems), fewer "
    "alternatives that begin alike, or classes of fewer characters ((?a) makes \\w, \\d and \\s "
    "those of ASCII) need less"
)


class WorkBudget:
    """Counts the steps of a compilation, and lets the event loop run in between."""

    def __init__(self) -> None:
        self._steps = 0
        self._since = perf_counter()

    async def step(self, count: int = 1) -> None:
        self._steps += count
        if self._steps > STEPS:
            raise InputError(f"this takes more than {STEPS:,} steps to prepare: {_ADVICE}")
        if perf_counter() - self._since > SLICE:
            await asyncio.sleep(0)
            self._since = perf_counter()


@dataclass(frozen=True)
class Machine:
    """A deterministic automaton. It starts in state 0, and all states lead to an accepting state;
    without states the machine matches nothing.
    """

    edges: list[list[Edge]]  # per state, sorted and disjoint
    accepts: list[bool]


async def machine_of(expression: Expression, work: WorkBudget | None = None) -> Machine:
    """Build the automaton; raise InputError if it is too large."""
    work = work or WorkBudget()
    net = _Nfa(work)
    end = net.state()
    start = await net.before(expression, end)
    return await _SubsetConstruction(net, start, end, work).machine()


class _Nfa:
    """A nondeterministic automaton: states with disjoint edges, and free moves, without a byte."""

    def __init__(self, work: WorkBudget) -> None:
        self.edges: list[Sequence[Edge]] = []
        self.free: list[Sequence[int]] = []
        self._work = work
        self._depth = 0

    def state(self, edges: Sequence[Edge] = (), free: Sequence[int] = ()) -> int:
        if len(self.edges) >= 4 * STATES:
            raise InputError(f"this has more than {4 * STATES:,} parts: {_ADVICE}")
        self.edges.append(edges)
        self.free.append(free)
        return len(self.edges) - 1

    async def before(self, part: Expression, following: int) -> int:
        """Add states that match a part and lead to `following`; return the first state."""
        await self._work.step()
        self._depth += 1
        if self._depth > DEPTH:
            raise InputError(f"this has parts in parts, more than {DEPTH} deep: make it flatter")
        try:
            return await self._before(part, following)
        finally:
            self._depth -= 1

    async def _before(self, part: Expression, following: int) -> int:
        match part:
            case Chars(ranges):
                return await self._spelled(Spelling.of(ranges), following)
            case EscapedChar(spelling):
                return await self._spelled(spelling, following)
            case Text(data):
                return self._text(data, following)
            case Concatenation(parts):
                for one in reversed(parts):
                    following = await self.before(one, following)
                return following
            case Alternatives(parts):
                return self.state(free=[await self.before(one, following) for one in parts])
            case Repeated():
                return await self._repeated(part, following)
            case Members(members, separator):
                return await self._members(members, separator, following)
            case Intersection():
                return await self._intersection(part, following)

    def _text(self, data: bytes, following: int) -> int:
        for byte in reversed(data):
            following = self.state([(byte, byte, following)])
        return following

    async def _spelled(self, spelling: Spelling, following: int) -> int:
        base, nodes = len(self.edges), spelling.nodes
        for node in nodes:
            self.state([(a, b, following if to == END else base + to) for a, b, to in node])
        await self._work.step(len(nodes))
        return base + len(nodes) - 1

    async def _repeated(self, part: Repeated, following: int) -> int:
        """Add a state after each repetition, with a move to the next and maybe to the end."""
        least, most, one = part.least, part.most, part.part
        if most == 0:
            return following
        if most is None:
            after = self.state()
            start = await self.before(one, after)
            self.free[after] = [self._text(part.separator, start), following]
            unrolled = range(least - 1, 0, -1)
        else:
            start = await self.before(one, following)
            unrolled = range(most - 1, 0, -1)
        for count in unrolled:  # repetitions before this state
            ends = [following] if count >= least else []
            after = self.state(free=[self._text(part.separator, start), *ends])
            start = await self.before(one, after)
        return start if least else self.state(free=[start, following])

    async def _members(
        self, members: Sequence[tuple[Expression, bool]], separator: bytes, following: int
    ) -> int:
        """Add two states between members: where a separator is due, and where it is not."""
        none = some = following
        for one, required in reversed(members):
            start = await self.before(one, some)
            skip = [] if required else [some]
            skip_first = [] if required else [none]
            some = self.state(free=[self._text(separator, start), *skip])
            none = self.state(free=[start, *skip_first])
        return none

    async def _intersection(self, part: Intersection, following: int) -> int:
        """Add the product of two automata; None stands for the second automaton's dead state."""
        one = await machine_of(part.one, self._work)
        other = await machine_of(part.other, self._work)
        if not one.edges:
            return self.state()
        numbers: dict[tuple[int, int | None], int] = {}

        def number(a: int, b: int | None) -> int:
            if (a, b) not in numbers:
                accepted = b is not None and other.accepts[b]
                ends = one.accepts[a] and accepted is not part.negated
                numbers[a, b] = self.state(free=[following] if ends else [])
                waiting.append((a, b))
            return numbers[a, b]

        waiting: list[tuple[int, int | None]] = []
        start = number(0, 0 if other.edges else None)
        for a, b in waiting:
            edges: list[Edge] = []
            for low, high, to in one.edges[a]:
                for first, last, target in _cut(other.edges[b] if b is not None else [], low, high):
                    if target is not None or part.negated:
                        edges.append((first, last, number(to, target)))
            self.edges[numbers[a, b]] = edges
            await self._work.step(1 + len(edges))
        return start


def _cut(edges: Sequence[Edge], low: int, high: int) -> Iterable[tuple[int, int, int | None]]:
    """Split a range of bytes by the edges that take them; the target is None without an edge."""
    for first, last, target in edges:
        if last < low or first > high:
            continue
        if low < first:
            yield low, first - 1, None
        yield max(low, first), min(high, last), target
        low = last + 1
    if low <= high:
        yield low, high, None


class _SubsetConstruction:
    """The subset construction: a state is a set of NFA states that the same bytes lead to."""

    def __init__(self, net: _Nfa, start: int, end: int, work: WorkBudget) -> None:
        self._net = net
        self._start = start
        self._end = end
        self._work = work
        self._alive: set[int] = set()
        self._numbers: dict[frozenset[int], int] = {}
        self._targets: dict[frozenset[int], int] = {}  # by the states before free moves
        self._sets: list[frozenset[int]] = []

    async def machine(self) -> Machine:
        self._alive = await self._find_alive()
        machine = Machine([], [])
        if self._start not in self._alive:
            return machine
        await self._number(frozenset((self._start,)))
        for states in self._sets:
            machine.accepts.append(self._end in states)
            machine.edges.append(await self._ways(states))
        return machine

    async def _find_alive(self) -> set[int]:
        """Return the states that lead to the end; only these states are combined."""
        back: list[list[int]] = [[] for _ in self._net.edges]
        for state, edges in enumerate(self._net.edges):
            for _, _, target in edges:
                back[target].append(state)
            for target in self._net.free[state]:
                back[target].append(state)
            if state % 256 == 0:
                await self._work.step(256)
        alive, waiting = {self._end}, [self._end]
        while waiting:
            new = [state for state in back[waiting.pop()] if state not in alive]
            alive.update(new)
            waiting += new
            await self._work.step()
        return alive

    async def _ways(self, states: frozenset[int]) -> list[Edge]:
        ways: list[Edge] = []
        for low, high, targets in self._combined(states):
            number = self._targets.get(targets)
            if number is None:
                number = await self._number(targets)
            if ways and ways[-1][1] == low - 1 and ways[-1][2] == number:
                ways[-1] = ways[-1][0], high, number
            else:
                ways.append((low, high, number))
        await self._work.step(len(ways) + len(states))
        return ways

    def _combined(self, states: frozenset[int]) -> Iterable[tuple[int, int, frozenset[int]]]:
        edges = [e for state in states for e in self._net.edges[state] if e[2] in self._alive]
        if len(states) == 1:
            return [(low, high, frozenset((target,))) for low, high, target in sorted(edges)]
        changes: dict[int, list[tuple[int, int]]] = {}
        for low, high, target in edges:
            changes.setdefault(low, []).append((target, 1))
            changes.setdefault(high + 1, []).append((target, -1))
        found, active, before = [], dict[int, int](), 0
        for place in sorted(changes):
            if active:
                found.append((before, place - 1, frozenset(active)))
            for target, change in changes[place]:
                count = active.get(target, 0) + change
                if count:
                    active[target] = count
                else:
                    del active[target]
            before = place
        return found

    async def _number(self, targets: frozenset[int]) -> int:
        states = await self._closure(targets)
        if states not in self._numbers:
            if len(self._sets) >= STATES:
                raise InputError(f"this needs an automaton of over {STATES:,} states: {_ADVICE}")
            self._numbers[states] = len(self._sets)
            self._sets.append(states)
        self._targets[targets] = self._numbers[states]
        return self._targets[targets]

    async def _closure(self, states: frozenset[int]) -> frozenset[int]:
        """Follow free moves; return the states reached that have edges or are the end."""
        seen, waiting = set(states), list(states)
        while waiting:
            for other in self._net.free[waiting.pop()]:
                if other in self._alive and other not in seen:
                    seen.add(other)
                    waiting.append(other)
        await self._work.step(len(seen))
        return frozenset(one for one in seen if self._net.edges[one] or one == self._end)

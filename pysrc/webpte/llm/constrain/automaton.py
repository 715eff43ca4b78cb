"""Deterministic automata over bytes, as tables: state and byte to the next state."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from webpte.errors import InputError
from webpte.llm.constrain.expression import Expression
from webpte.llm.constrain.nfa import Machine, WorkBudget, machine_of

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class ByteAutomaton:
    """A table: `table[state, kinds[byte]]` is the next state; the last state is the dead one.

    Bytes that lead to the same states everywhere are of the same kind. From every state but the
    dead one, some bytes lead to an accepting state.
    """

    table: Array  # int32 (states, kinds)
    kinds: Array  # uint8 (256,)
    accepts: Array  # bool (states,)

    start = 0

    @property
    def dead(self) -> int:
        return len(self.table) - 1

    @classmethod
    async def of(cls, expression: Expression, name: str) -> ByteAutomaton:
        """Compile an expression; raise InputError, with its name, if it is too large or empty."""
        try:
            machine = await machine_of(expression)
        except InputError as error:
            raise InputError(f"{name}: {error}") from error
        if not machine.edges:
            raise InputError(f"{name} matches nothing")
        return cls._of_machine(machine)

    @classmethod
    def _of_machine(cls, machine: Machine) -> ByteAutomaton:
        counts = [len(edges) for edges in machine.edges]
        every = [edge for edges in machine.edges for edge in edges]
        low, high, target = np.array(every, np.int64).reshape(-1, 3).T
        cuts = np.zeros(257, np.bool_)
        cuts[low] = cuts[high + 1] = True
        kinds = np.cumsum(cuts[:256]) - int(cuts[0])
        first, last = kinds[low], kinds[high]
        lengths = last - first + 1
        states = np.repeat(np.arange(len(counts)), counts)
        places = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths - first, lengths)
        dead = len(counts)
        table = np.full((dead + 1, int(kinds[-1]) + 1), dead, np.int32)
        table[np.repeat(states, lengths), places] = np.repeat(target, lengths)
        return cls(table, kinds.astype(np.uint8), np.array([*machine.accepts, False]))

    def after(self, state: int, data: bytes) -> int:
        """Return the state that bytes lead to from a state."""
        for kind in self.kinds[np.frombuffer(data, np.uint8)].tolist():
            state = int(self.table[state, kind])
        return state

    async def ended_by(self, usable: Array) -> Array:
        """Return the states from which these bytes lead to an accepting state; bool (states,)."""
        columns = np.zeros(self.table.shape[1], np.bool_)
        columns[self.kinds[usable]] = True
        ways = self.table != self.dead
        if not ways[:, ~columns].any():
            return np.arange(len(self.table)) != self.dead
        work = WorkBudget()
        before: list[list[int]] = [[] for _ in self.table]
        for state, row in enumerate(self.table):
            for target in set(row[columns].tolist()):
                before[target].append(state)
            await work.step()
        before[self.dead] = []
        found = self.accepts.tolist()
        waiting = [state for state, accepts in enumerate(found) if accepts]
        while waiting:
            new = [state for state in before[waiting.pop()] if not found[state]]
            for state in new:
                found[state] = True
            waiting += new
            await work.step()
        return np.array(found, np.bool_)

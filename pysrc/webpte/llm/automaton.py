"""A regular expression as a table: what state each byte leads to, from each state.

`interegular` makes an automaton over characters. Tokens are bytes, and may be parts of characters,
so every character is spelled out in UTF-8 here, with a state between any two of its bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray

_NEXT = range(0x80, 0xC0)  # bytes of a character behind its first
# The second byte may not be any of them after these: shorter forms, surrogates, beyond the last.
_SECOND = {
    0xE0: range(0xA0, 0xC0),
    0xED: range(0x80, 0xA0),
    0xF0: range(0x90, 0xC0),
    0xF4: range(0x80, 0x90),
}
_FIRST = range(0xC2, 0xF5)  # of several


@dataclass(frozen=True, eq=False)
class ByteAutomaton:
    """`table[state, byte]` is the next state; the last state is the dead one, and stays.

    A state is alive if something that is accepted can follow; all others are the dead one.
    """

    table: Array  # int32 (states, 256)
    accepts: Array  # bool (states,)
    start: int

    @property
    def dead(self) -> int:
        return len(self.table) - 1

    @classmethod
    def of(cls, machine: Any, anything_else: object) -> ByteAutomaton:
        """`machine` is an FSM of interegular; `anything_else` its symbol for other characters."""
        return _Speller(machine, anything_else).automaton()


def _length(first: int) -> int:
    """Bytes of a character that begins with this one."""
    return 2 if first < 0xE0 else 3 if first < 0xF0 else 4


class _Speller:
    """Numbers: the machine's states come first, then those between bytes."""

    def __init__(self, machine: Any, anything_else: object) -> None:
        self._machine = machine
        self._states = {state: number for number, state in enumerate(machine.states)}
        self._rows: list[dict[int, int]] = [{} for _ in self._states]
        self._between: dict[object, int] = {}
        symbols = [symbol for symbol in machine.alphabet if symbol is not anything_else]
        self._others = machine.alphabet.get(anything_else)
        self._transitions = {symbol: machine.alphabet[symbol] for symbol in symbols}
        wide = [symbol.encode(errors="ignore") for symbol in symbols if ord(symbol) >= 0x80]
        self._beginnings = {letter[:n] for letter in wide for n in range(1, len(letter))}

    def automaton(self) -> ByteAutomaton:
        for state, number in self._states.items():
            row = self._rows[number]
            for byte in range(0x80):
                self._set(row, byte, self._after(state, chr(byte)))
            for byte in _FIRST:
                self._set(row, byte, self._spelled(state, bytes([byte])))
        dead = len(self._rows)
        table = np.full((dead + 1, 256), dead, np.int32)
        for number, row in enumerate(self._rows):
            table[number, list(row.keys())] = list(row.values())
        accepts = np.zeros(dead + 1, np.bool_)
        accepts[[self._states[state] for state in self._machine.finals]] = True
        return ByteAutomaton(
            _without_dead_ends(table, accepts), accepts, self._states[self._machine.initial]
        )

    @staticmethod
    def _set(row: dict[int, int], byte: int, target: int | None) -> None:
        if target is not None:
            row[byte] = target

    def _after(self, state: object, character: str) -> int | None:
        targets: Mapping[Any, Any] = self._machine.map.get(state, {})
        target = targets.get(self._transitions.get(character, self._others))
        return None if target is None else self._states[target]

    def _spelled(self, state: object, begun: bytes) -> int | None:
        """Where the first bytes of a character lead from a state."""
        missing = _length(begun[0]) - len(begun)
        if not missing:
            return self._after(state, begun.decode())
        if begun not in self._beginnings:  # whatever it becomes, it is some other character
            target = self._machine.map.get(state, {}).get(self._others)
            if target is None:
                return None
            places = _SECOND.get(begun[0], _NEXT) if len(begun) == 1 else _NEXT
            return self._any_of(self._states[target], missing, places)
        if (state, begun) not in self._between:
            row = self._new((state, begun))
            for byte in _SECOND.get(begun[0], _NEXT) if len(begun) == 1 else _NEXT:
                self._set(row, byte, self._spelled(state, begun + bytes([byte])))
        return self._between[state, begun]

    def _any_of(self, target: int, missing: int, places: range = _NEXT) -> int:
        """The state from which so many more bytes lead to a target, whichever they are."""
        if not missing:
            return target
        key = (target, missing, places)
        if key not in self._between:
            row = self._new(key)
            for byte in places:
                row[byte] = self._any_of(target, missing - 1)
        return self._between[key]

    def _new(self, key: object) -> dict[int, int]:
        self._between[key] = len(self._rows)
        self._rows.append({})
        return self._rows[-1]


def _without_dead_ends(table: Array, accepts: Array) -> Array:
    alive = accepts.copy()
    while True:
        more = alive | alive[table].any(axis=1)
        if np.array_equal(more, alive):
            return np.where(alive[table], table, len(table) - 1).astype(np.int32)
        alive = more

"""Budget of a chat template: how many steps it may take, and how much it may make and look at.

A template is a program that came with a file. There is nothing in a browser that could end it, so
whatever it does is counted before it is done: `sandbox` says where, `costs` how much.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from types import GeneratorType
from typing import Any

from webpte.errors import ChatTemplateError

# Most templates take 600 steps and 500,000 characters for a conversation of 200 messages, those
# that look at all messages for each of them 20,000 and 10 million. All of it takes seconds.
MAX_STEPS = 1 << 21
MAX_SIZE = 1 << 27
# No larger number can be printed (Python takes 4,300 digits).
MAX_BITS = 1 << 14

_NAMESPACE = 1024  # characters; to ask one of Jinja's for anything is slow
_ITEM = 32  # characters that a place in a list counts for, and each thing that is no text


class Budget:
    """Steps and characters that are left to one template until `renew`.

    name  of the template, for messages
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.renew()

    def renew(self) -> None:
        self._steps, self._size = MAX_STEPS, MAX_SIZE

    def step(self, size: int = 0) -> bool:
        """Count one step, and `size` characters. True, so that it can stand in a condition."""
        self._steps -= 1
        self._size -= size
        if self._steps < 0:
            raise self._over(f"takes more than {MAX_STEPS:,} steps")
        if self._size < 0:
            raise self._over_size()
        return True

    def spend(self, size: int) -> None:
        """Count characters that are about to be made or looked at."""
        self._size -= size
        if self._size < 0:
            raise self._over_size()

    def spend_all(self, value: Any) -> None:
        """Count a value with all that is in it: before it is printed, compared or hashed."""
        self.spend(len(value) if type(value) is str else weight(value, self._size))

    def weighed(self, value: Any) -> Any:
        """The value, after `spend_all`."""
        kind = type(value)
        if kind is str:
            self._size -= len(value)
        elif kind is int:
            self._size -= value.bit_length() >> 3
        elif kind is not bool and value is not None:
            self._size -= weight(value, self._size)
        if self._size < 0:
            raise self._over_size()
        return value

    def searched(self, value: Any) -> Any:
        """The value, counted as something in which another is looked for."""
        return value if isinstance(value, dict) else self.weighed(value)

    def made(self, value: Any) -> Any:
        """The value, counted as something new that consists of things counted before."""
        kind = type(value)
        if kind is str:
            self._size -= len(value)
        elif kind is GeneratorType:
            return self._counted(value)
        elif kind is int:
            self.numbers(value.bit_length())
        elif kind is not bool and value is not None:
            self._size -= extent(value)
        if self._size < 0:
            raise self._over_size()
        return value

    def joined(self, *parts: Any) -> Any:
        """`a + b + c`, which mostly are strings."""
        size = 0
        for part in parts:
            if type(part) is not str:
                return self._added(parts)
            size += len(part)
        self.spend(size)
        return "".join(parts)

    def _added(self, parts: tuple[Any, ...]) -> Any:
        total = parts[0]
        for part in parts[1:]:
            self.spend(extent(total) + extent(part))
            total = total + part
        return total

    def numbers(self, *bits: int) -> None:
        """Count an operation on integers whose sizes are given, and refuse those that are huge."""
        if max(bits) > MAX_BITS:
            raise self._over(f"computes with numbers of more than {MAX_BITS:,} bits")
        product = 1
        for size in bits:
            product *= size
        self.spend(product >> 12)

    def _counted(self, items: Iterator[Any]) -> Iterator[Any]:
        for item in items:
            self.step(_ITEM)
            yield item

    def _over_size(self) -> ChatTemplateError:
        return self._over(f"makes or looks at more than {MAX_SIZE:,} characters")

    def _over(self, what: str) -> ChatTemplateError:
        return ChatTemplateError(
            f"{self.name} {what}, so it was stopped: no prompt needs that much. Take another "
            "template (template=...), or fewer and shorter messages"
        )


def extent(value: Any) -> int:
    """Characters of a value, without what lies in it."""
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, list | tuple | dict | range):
        return _ITEM * (1 + len(value))
    return _ITEM


def bits(value: Any) -> int:
    """Size of an integer; 0 for all else."""
    return value.bit_length() if isinstance(value, int) else 0


def weight(value: Any, most: int) -> int:
    """Characters of a value and of all in it, where what is in it twice counts twice.

    Stops where they are more than `most`: a list of lists of lists can stand for any number.
    """
    total, left = 0, [value]
    while left and total <= most:
        item = left.pop()
        kind = type(item)
        if kind is str:
            total += len(item)
        elif kind is int:
            total += _ITEM + (item.bit_length() >> 3)
        elif kind.__name__ == "Namespace":  # Jinja's, which prints what it holds
            total += _NAMESPACE
            left.append(getattr(item, "_Namespace__attrs", None))
        else:
            total += extent(item)
            if total <= most:
                left.extend(item if kind is list or kind is tuple else _inside(item))
    return total


def _inside(item: Any) -> Iterator[Any]:
    if isinstance(item, list | tuple):
        yield from item
    elif isinstance(item, Mapping):
        yield from item.keys()
        yield from item.values()
    elif isinstance(item, KeysView | ValuesView | ItemsView):
        yield from item

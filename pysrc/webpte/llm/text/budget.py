"""Budget of a chat template: the steps it may take, and the characters it may make and read.

A template is a program that came with a file, and a browser cannot interrupt it. So everything it
does is counted before it is done: `sandbox` says where, `costs` how much.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from types import GeneratorType
from typing import Any

from webpte.errors import ChatTemplateError

# Most templates take 600 steps and 500,000 characters for a conversation of 200 messages; templates
# that read all messages for each message take 20,000 and 10 million. A spent budget takes seconds.
MAX_STEPS = 1 << 21
MAX_SIZE = 1 << 27
# No larger number can be printed (Python takes 4,300 digits).
MAX_BITS = 1 << 14

_NAMESPACE = 1024  # charge of a read from one of Jinja's namespaces, which is slow
_ITEM = 32  # charge of an item of a list, and of each value other than a text


class Budget:
    """Steps and characters that a template has left until `renew`.

    name  the template's name, for messages
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.renew()

    def renew(self) -> None:
        self._steps, self._size = MAX_STEPS, MAX_SIZE

    def step(self, size: int = 0) -> bool:
        """Count a step and `size` characters; return True, for use in a condition."""
        self._steps -= 1
        self._size -= size
        if self._steps < 0:
            raise self._over(f"takes more than {MAX_STEPS:,} steps")
        if self._size < 0:
            raise self._over_size()
        return True

    def spend(self, size: int) -> None:
        """Count characters that are about to be made or read."""
        self._size -= size
        if self._size < 0:
            raise self._over_size()

    def spend_all(self, value: Any) -> None:
        """Count a value with everything in it, before it is printed, compared or hashed."""
        self.spend(len(value) if type(value) is str else weight(value, self._size))

    def weighed(self, value: Any) -> Any:
        """Count a value as `spend_all` does, and return it."""
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
        """Count a value that is about to be searched, and return it."""
        return value if isinstance(value, dict) else self.weighed(value)

    def made(self, value: Any) -> Any:
        """Count a new value, whose parts were counted before, and return the value."""
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
        """Return `a + b + c`, counted; mostly they are strings."""
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
        """Count an operation on integers of these sizes in bits, and refuse huge integers."""
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
        return self._over(f"makes or reads more than {MAX_SIZE:,} characters")

    def _over(self, what: str) -> ChatTemplateError:
        return ChatTemplateError(
            f"{self.name} {what}, so it was stopped: no prompt needs that much. Give another "
            "template (template=...), or fewer and shorter messages"
        )


def extent(value: Any) -> int:
    """Return the characters of a value, without the values in it."""
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, list | tuple | dict | range):
        return _ITEM * (1 + len(value))
    return _ITEM


def bits(value: Any) -> int:
    """Return the size of an integer in bits; 0 for other values."""
    return value.bit_length() if isinstance(value, int) else 0


def weight(value: Any, most: int) -> int:
    """Return the total characters in a nested value, with duplicates counted.

    Stops at more than `most`: a list of lists of lists can be of any size.
    """
    total, left = 0, [value]
    while left and total <= most:
        item = left.pop()
        kind = type(item)
        if kind is str:
            total += len(item)
        elif kind is int:
            total += _ITEM + (item.bit_length() >> 3)
        elif kind.__name__ == "Namespace":  # Jinja's, which prints its contents
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

"""Costs of filters, tests, methods of strings and lists, and operators in chat templates.

Most costs are linear in the arguments. The tables list functions with larger results (`center`,
`*`, `replace`), with more work (`unique`, `rfind`), and with less.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from webpte.llm.text.budget import MAX_SIZE, Budget, bits, extent, weight

Arguments: TypeAlias = tuple[Any, ...]
Named: TypeAlias = Mapping[str, Any]
# Counts a call of a function with these arguments, before it is made.
Cost: TypeAlias = Callable[[Budget, Arguments, Named], None]


def _all(budget: Budget, given: Arguments, named: Named) -> None:
    for value in given:
        budget.spend_all(value)
    for value in named.values():
        budget.spend_all(value)


def _surface(budget: Budget, given: Arguments, named: Named) -> None:
    for value in given:
        budget.spend(extent(value))


def _nothing(budget: Budget, given: Arguments, named: Named) -> None:
    """Count nothing: the time does not depend on the arguments."""


def _more(cost: Cost, first: Cost = _all) -> Cost:
    """Return a cost that counts `first`, by default all arguments, and then `cost`."""

    def both(budget: Budget, given: Arguments, named: Named) -> None:
        first(budget, given, named)
        cost(budget, given, named)

    return both


def _number(value: Any) -> int:
    return abs(value) if isinstance(value, int) else 0


def _of(given: Arguments, named: Named, at: int, name: str, otherwise: Any = None) -> Any:
    return given[at] if len(given) > at else named.get(name, otherwise)


def _width(budget: Budget, given: Arguments, named: Named) -> None:
    """Count every number as a width in characters."""
    budget.spend(sum(_number(value) for value in (*given[1:], *named.values())))


def _square(shift: int) -> Cost:
    """Return a cost that grows with the square of the first argument."""

    def cost(budget: Budget, given: Arguments, named: Named) -> None:
        size = extent(given[0]) if given else 0
        budget.spend(size * size >> shift)

    return cost


def _product(budget: Budget, given: Arguments, named: Named) -> None:
    """Charge a search for texts: the length of the text times the total length of the texts."""
    budget.spend(sum(extent(given[0]) * extent(value) >> 4 for value in given[1:]))


def _join(budget: Budget, given: Arguments, named: Named) -> None:
    _spend_between(budget, given[0], _of(given, named, 1, "d", ""))


def _method_join(budget: Budget, given: Arguments, named: Named) -> None:
    _spend_between(budget, given[1] if len(given) > 1 else (), given[0])


def _spend_between(budget: Budget, items: Any, text: Any) -> None:
    budget.spend(extent(text) * (len(items) if hasattr(type(items), "__len__") else 1))


def _added(budget: Budget, given: Arguments, named: Named) -> None:
    """Count a sum of lists: each addition copies all items before."""
    first = given[0] if given else ()
    budget.spend(extent(first) * weight(first, MAX_SIZE) >> 7)


def _replace(budget: Budget, given: Arguments, named: Named) -> None:
    old, new = _of(given, named, 1, "old"), _of(given, named, 2, "new")
    if all(isinstance(value, str) for value in (given[0], old, new)):
        budget.spend(given[0].count(old) * len(new))
    else:  # the filter converts to text, and bytes have the method, too
        budget.spend(extent(given[0]) * extent(new))


def _indent(budget: Budget, given: Arguments, named: Named) -> None:
    width = _of(given, named, 1, "width", 4)
    lines = len(given[0].splitlines()) + 1 if isinstance(given[0], str) else 1
    budget.spend(lines * (len(width) if isinstance(width, str) else _number(width)))


def _wrapped(budget: Budget, given: Arguments, named: Named) -> None:
    _square(6)(budget, given, named)
    budget.spend(extent(given[0]) * extent(_of(given, named, 3, "wrapstring", "\n")))


def _tabs(budget: Budget, given: Arguments, named: Named) -> None:
    budget.spend(extent(given[0]) * _number(_of(given, named, 1, "tabsize", 8)))


def _translated(budget: Budget, given: Arguments, named: Named) -> None:
    table = given[1] if len(given) > 1 else {}
    longest = max(map(extent, table.values()), default=0) if isinstance(table, dict) else 1
    budget.spend(extent(given[0]) * longest)


def _rounded(budget: Budget, given: Arguments, named: Named) -> None:
    digits = _of(given, named, 1, "precision", 0)
    budget.numbers(*map(bits, given), 4 * _number(digits))


def _integers(budget: Budget, given: Arguments, named: Named) -> None:
    budget.numbers(*map(bits, given))


# A place, and the end of a place's key: keys hold parentheses, also without an end.
_PLACE = re.compile(r"([%)])[-#0 +]*+(\*|\d*+)(?:\.(\*|\d*+))?")
_DIGITS = re.compile(r"\d+")


def spend_widths(budget: Budget, spec: str) -> None:
    """Count the numbers in a format such as `>30.2f`, each as a width."""
    for digits in _DIGITS.findall(spec):
        budget.spend(int(digits[:18]))


def _formatted(budget: Budget, given: Arguments, named: Named) -> None:
    """Count the result of `text % values`, as if every place had all of the values."""
    text, values = given[0], given[1:]
    if isinstance(text, bytes):
        text = text.decode("latin-1")
    if not isinstance(text, str):
        return
    for mark, width, precision in _PLACE.findall(text):
        if mark == ")" and "%(" not in text:
            continue
        for value in (*values, *named.values()):
            if mark == "%":
                budget.spend_all(value)
            if "*" in (width, precision):
                numbers = value if isinstance(value, tuple | list) else (value,)
                budget.spend(sum(map(_number, numbers)))
        spend_widths(budget, f"{width} {precision}")


FILTERS: dict[str, Cost] = {
    **dict.fromkeys(("length", "count", "first", "last", "default", "d", "items"), _nothing),
    **dict.fromkeys(("map", "select", "reject", "selectattr", "rejectattr"), _surface),
    **dict.fromkeys(("list", "reverse"), _surface),
    **dict.fromkeys(("batch", "slice"), _more(_width, _surface)),
    **dict.fromkeys(("unique", "groupby"), _more(_square(10))),
    "sum": _more(_added),
    **dict.fromkeys(("striptags", "urlize", "xmlattr", "pprint"), _more(_square(6))),
    **dict.fromkeys(("trim", "truncate"), _more(_product)),
    "center": _more(_width),
    "join": _more(_join),
    "replace": _more(_replace),
    "indent": _more(_indent),
    "wordwrap": _more(_wrapped),
    "format": _more(_formatted),
    "round": _more(_rounded),
}
# Jinja's other tests look at a type only.
TESTS: dict[str, Cost] = {
    **dict.fromkeys(("lower", "upper", "in"), _all),
    **dict.fromkeys(("==", "eq", "equalto", "!=", "ne"), _all),
    **dict.fromkeys((">", "gt", "greaterthan", ">=", "ge"), _all),
    **dict.fromkeys(("<", "lt", "lessthan", "<=", "le"), _all),
    **dict.fromkeys(("divisibleby", "odd", "even"), _more(_integers)),
}
METHODS: dict[str, Cost] = {
    **dict.fromkeys(("get", "items", "keys", "values"), lambda b, g, n: _all(b, g[1:], n)),
    **dict.fromkeys(("center", "ljust", "rjust", "zfill", "to_bytes"), _more(_width)),
    **dict.fromkeys(("strip", "lstrip", "rstrip", "rfind", "rindex", "rsplit"), _more(_product)),
    "rpartition": _more(_product),
    "replace": _more(_replace),
    "expandtabs": _more(_tabs),
    "translate": _more(_translated),
    "fromkeys": _more(lambda b, g, n: _square(10)(b, g[1:], n)),
    # Some encodings insert character by character.
    **dict.fromkeys(("encode", "decode"), _more(_square(8))),
    "join": _more(_method_join),
}
# These read their first argument from end to end, so an iterator can become a list first.
GATHERING = frozenset({"join", "sort", "unique", "sum", "min", "max", "groupby", "dictsort"})


# More than linear in a text without further arguments.
_SLOW = frozenset({"wordwrap", "striptags", "urlize", "xmlattr", "pprint", "encode", "expandtabs"})


def is_linear(name: str) -> bool:
    """Return whether a filter or method of a single text is linear in time and size."""
    return name not in _SLOW


def cost_of_filter(name: str) -> Cost:
    return FILTERS.get(name, _all)


def cost_of_method(name: str) -> Cost:
    """Return the cost of a method of Python's own types; its object is the first argument."""
    return METHODS.get(name, _all)


def cost_of_table(budget: Budget, given: Arguments, named: Named) -> None:
    """Count `dict(...)`: keys can be chosen so that each key is compared with all before."""
    _more(_square(10))(budget, given, named)


OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "**": operator.pow,
    "%": operator.mod,
}


def operate(budget: Budget, name: str, left: Any, right: Any) -> Any:
    """Apply a binary operator if the budget has room for the result."""
    if name == "+":
        return budget.joined(left, right)
    if name == "%" and isinstance(left, str | bytes):
        budget.spend(len(left))
        _formatted(budget, (left, right), {})
    elif name == "*":
        _spend_repeated(budget, left, right)
    elif name == "**" and isinstance(left, int) and isinstance(right, int):
        budget.numbers(bits(left) * abs(right), 1)
    else:
        budget.numbers(bits(left), bits(right))
        if not isinstance(left, int | float):
            _all(budget, (left, right), {})  # tables' keys can be subtracted
    return OPERATORS[name](left, right)


def _spend_repeated(budget: Budget, left: Any, right: Any) -> None:
    for things, times in ((left, right), (right, left)):
        if isinstance(things, str | bytes | list | tuple) and isinstance(times, int):
            budget.spend(extent(things) * max(times, 0))
            return
    budget.numbers(bits(left), bits(right))
    budget.numbers(bits(left) + bits(right), 1)

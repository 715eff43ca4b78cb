"""Numbers between two bounds as an expression: `minimum`, `maximum`, and both without the bound.

A number is compared as text: the number of its digits, then digit by digit. It has no exponent,
which would move its point after the digits are written.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from webpte.errors import InputError
from webpte.llm.constrain.expression import Expression, Intersection
from webpte.llm.constrain.regex import expression_of

BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_DIGITS, _PLACES = 19, 18  # before the point, and after it
_WHOLE = rf"-?(0|[1-9][0-9]{{0,{_DIGITS - 1}}})"
_NUMBER = rf"{_WHOLE}(\.[0-9]{{1,{_PLACES}}})?"
_REST = r"(\.[0-9]+)?"


def number_between(schema: Mapping[str, Any], is_whole: bool, at: str) -> Expression:
    """Return the numbers, or whole numbers, that a schema's bounds allow."""
    found = expression_of(_WHOLE if is_whole else _NUMBER)
    for name in BOUNDS:
        if name in schema:
            limit = _limit(schema[name], f"{at}.{name}")
            found = Intersection(found, expression_of(_one_sided(limit, name)))
    return found


def _limit(given: Any, at: str) -> Decimal:
    if isinstance(given, bool) or not isinstance(given, int | float) or not math.isfinite(given):
        raise InputError(f"{at}: a bound is a number, not {given!r}")
    limit = Decimal(str(given))
    exponent = limit.as_tuple().exponent
    if abs(limit) >= 10**_DIGITS or (isinstance(exponent, int) and -exponent > _PLACES):
        raise InputError(
            f"{at}: {given} has over {_DIGITS} digits before the point, or over {_PLACES} after "
            "it: leave it out"
        )
    return limit


def _one_sided(limit: Decimal, bound: str) -> str:
    """Return a pattern that matches the numbers on one side of a limit, of all in `_NUMBER`."""
    excludes = bound.startswith("exclusive")
    # Signs: of allowed numbers far from zero, and of the others.
    far, near = ("", "-") if bound.lower().endswith("minimum") else ("-", "")
    is_beyond = limit > 0 if far == "" else limit < 0
    if is_beyond or (limit == 0 and excludes):
        patterns = [far + one for one in _over(abs(limit), excludes)]
    else:
        patterns = [f"{far}[0-9]+{_REST}", *(near + one for one in _under(abs(limit), excludes))]
    return "|".join(patterns)


def _split(limit: Decimal) -> tuple[str, str]:
    whole, _, fraction = f"{limit:f}".partition(".")
    return whole, fraction.rstrip("0")


def _over(limit: Decimal, excludes: bool) -> list[str]:
    """Return patterns of magnitudes from a limit on."""
    whole, fraction = _split(limit)
    return [
        f"[0-9]{{{len(whole) + 1},}}{_REST}",
        *(
            f"{start}[{int(digit) + 1}-9][0-9]{{{left}}}{_REST}"
            for start, digit, left in _at(whole, "9")
        ),
        *(rf"{whole}\.{start}[{int(digit) + 1}-9][0-9]*" for start, digit, _ in _at(fraction, "9")),
        rf"{whole}\.{fraction}[0-9]*[1-9][0-9]*",
        *([] if excludes else [_equal(whole, fraction)]),
    ]


def _under(limit: Decimal, excludes: bool) -> list[str]:
    """Return patterns of magnitudes up to a limit."""
    whole, fraction = _split(limit)
    return [
        *([f"[0-9]{{1,{len(whole) - 1}}}{_REST}"] if len(whole) > 1 else []),
        *(
            f"{start}[0-{int(digit) - 1}][0-9]{{{left}}}{_REST}"
            for start, digit, left in _at(whole, "0")
        ),
        *(rf"{whole}\.{start}[0-{int(digit) - 1}][0-9]*" for start, digit, _ in _at(fraction, "0")),
        *(_equal(whole, fraction[:count]) for count in range(len(fraction))),
        *([] if excludes else [_equal(whole, fraction)]),
    ]


def _equal(whole: str, fraction: str) -> str:
    return rf"{whole}\.{fraction}0*" if fraction else rf"{whole}(\.0+)?"


def _at(digits: str, last: str) -> list[tuple[str, str, int]]:
    """Return each digit but `last`, with the digits before it and the count of later digits."""
    rows = enumerate(digits)
    return [(digits[:n], one, len(digits) - n - 1) for n, one in rows if one != last]

"""Numbers between bounds: the automaton takes exactly the numbers that compare so."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from random import Random
from typing import Any

import pytest

from support.harness import extent
from support.llm.automata import accepts, of_schema
from webpte.errors import InputError
from webpte.llm.constrain.automaton import ByteAutomaton

COMPARISONS: dict[str, Callable[[Decimal, Decimal], bool]] = {
    "minimum": lambda value, limit: value >= limit,
    "maximum": lambda value, limit: value <= limit,
    "exclusiveMinimum": lambda value, limit: value > limit,
    "exclusiveMaximum": lambda value, limit: value < limit,
}
STEPS = ("0", "1", "-1", "0.1", "-0.1", "0.001", "-0.001")


def fits(text: str, schema: dict[str, Any]) -> bool:
    if schema["type"] == "integer" and "." in text:
        return False
    return all(
        compare(Decimal(text), Decimal(str(schema[name])))
        for name, compare in COMPARISONS.items()
        if name in schema
    )


def random_schema(random: Random) -> dict[str, Any]:
    """Return a schema with a bound or two, near the bounds of other draws."""
    schema: dict[str, Any] = {"type": random.choice(["integer", "number"])}
    for names in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if random.random() < 0.7:
            fraction = round(random.uniform(-12, 12), random.randint(0, 3))
            limits = [random.randint(-120, 120), fraction, 0, 5, -10.0, 99, 100, -0.05]
            schema[random.choice(names)] = random.choice(limits)
    return schema


@pytest.mark.parametrize("seed", extent.some(range(3), *range(3, 12)))
def test_numbers_compare_as_text(seed: int) -> None:
    random = Random(seed)
    for _ in range(8):
        schema = random_schema(random)
        with suppress(InputError):  # nothing is between the bounds
            check(of_schema(schema), schema, random)


def check(automaton: ByteAutomaton, schema: dict[str, Any], random: Random) -> None:
    texts = [str(random.randint(-130, 130)) for _ in range(30)]
    texts += [f"{random.uniform(-13, 13):.{random.randint(1, 4)}f}" for _ in range(30)]
    limits = [Decimal(str(value)) for name, value in schema.items() if name != "type"]
    texts += [f"{limit + Decimal(step):f}" for limit in limits for step in STEPS]
    wrong = [text for text in texts if accepts(automaton, text) is not fits(text, schema)]
    assert not wrong, schema


def test_a_bound_holds_for_a_narrowed_type() -> None:
    bounded = {"type": "integer", "anyOf": [{"type": "number", "minimum": 3}, {"type": "null"}]}
    automaton = of_schema(bounded)
    assert accepts(automaton, "3")
    assert not accepts(automaton, "2")
    assert not accepts(automaton, "3.5")


def test_an_array_without_items_has_any_values() -> None:
    automaton = of_schema({"type": "array"})
    assert accepts(automaton, '[1, "a", {"b": [null]}]')
    assert not accepts(automaton, '{"a": 1}')

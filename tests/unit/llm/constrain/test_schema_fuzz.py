"""Random schemas: they are refused by an InputError, or their automata accept valid JSON only."""

from __future__ import annotations

import json
from math import isfinite

import numpy as np
import pytest

from support.harness import extent
from support.llm.automata import Sampler, of_schema
from support.llm.schemas import Schemas, fits
from webpte.errors import InputError


@pytest.mark.parametrize("seed", range(extent.count(2, 4)))
def test_what_is_accepted_is_of_the_schema(seed: int) -> None:
    rng = np.random.default_rng(seed)
    schemas, accepted = Schemas(rng, 0.0), 0
    for _ in range(200):
        schema = schemas.draw()
        try:
            automaton = of_schema(schema)
        except InputError:
            continue
        accepted += 1
        if len(automaton.table) < 1_500:
            sampler = Sampler(automaton)
            for _ in range(6):
                text = sampler.draw(rng)
                value = json.loads(text, parse_constant=pytest.fail)
                assert fits(value, schema, schema), (schema, text)
                assert not isinstance(value, float) or isfinite(value)
    assert accepted > 50


@pytest.mark.parametrize("seed", range(extent.count(1, 3)))
def test_wrong_schemas_are_refused_with_a_typed_error(seed: int) -> None:
    schemas, refused = Schemas(np.random.default_rng(100 + seed), 0.1), 0
    for _ in range(400):
        schema = schemas.draw()
        try:
            of_schema(schema)
        except InputError:
            refused += 1
    assert 150 < refused < 400

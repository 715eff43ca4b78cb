"""Caches with a slot for each sequence, and attention to them."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

import webpte
from support.cases.live_cases import LiveCase, check_reference, lowered
from support.cases.slots.slot_attention_cases import (
    MIXED,
    SLOT_ATTENTION,
    SLOT_ATTENTION_CASES,
    slot_attention,
)
from support.cases.slots.slot_cache_cases import SLOT_CACHE_CASES, SlotCase
from webpte.errors import GraphError


@pytest.mark.parametrize("case", SLOT_ATTENTION_CASES, ids=str)
def test_attention(case: LiveCase) -> None:
    check_reference(case)


@pytest.mark.parametrize("case", SLOT_CACHE_CASES, ids=str)
def test_cache(case: SlotCase) -> None:
    async def run() -> None:
        program = await webpte.load(case.program(), device="numpy")
        for index in range(len(case.steps)):
            case.check(index, await program.forward(*case.inputs(index)))

    asyncio.run(run())


def test_dispatches_do_not_depend_on_the_number_of_rows() -> None:
    assert len({len(lowered(slot_attention(4, 2, 16, [MIXED[:n]]))) for n in (1, 2, 5)}) == 1


def test_places_must_fit_the_rows() -> None:
    (step,) = slot_attention(4, 2, 16, [MIXED]).steps
    wrong = (*step[:3], step[3][:2], *step[4:])
    with pytest.raises(GraphError, match=r"places int32 \[2, 4\]; expected"):
        lowered(LiveCase(SLOT_ATTENTION, [wrong], lambda q, *_: np.zeros(q.shape), exact=False))

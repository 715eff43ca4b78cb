"""Answers of encoder-decoder models on the native device equal transformers'."""

from __future__ import annotations

import asyncio

import pytest

import webpte
from support.devices.native import need_native
from support.llm.small_seq2seq import FAMILIES, answers_of, program_of
from webpte.llm import Seq2Seq


@pytest.fixture(scope="module", autouse=True)
def _driver() -> None:
    need_native()


@pytest.mark.parametrize("family", FAMILIES)
def test_answers(family: str) -> None:
    async def run() -> None:
        async with await webpte.load(program_of(family), device="native", strict=True) as program:
            model = Seq2Seq(program)
            first = len(model.start) + len(model.forced)
            for answer in answers_of(family):
                expected = [token for token in answer.tokens[first:] if token not in model.eos]
                found = model.generate(answer.source, len(answer.tokens) - first)
                assert [token async for token in found] == expected

    asyncio.run(run())

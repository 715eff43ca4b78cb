"""The NumPy references of the unary family against float64 and `math`."""

from __future__ import annotations

import pytest

import webpte
from support.cases import Case
from support.graphs import wait
from support.unary_cases import UNARY_CASES
from webpte.ops import lookup, registered_names


@pytest.mark.parametrize("case", UNARY_CASES, ids=str)
def test_reference(case: Case) -> None:
    async def run() -> None:
        program = await webpte.load(case.program(), device="numpy")
        (result,) = await program.forward(*case.inputs)
        case.check(result)

    wait(run())


def test_every_op_of_the_family_has_cases() -> None:
    family = {
        name
        for name in registered_names()
        if (op := lookup(name)) and op.lower.__module__ == "webpte.ops.unary"
    }
    assert len(family) >= 29
    assert family == {case.op for case in UNARY_CASES}

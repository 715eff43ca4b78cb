"""Element-wise ops of three tensors: references and refused arguments."""

from __future__ import annotations

import numpy as np

from support.cases.elementwise.ternary_cases import case, clamped, product
from support.cases.elementwise.unary_cases import spread
from support.cases.live_cases import LiveCase, check_reference, dispatch_of, lowered
from webpte.engine.plan.planner import Planner


def test_what_is_absent_is_not_in_the_formula() -> None:
    x, bound = spread((5,), -1, 1), spread((), 0, 1)
    formulas = [
        dict(dispatch_of(case("clamp.Tensor", x, *bounds, expect=clamped)).types)["FORMULA"]
        for bounds in ((bound, None), (None, bound))
    ]
    assert formulas == ["larger_vec4f(x, y)", "smaller_vec4f(x, z)"]


def test_integers_run_on_the_host() -> None:
    x, y, z = (np.arange(5, dtype=np.int32) + i for i in range(3))
    row = LiveCase("aten.addcmul.default", [(x, y, z, 2)], product, exact=False)
    planner: Planner = lowered(row)[0]
    assert any(step.host for step in planner.calls)
    check_reference(row)

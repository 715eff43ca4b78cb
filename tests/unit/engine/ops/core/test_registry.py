"""The table of operators."""

from __future__ import annotations

import numpy as np
import pytest

from support.graphs.graphs import temporary_op
from webpte.engine.ops import lookup, registered_names
from webpte.engine.ops.core import registry


def test_names_are_found_with_and_without_a_namespace() -> None:
    with temporary_op("bump.default", "self: tensor -> tensor"):
        op = lookup("bump.default")
        assert op is not None
        assert lookup("llama.bump.default") is op
        assert "bump.default" in registered_names()
    assert lookup("bump.default") is None
    assert lookup("llama.bump.default") is None


@pytest.mark.parametrize(
    ("full", "bare"), [("_operator.add", "add"), ("aten.sym_size.int", "sym_size.int")]
)
def test_symint_ops_too(full: str, bare: str) -> None:
    assert lookup(full) is lookup(bare) is not None


@pytest.mark.parametrize(
    "name", ["", "relu", "aten.relu", "aten.relu.out", "aten::relu", "nothing"]
)
def test_unknown_names(name: str) -> None:
    assert lookup(name) is None


def test_a_name_is_registered_once() -> None:
    with pytest.raises(ValueError, match=r"aten\.relu\.default is registered twice"):
        registry.register(
            "aten.relu.default",
            "self: tensor -> tensor",
            shape=lambda args: [],
            lower=lambda args: [],
            reference=lambda args: np.zeros(0),
        )
    with pytest.raises(ValueError, match=r"add is registered twice"):
        registry.register_scalar("add", "a: int -> symint", lambda args: 0)


def test_names_are_sorted() -> None:
    assert registered_names() == sorted(registered_names())

"""Branches and loops of torch give PyTorch's results; they need PyTorch and ExecuTorch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("executorch.exir")

from torch._higher_order_ops import scan, while_loop  # noqa: E402
from torch._higher_order_ops.map import map as each  # noqa: E402

from webpte_export import export  # noqa: E402
from webpte_export.report import Report  # noqa: E402


class Model(torch.nn.Module):  # type: ignore[name-defined,misc]
    """A module of a function, with a layer and a large layer."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.layer, self.wide = torch.nn.Linear(4, 4), torch.nn.Linear(4, 5_000_000 // 4)

    def forward(self, *given: Any) -> Any:
        return self.function(self, *given)


def exported(
    folder: Path, function: Callable[..., Any], *inputs: Any, more: Any = (), **options: Any
) -> Report:
    torch.manual_seed(0)
    report = export(Model(function), inputs, folder / "m", more_inputs=more, **options)
    assert report.passed, report.problem
    return report


def kernels(report: Report) -> set[str]:
    return {row.op for row in report.host_ops if row.where == "host"}


def branch(m: Any, x: Any) -> Any:
    def no(x: Any) -> Any:
        return torch.cond(x.max() < 1, lambda x: x * 2, lambda x: m.layer(x) - 1, (x,))

    return torch.cond(x.sum() > 0, lambda x: torch.relu(m.layer(x)), no, (x,))


def test_small_branches_are_both_computed(tmp_path: Path) -> None:
    batch = {0: torch.export.Dim("batch", min=1, max=8)}
    small, large = torch.full((2, 4), -1.0), torch.tensor([[-9.0, 2.0, 0.0, 0.0]])
    report = exported(
        *(tmp_path, branch, torch.ones(3, 4)), more=[(small,), (large,)], dynamic_shapes=((batch,),)
    )
    assert not kernels(report)
    assert report.submissions == 1


def test_a_large_branch_is_jumped_over(tmp_path: Path) -> None:
    def model(m: Any, x: Any) -> Any:
        return torch.cond(x.sum() > 0, lambda x: m.wide(x).amax(-1), lambda x: x.sum(-1), (x,))

    report = exported(tmp_path, model, torch.ones(4, 4), more=[(-torch.ones(4, 4),)])
    assert kernels(report) or report.submissions != 1


def test_branches_return_several_tensors(tmp_path: Path) -> None:
    def model(_m: Any, x: Any) -> Any:
        return torch.cond(
            x.sum() > 0,
            lambda x: (x.argmax(-1), x * 2),
            lambda x: (x.argmin(-1), x - 1),
            (x,),
        )

    exported(tmp_path, model, torch.ones(3, 4), more=[(-torch.eye(3, 4),)])


def rounds(_m: Any, x: Any) -> Any:
    def body(number: Any, y: Any) -> Any:
        return number + 1, torch.sin(y) + number

    return while_loop(lambda number, _: number < 5, body, (torch.tensor(0), x))[1]


def rows(m: Any, x: Any) -> Any:
    def step(state: Any, row: Any) -> Any:
        state = torch.tanh(m.layer(state) + row)
        return state, state * 2

    return scan(step, torch.zeros(4), x, dim=0)


def backwards(m: Any, x: Any) -> Any:
    return scan(lambda s, row: (s * 0.5 + row, s + 1), torch.ones(4), x, dim=0, reverse=True)


@pytest.mark.parametrize("model", [rounds, rows, backwards, lambda m, x: each(m.layer, x)])
def test_short_loops_are_unrolled(model: Callable[..., Any], tmp_path: Path) -> None:
    x = torch.linspace(-1, 1, 24).reshape(6, 4)
    report = exported(tmp_path, model, x, more=[(-x,)])
    assert not kernels(report)


def until(m: Any, x: Any) -> Any:
    """Exchange two of the values in each round, hand one over unchanged, and call a layer."""

    def body(a: Any, b: Any, count: Any, fixed: Any) -> Any:
        return b.clone(), a * 2 + fixed + m.layer(b), count + 1, fixed.clone()

    def going(a: Any, b: Any, *_: Any) -> Any:
        return (a.abs().sum() + b.abs().sum()) < 1000

    a, b, count, _ = while_loop(going, body, (x, x + 1, torch.zeros(1, dtype=torch.int64), x * x))
    return torch.relu(a) + b.mean(), count


def test_a_loop_until_a_value_is_reached(tmp_path: Path) -> None:
    x = torch.tensor([1.0, -2.0, 0.5, 3.0])
    more = [(x * 50,), (x * 1000,), (x * 0.01,)]  # fewer rounds, none, more
    report = exported(tmp_path, until, x, more=more)
    assert "aten::copy_" in kernels(report)


def test_a_loop_inside_a_branch(tmp_path: Path) -> None:
    def doubled(x: Any) -> Any:
        return while_loop(lambda y: y.sum() < 9, lambda y: (y * 2,), (x,))[0]

    def model(_m: Any, x: Any) -> Any:
        return torch.cond(x.sum() > 0, doubled, lambda x: x - 1, (x,)) * 3

    exported(tmp_path, model, torch.ones(3), more=[(-torch.ones(3),), (torch.full((3,), 0.01),)])


def test_a_long_loop_stays_a_loop(tmp_path: Path) -> None:
    """Its two states are exchanged, which a program must not do one after the other."""

    def model(_m: Any, x: Any) -> Any:
        def step(states: Any, row: Any) -> Any:
            a, b = states
            return (b.clone(), a * 0.5 + row), a + b

        return scan(step, (x[0].clone(), x[1].clone()), x, dim=0)

    x = torch.linspace(-1, 1, 2000 * 3).reshape(2000, 3)
    report = exported(tmp_path, model, x, more=[(-x,)])
    assert "aten::copy_" in kernels(report)

"""Calibration: weights on the grid of 4-bit groups, layer after layer, by the inputs of a text.

All but the arguments need PyTorch, and are skipped where it is missing: docs/use/export.md.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from webpte_export.calibrate import calibrate  # noqa: E402
from webpte_export.errors import ExportError  # noqa: E402
from webpte_export.gptq import (  # noqa: E402
    Inputs,
    RoundedWeights,
    relative_error,
    round_to_nearest,
    round_weights,
)

GROUP = 32
NAMES = ("first", "last")


def correlated(tokens: int, width: int) -> Any:
    """Return inputs that are large in few directions, like a language model's."""
    mixed = torch.randn(tokens, width // 4) @ torch.randn(width // 4, width)
    return mixed + 0.3 * torch.randn(tokens, width)


def inputs_of(*batches: Any) -> Inputs:
    found = Inputs.none(batches[0].shape[-1])
    for batch in batches:
        found.add(batch)
    return found


def nearest(weight: Any) -> Any:
    """Round as torchao does: the scale of a group is its largest weight by 7.5."""
    groups = weight.reshape(weight.shape[0], -1, GROUP)
    scales = groups.abs().amax(2, keepdim=True) / 7.5
    return ((groups / scales).round().clamp(-8, 7) * scales).reshape_as(weight)


def check_grid(found: RoundedWeights, weight: Any) -> None:
    assert found.numbers.dtype == torch.int8
    assert found.numbers.shape == weight.shape
    assert found.numbers.min() >= -8
    assert found.numbers.max() <= 7
    assert found.scales.shape == (weight.shape[0], weight.shape[1] // GROUP)
    assert found.scales.isfinite().all()


# One row; fewer tokens than inputs; more columns than a block; neither a multiple of the block.
@pytest.mark.parametrize(
    ("rows", "width", "tokens"), [(7, 96, 211), (1, 32, 5), (13, 288, 97), (5, 160, 1031)]
)
def test_the_error_on_correlated_inputs_is_lower(rows: int, width: int, tokens: int) -> None:
    torch.manual_seed(0)
    weight, x = torch.randn(rows, width) * 0.1, correlated(tokens, width)
    found = round_weights(weight, inputs_of(x[: tokens // 2], x[tokens // 2 :]), GROUP)
    check_grid(found, weight)
    errors = [
        (((weight - other) @ x.T) ** 2).sum().item() for other in (found.weights(), nearest(weight))
    ]
    assert errors[0] < 0.5 * errors[1]
    relative = relative_error(weight, found.weights(), inputs_of(x))
    assert relative == pytest.approx(errors[0] / ((weight @ x.T) ** 2).sum().item(), rel=1e-3)


def test_scales_of_the_least_error() -> None:
    torch.manual_seed(0)
    weight = torch.randn(11, 96) * torch.tensor([0.1, 1.0, 10.0]).repeat_interleave(GROUP)
    found = round_to_nearest(weight, GROUP)
    check_grid(found, weight)
    errors = [((weight - other) ** 2).sum() for other in (found.weights(), nearest(weight))]
    assert errors[0] < 0.9 * errors[1]
    assert (found.scales < 0).any()


def test_other_inputs_of_the_same_kind_gain_as_well() -> None:
    torch.manual_seed(1)
    weight, x = torch.randn(24, 128) * 0.1, correlated(3000, 128)
    found = round_weights(weight, inputs_of(x[:2000]), GROUP).weights()
    errors = [(((weight - other) @ x[2000:].T) ** 2).sum() for other in (found, nearest(weight))]
    assert errors[0] < 0.6 * errors[1]


@pytest.mark.parametrize("dead", [slice(3, 9), slice(32, 64), slice(0, 96)])
def test_inputs_that_are_always_zero_keep_their_weights(dead: slice) -> None:
    torch.manual_seed(0)
    weight, x = torch.randn(5, 96), correlated(200, 96)
    x[:, dead] = 0
    found = round_weights(weight, inputs_of(x), GROUP)
    check_grid(found, weight)
    steps = found.scales.abs().repeat_interleave(GROUP, 1)
    assert ((found.weights() - weight).abs() <= 1.01 * steps)[:, dead].all()


def test_rows_and_groups_of_zeros() -> None:
    weight = torch.randn(4, 64)
    weight[1], weight[2, :32] = 0, 0
    found = round_weights(weight, inputs_of(correlated(90, 64)), GROUP)
    check_grid(found, weight)
    assert not found.weights()[1].any()


class Two(torch.nn.Module):  # type: ignore[name-defined,misc]
    """Layers that fit, and one in between that does not: 32 -> 20 -> 64 -> 8"""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.odd = torch.nn.Linear(32, 20), torch.nn.Linear(20, 64)
        self.last = torch.nn.Linear(64, 8)

    def forward(self, x: Any) -> Any:
        return self.last(torch.relu(self.odd(torch.relu(self.first(x)))))


def runs_of(model: Any, texts: list[Any]) -> list[Callable[[], Any]]:
    return [partial(model, text) for text in texts]


def test_later_layers_see_what_rounded_ones_give() -> None:
    torch.manual_seed(0)
    model, texts = Two(), [torch.randn(1, 50, 32) for _ in range(3)]
    weights = {name: layer.weight.detach().clone() for name, layer in model.named_children()}
    found = calibrate(model, NAMES, runs_of(model, texts), GROUP)
    assert list(found) == ["first", "last"]
    assert torch.equal(model.odd.weight, weights["odd"])
    assert torch.equal(found["last"].weight, weights["last"])
    assert torch.equal(model.first.weight, found["first"].rounded.weights())
    with torch.no_grad():  # the inputs of the last layer, with the first one rounded
        hidden = [torch.relu(model.odd(torch.relu(model.first(text)))) for text in texts]
    expected = round_weights(weights["last"], inputs_of(*hidden), GROUP)
    assert torch.equal(found["last"].rounded.numbers, expected.numbers)
    assert 0 < found["last"].error < 0.05
    assert not any(layer._forward_pre_hooks for layer in model.children())


def test_a_run_that_fails_ends_all() -> None:
    model, ended = Two(), []

    def failing() -> None:
        model.first(torch.ones(1, 32))
        raise ValueError("broken")

    def other() -> None:
        try:
            model(torch.ones(1, 32))
        finally:
            ended.append(True)

    with pytest.raises(ValueError, match="broken"):
        calibrate(model, NAMES, [other, failing, other], GROUP)
    assert ended == [True, True]
    assert not any(layer._forward_pre_hooks for layer in model.children())


def test_inputs_that_are_not_finite() -> None:
    model = Two()
    with pytest.raises(ExportError, match="gives first inputs that are not finite"):
        calibrate(model, NAMES, runs_of(model, [torch.full((1, 32), torch.inf)]), GROUP)


def test_texts_must_take_one_way() -> None:
    model = Two()
    runs = [lambda: model.first(torch.ones(1, 32)), lambda: model.last(torch.ones(1, 64))]
    with pytest.raises(ExportError, match="different ways"):
        calibrate(model, NAMES, runs, GROUP)


def test_numbers_of_a_gguf_file_in_groups_of_4_bits_stay_as_they_are() -> None:
    # Groups of Q4_0: the largest weight of either sign is -8 times the scale.
    torch.manual_seed(3)
    groups = torch.randn(12, 5, GROUP)
    largest = groups.gather(2, groups.abs().argmax(2, keepdim=True))
    scales = (largest / -8).half().float()
    codes = (groups / scales + 8.5).floor().clamp(0, 15)
    weight = ((codes - 8) * scales).reshape(12, 5 * GROUP)
    assert torch.equal(round_to_nearest(weight, GROUP).weights(), weight)

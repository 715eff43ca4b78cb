"""Rounds a linear layer's weights to 4-bit groups with the least change of its results (GPTQ).

Rounding to nearest treats every weight alone. GPTQ uses the layer's inputs x for a calibration
text: a column of weights is rounded, and the remaining columns compensate for the change of the
results, as far as their inputs correlate with the column's.

    H           sum of x xᵀ over the tokens of the text, (width, width)
    error       trace of (W - Q) H (W - Q)ᵀ: squared change of the results, summed over the tokens
    Q           numbers -8 to 7 times the scale of their group, as in `quantize.py`

Scales may be negative: the grid reaches further on its negative side (-8), and the sign decides the
direction.

torchao's GPTQ (torchao.prototype.gptq, 0.18) gives 4 bits with zero points, for CUDA's kernels, and
needs another library; the partitioner takes groups without zero points.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

LOWEST, HIGHEST = -8, 7
_DAMPING = 0.01  # share of H's mean diagonal that is added, for inputs that the text hardly has
_BLOCK = 128  # columns after which the later columns are updated, by a matrix product
_SHRINKS = tuple(1.04 - 0.04 * step for step in range(13))  # scales to try, relative to the largest
_ROUNDS = 2  # rounds of rounding; scales are fitted after each
_RIDGE = 1e-6  # for the systems of scales, relative: a group may be all zeros
_MOST_VALUES = 1 << 24  # per intermediate result, 64 MiB
_CACHED_VALUES = 1 << 16  # per result that is reused many times


class RoundedWeights(NamedTuple):
    """Weights on the grid: numbers (rows, width), int8, and scales (rows, groups), float32."""

    numbers: Tensor
    scales: Tensor

    def weights(self) -> Tensor:
        """Return the weights in floats, (rows, width)."""
        size = self.numbers.shape[1] // self.scales.shape[1]
        return self.numbers.float() * self.scales.repeat_interleave(size, 1)


@dataclass
class Inputs:
    """The sum of x xᵀ over the inputs of a layer, so that the inputs need not be kept."""

    products: Tensor  # (width, width), float64

    @classmethod
    def none(cls, width: int) -> Inputs:
        return cls(torch.zeros(width, width, dtype=torch.float64))

    def add(self, x: Tensor) -> None:
        """Add inputs (..., width)."""
        rows = x.detach().reshape(-1, x.shape[-1]).float()
        self.products += rows.T @ rows


def round_to_nearest(weight: Tensor, group: int) -> RoundedWeights:
    """Round weights (rows, width) one by one, with the scales of the least squared error."""
    weight = weight.detach().float()
    scales = _scales(weight, torch.ones(weight.shape[1]), group)
    return _nearest(weight, scales, group)


def round_weights(weight: Tensor, inputs: Inputs, group: int) -> RoundedWeights:
    """Round weights (rows, width) to groups of 4 bits with the least error on the inputs."""
    weight = weight.detach().float()
    hessian = _damped(inputs.products)
    importance = hessian.diagonal().float()
    # Columns with large inputs first: most columns are left to compensate for them.
    order = torch.argsort(importance, descending=True, stable=True)
    factor = _factor(hessian[order][:, order]).float()
    hessian = hessian.float()
    scales = _scales(weight, importance, group)
    best = _nearest(weight, scales, group)
    least = _squared_results(weight - best.weights(), hessian)
    for _ in range(_ROUNDS):
        numbers = _compensated(weight, scales, factor, order, group)
        scales = _fitted(weight, numbers, scales, hessian)
        found = RoundedWeights(numbers, scales)
        errors = _squared_results(weight - found.weights(), hessian)
        better = (errors < least)[:, None]
        best = RoundedWeights(
            *(torch.where(better, *pair) for pair in zip(found, best, strict=True))
        )
        least = torch.minimum(errors, least)
    return best


def relative_error(weight: Tensor, rounded: Tensor, inputs: Inputs) -> float:
    """Return the squared change of a layer's results, relative to the squared results."""
    weight, hessian = weight.float(), inputs.products.float()
    whole = _squared_results(weight, hessian).sum().item()
    return _squared_results(weight - rounded, hessian).sum().item() / whole if whole > 0 else 0.0


def _squared_results(weight: Tensor, hessian: Tensor) -> Tensor:
    """Return the squared results of each row of weights, summed over the tokens, (rows,)."""
    return ((weight @ hessian) * weight).sum(1)


def _damped(products: Tensor) -> Tensor:
    """Return H with a larger diagonal; an input that is always zero counts as average."""
    hessian = products.clone()
    diagonal = hessian.diagonal()
    alive = diagonal > 0
    mean = diagonal[alive].mean() if bool(alive.any()) else diagonal.new_ones(())
    diagonal += torch.where(alive, _DAMPING * mean, mean)
    return hessian


def _factor(hessian: Tensor) -> Tensor:
    """Return the upper triangular U with H⁻¹ = Uᵀ U."""
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(hessian))
    return torch.linalg.cholesky(inverse, upper=True)


def _scales(weight: Tensor, importance: Tensor, group: int) -> Tensor:
    """Choose the scale of each group, of either sign, by the weighted error of rounding alone."""
    rows = max(1, _CACHED_VALUES // weight.shape[1])
    return torch.cat([_scales_of_rows(part, importance, group) for part in weight.split(rows)])


def _scales_of_rows(weight: Tensor, importance: Tensor, group: int) -> Tensor:
    groups = weight.reshape(weight.shape[0], -1, group)
    importance = importance.reshape(1, -1, group)
    largest = groups.abs().amax(2, keepdim=True).clamp(min=1e-12) / -LOWEST
    best, least = largest, torch.full_like(largest, torch.inf)
    for shrink in _SHRINKS:
        for sign in (1.0, -1.0):
            scale = largest * (shrink * sign)
            back = (groups / scale).round_().clamp_(LOWEST, HIGHEST).mul_(scale)
            error = back.sub_(groups).square_().mul_(importance).sum(2, keepdim=True)
            best = torch.where(error < least, scale, best)
            least = torch.minimum(error, least)
    return best[:, :, 0]


def _nearest(weight: Tensor, scales: Tensor, group: int) -> RoundedWeights:
    wide = scales.repeat_interleave(group, 1)
    return RoundedWeights((weight / wide).round_().clamp_(LOWEST, HIGHEST).to(torch.int8), scales)


def _compensated(
    weight: Tensor, scales: Tensor, factor: Tensor, order: Tensor, group: int
) -> Tensor:
    """Round column by column; later columns compensate for the error. Returns the numbers."""
    columns = weight.T[order].contiguous()  # (width, rows): a column is contiguous
    places = (order // group).tolist()
    by_group = scales.T.contiguous()
    numbers = torch.empty_like(columns, dtype=torch.int8)
    width = columns.shape[0]
    for first in range(0, width, _BLOCK):
        last = min(first + _BLOCK, width)
        errors = torch.empty_like(columns[first:last])
        for at in range(first, last):
            column, scale = columns[at], by_group[places[at]]
            number = (column / scale).round_().clamp_(LOWEST, HIGHEST)
            numbers[at] = number.to(torch.int8)
            error = (column - number * scale) / factor[at, at]
            errors[at - first] = error
            columns[at + 1 : last].addr_(factor[at, at + 1 : last], error, alpha=-1.0)
        columns[last:].addmm_(factor[first:last, last:].T, errors, alpha=-1.0)
    found = torch.empty_like(numbers)
    found[order] = numbers
    return found.T.contiguous()


def _fitted(weight: Tensor, numbers: Tensor, scales: Tensor, hessian: Tensor) -> Tensor:
    """Return the scales with the least error for given numbers: a linear system for each row.

    Groups of zeros keep their scales.
    """
    rows, width = weight.shape
    count = scales.shape[1]
    group = width // count
    step = max(1, _MOST_VALUES // max(width, count * count))
    found = []
    for first in range(0, rows, step):
        given = numbers[first : first + step].float()
        split = given.reshape(-1, count, group)
        system = torch.stack(
            [
                ((split[:, one] @ hessian[one * group : (one + 1) * group]) * given)
                .reshape(-1, count, group)
                .sum(2)
                for one in range(count)
            ],
            1,
        )  # (rows, groups, groups)
        wanted = ((weight[first : first + step] @ hessian) * given).reshape_as(split).sum(2)
        diagonal = system.diagonal(dim1=1, dim2=2)
        diagonal += _RIDGE * diagonal.mean(1, keepdim=True) + torch.finfo(torch.float32).tiny
        fitted = torch.linalg.solve(system.double(), wanted.double()).float()
        found.append(torch.where(split.any(2), fitted, scales[first : first + step]))
    return torch.cat(found)

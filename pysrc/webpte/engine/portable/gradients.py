"""Kernels of gradients: of convolutions and of pools, for programs that train."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np

from webpte.engine.portable.registry import register
from webpte.errors import ExecutionError

Array = np.ndarray


class KernelWindows:
    """The elements under a convolution's kernel, for each place in the kernel."""

    def __init__(
        self,
        kernel: Sequence[int],
        places: Sequence[int],
        stride: Sequence[int],
        padding: Sequence[int],
        dilation: Sequence[int],
    ) -> None:
        rank = len(kernel)
        self._kernel, self._places = kernel, places
        self._stride, self._padding, self._dilation = (
            list(numbers) * rank if len(numbers) == 1 else list(numbers)
            for numbers in (stride, padding, dilation)
        )

    def __iter__(self) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]:
        """Yield each place in the kernel, and the slices of a padded tensor under it."""
        for place in product(*map(range, self._kernel)):
            starts = (at * step for at, step in zip(place, self._dilation, strict=True))
            yield (
                place,
                tuple(
                    slice(start, start + (count - 1) * step + 1, step)
                    for start, count, step in zip(starts, self._places, self._stride, strict=True)
                ),
            )

    def padded(self, x: Array) -> Array:
        """Return [batch, channels, ..] with zeros around it, enough for the kernel."""
        after = []
        for size, pad, kernel, count, step, dilation in zip(
            x.shape[2:],
            self._padding,
            self._kernel,
            self._places,
            self._stride,
            self._dilation,
            strict=True,
        ):
            needed = (count - 1) * step + (kernel - 1) * dilation + 1
            after.append(max(pad, needed - size - pad))
        around = [(0, 0), (0, 0), *zip(self._padding, after, strict=True)]
        return np.pad(x, around)

    def inside(self, x: Array, sizes: Sequence[int]) -> Array:
        """Return a padded tensor without its padding."""
        cut = (slice(p, p + size) for p, size in zip(self._padding, sizes, strict=True))
        return x[(slice(None), slice(None), *cut)]


def convolution_backward(
    grad: Array,
    x: Array,
    weight: Array,
    bias_sizes: Sequence[int] | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[Array, Array, Array]:
    """Return the gradients of input, weight and bias; zeros for gradients outside of the mask."""
    wide = [array.astype(np.float64) for array in (grad, x, weight)]
    of_input, of_weight = _gradients(
        wide[0], wide[1], wide[2], (stride, padding, dilation), transposed=transposed, groups=groups
    )
    of_bias = wide[0].sum(axis=(0, *range(2, grad.ndim)))
    found = zip((of_input, of_weight, of_bias), output_mask, strict=True)
    first, second, third = (
        (gradient if wanted else np.zeros_like(gradient)).astype(x.dtype)
        for gradient, wanted in found
    )
    return first, second, third


def _gradients(
    grad: Array,
    x: Array,
    weight: Array,
    how: tuple[Sequence[int], Sequence[int], Sequence[int]],
    *,
    transposed: bool,
    groups: int,
) -> tuple[Array, Array]:
    # A convolution reads `large` around every place of `small`; transposed, it writes there.
    small, large = (x, grad) if transposed else (grad, x)
    windows = KernelWindows(weight.shape[2:], small.shape[2:], *how)
    padded = windows.padded(large)
    flat = int(np.prod(small.shape[2:]))
    narrow = small.reshape(x.shape[0], groups, small.shape[1] // groups, flat)
    kernel = weight.reshape(groups, weight.shape[0] // groups, *weight.shape[1:])
    of_weight, of_padded = np.zeros_like(kernel), np.zeros_like(padded)
    of_small = np.zeros_like(narrow)
    for place, slices in windows:
        view = (slice(None), slice(None), *slices)
        met = padded[view].reshape(x.shape[0], groups, large.shape[1] // groups, flat)
        at: Any = (slice(None), slice(None), slice(None), *place)
        # n: batch, g: group, s: channels of `small`, l: channels of `large`, p: places
        of_weight[at] = np.einsum("ngsp,nglp->gsl", narrow, met)
        if transposed:
            of_small += np.einsum("nglp,gsl->ngsp", met, kernel[at])
        else:
            back = np.einsum("ngsp,gsl->nglp", narrow, kernel[at])
            of_padded[view] += back.reshape(padded[view].shape)
    of_input = of_small.reshape(x.shape) if transposed else windows.inside(of_padded, x.shape[2:])
    return of_input, of_weight.reshape(weight.shape)


def max_pool_backward(
    grad: Array,
    x: Array,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
    indices: Array,
) -> Array:
    """Add each gradient to the maximum's place, by its index in the plane."""
    if indices.shape != grad.shape:
        raise ExecutionError(f"indices {list(indices.shape)} for gradients {list(grad.shape)}")
    planes = int(np.prod(x.shape[:-2]))
    size = x.shape[-2] * x.shape[-1]
    if indices.size and not (indices.min() >= 0 and indices.max() < size):
        raise ExecutionError(f"an index is out of bounds for planes of {size} elements")
    result = np.zeros((planes, size))
    rows = np.arange(planes)[:, None]
    np.add.at(result, (rows, indices.reshape(planes, -1)), grad.reshape(planes, -1))
    return result.reshape(x.shape).astype(grad.dtype)


register(
    "aten::convolution_backward.out",
    "grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, "
    "output_padding, groups, output_mask",
    convolution_backward,
    outputs=3,
)
register(
    "aten::max_pool2d_with_indices_backward.grad_input",
    "grad_output, self, kernel_size, stride, padding, dilation, ceil_mode, indices",
    max_pool_backward,
)

"""Cases of quantization parameters: block by block, in float32 as PyTorch computes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from support.cases.cases import Array
from support.cases.row_cases import RowCase, normal

AFFINE = "torchao.choose_qparams_affine.default"
TENSOR = "quantized_decomposed.choose_qparams.tensor"
TOKEN = "quantized_decomposed.choose_qparams_per_token_asymmetric.default"

ROWS = "webpte.choose_qparams_qd8.default"

F = np.float32
Choose = Callable[[list[float]], tuple[Any, int]]


def clamp(value: float, low: int, high: int) -> int:
    return int(max(low, min(high, value)))


def asymmetric(low: int, high: int, eps: float) -> Choose:
    def choose(values: list[float]) -> tuple[Any, int]:
        smallest, largest = F(min(0, *values, 0)), F(max(0, *values, 0))
        scale = max((largest - smallest) / F(high - low), F(eps))
        return scale, clamp(low - round(float(smallest / scale)), low, high)

    return choose


def symmetric(low: int, high: int, eps: float) -> Choose:
    def choose(values: list[float]) -> tuple[Any, int]:
        largest = F(max(0, *(abs(value) for value in values)))
        return max(largest / F((high - low) / 2), F(eps)), int((low + high + 1) / 2)

    return choose


def unclipped(low: int, high: int, eps: float) -> Choose:
    def choose(values: list[float]) -> tuple[Any, int]:
        smallest, largest = F(min(0, *values, 0)), F(max(0, *values, 0))
        scale = max(smallest / F(low), largest / F(high), F(eps))
        return scale, int((low + high + 1) / 2)

    return choose


def least_error(values: list[float]) -> tuple[Any, int]:
    smallest, largest = F(min(0, *values, 0)), F(max(0, *values, 0))
    scale = max((largest - smallest) / F(255), np.finfo(F).eps)
    below, above = smallest / scale, largest / scale
    zero = -128 - below if (-128 + below) + (127 + above) > 0 else 127 - above
    return scale, round(clamp_float(float(zero)))


def inverse_first(values: list[float]) -> tuple[Any, int]:
    """Compute every product and sum in float32, as XNNPACK does."""
    smallest, largest = F(min(0, *values, 0)), F(max(0, *values, 0))
    inverse = F(1) if smallest == largest else F(255) / (largest - smallest)
    below, above = smallest * inverse, largest * inverse
    zero = F(-128) - below if (F(-128) + below) + (F(127) + above) > 0 else F(127) - above
    return inverse, round(clamp_float(float(zero)))


def clamp_float(value: float) -> float:
    return max(-128.0, min(127.0, value))


MAPPINGS = {
    "ASYMMETRIC": asymmetric,
    "SYMMETRIC": symmetric,
    "SYMMETRIC_NO_CLIPPING_ERR": unclipped,
}
SMALLEST = float(np.finfo(F).smallest_normal)


def per_block(
    x: Array, block: tuple[int, ...], choose: Choose, dims: tuple[int, ...]
) -> tuple[Array, Array]:
    counts = [size // step for size, step in zip(x.shape, block, strict=True)]
    scales, zeros = np.zeros(counts, F), np.zeros(counts, np.int64)
    for place in np.ndindex(*counts):
        inside = tuple(
            slice(i * step, (i + 1) * step) for i, step in zip(place, block, strict=True)
        )
        scales[place], zeros[place] = choose([float(v) for v in x[inside].ravel()])
    return scales.reshape(dims), zeros.reshape(dims)


def affine(
    x: Array,
    block: list[int],
    mapping: str = "ASYMMETRIC",
    low: int | None = -128,
    high: int | None = 127,
    eps: float | None = None,
    keepdim: bool = False,
    zero: str = "int8",
    *live: Array,
) -> RowCase:
    bounds = {"int8": (-128, 127), "uint8": (0, 255), "int32": (-128, 127)}[zero]
    choose = MAPPINGS[mapping](
        bounds[0] if low is None else low,
        bounds[1] if high is None else high,
        SMALLEST if eps is None else eps,
    )

    def expect(x: Array, *_: Any) -> tuple[Array, Array]:
        counts = [size // step for size, step in zip(x.shape, block, strict=True)]
        kept = [n for n, step in zip(counts, block, strict=True) if keepdim or n > 1 or step == 1]
        return per_block(x, tuple(block), choose, tuple(kept))

    return RowCase(
        AFFINE,
        (x, mapping, block, None, low, high, eps, None, None, keepdim),
        expect,
        outs=("float32", zero),
        live=tuple((y,) for y in live),
        rtol=1e-6,
        atol=0,
    )


def whole(x: Array, low: int, high: int, eps: float, *live: Array) -> RowCase:
    choose = asymmetric(low, high, eps)
    return RowCase(
        TENSOR,
        (x, low, high, eps, None),
        lambda x, *_: per_block(x, x.shape, choose, (1,)),
        outs=("float32", "int32"),
        live=tuple((y,) for y in live),
        rtol=1e-6,
        atol=0,
    )


def per_token(x: Array, *live: Array) -> RowCase:
    def expect(x: Array, *_: Any) -> tuple[Array, Array]:
        block = (*(1 for _ in x.shape[:-1]), x.shape[-1])
        return per_block(x, block, least_error, (*x.shape[:-1], 1))

    return RowCase(
        TOKEN,
        (x, None),
        expect,
        outs=("float32", "int32"),
        live=tuple((y,) for y in live),
        rtol=1e-6,
        atol=0,
    )


def per_row(x: Array, *live: Array, inner: int = 1, keepdim: bool = True) -> RowCase:
    def expect(x: Array, *_: Any) -> tuple[Array, Array]:
        batch = x.shape[: x.ndim - inner]
        block = (*(1 for _ in batch), *x.shape[x.ndim - inner :])
        dims = (*batch, *(1 for _ in range(inner))) if keepdim else batch
        return per_block(x, block, inverse_first, dims)

    return RowCase(
        ROWS,
        (x, inner),
        expect,
        outs=("float32", "int8"),
        live=tuple((y,) for y in live),
        rtol=0,
        atol=0,
    )


ZEROS = np.zeros((3, 8), F)
POSITIVE = np.abs(normal((5, 12), 3)) + 1

CHOOSE_CASES = [
    *(affine(normal((rows, 12)), [1, 12]) for rows in (1, 2, 3, 4, 5, 9, 260)),
    *(affine(normal((3, 7)), [1, 7], mapping) for mapping in MAPPINGS),
    *(affine(normal((3, 7), 4), [1, 7], mapping, -8, 7, 0.5) for mapping in MAPPINGS),
    *(affine(normal((3, 8)), [1, 8], mapping, 1, 16) for mapping in MAPPINGS),
    *(affine(x, [1, x.shape[1]]) for x in (ZEROS, POSITIVE, -POSITIVE)),
    affine(normal((5, 12)), [1, 12], low=None, high=None),
    affine(normal((5, 12)), [1, 12], low=None, high=None, zero="uint8"),
    affine(normal((5, 12)), [1, 12], "SYMMETRIC", None, None, zero="uint8"),
    affine(normal((6, 12)), [1, 4]),
    affine(normal((6, 12)), [2, 3], keepdim=True, zero="int32"),
    affine(normal((2, 6, 12)), [1, 1, 12], keepdim=True),
    affine(normal((2, 6, 12)), [2, 3, 12]),
    affine(normal((4, 6, 8)), [2, 1, 8], "SYMMETRIC", eps=1e-3),
    affine(normal((2, 3, 4, 6)), [1, 3, 2, 6]),
    affine(normal((6, 12)), [6, 12]),
    affine(normal((1, 12)), [1, 12]),
    affine(normal((3, 1)), [1, 1]),
    affine(normal((2, 2050)), [1, 2050]),
    affine(normal((2, 40000)), [1, 40000]),
    affine(normal((3, 34001)), [3, 34001]),
    affine(normal((0, 12)), [1, 12]),
    affine(
        normal((1, 9, 64)),
        [1, 1, 64],
        "ASYMMETRIC",
        -128,
        127,
        None,
        False,
        "int8",
        *(normal((1, rows, 64), rows) for rows in (1, 4, 7, 0, 9)),
    ),
    whole(normal((3, 5, 7)), -128, 127, 1e-7),
    whole(normal((67,)), 0, 255, 0.25),
    whole(normal((1,)), -8, 7, 1e-7),
    whole(normal((70, 1000)), 0, 255, 1e-7, normal((3, 1000)), normal((69, 999)), normal((1, 1))),
    per_token(normal((3, 5, 7))),
    per_token(normal((9, 64), 2)),
    per_token(POSITIVE),
    per_token(-POSITIVE),
    per_token(ZEROS),
    per_token(normal((6, 1))),
    per_token(normal((11, 20)), normal((1, 20)), normal((7, 20)), normal((11, 3))),
    per_row(normal((3, 5, 7))),
    per_row(normal((67, 13), 3)),
    per_row(normal((2, 3, 4, 5)), inner=2, keepdim=False),
    per_row(normal((9, 64), 2), keepdim=False),
    *(per_row(x) for x in (POSITIVE, -POSITIVE, ZEROS, normal((6, 1)), normal((2, 9000)))),
    per_row(normal((11, 20)), normal((1, 20)), normal((7, 20)), normal((0, 20))),
]

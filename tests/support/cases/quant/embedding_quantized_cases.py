"""Cases of tables of small numbers, one element after the other, in float64."""

from __future__ import annotations

import math

import numpy as np

from support.cases.cases import Array
from support.cases.live_cases import Const, LiveCase, each
from support.cases.move.indexing_cases import indices, rows


def number_in(byte: int, d: int, bits: int, high_first: bool) -> int:
    """The number at place `d` of a row, given its byte."""
    if bits == 8:
        return byte
    if bits == 4:
        return (byte >> 4 if high_first == (d % 2 == 0) else byte & 15) - 8
    return (byte >> 2 * (d % 4)) % 4 - 2


def dequantized(
    weight: Array,
    scales: Array,
    size: int,
    index: Array,
    high_first: bool,
    zeros: Array | None,
    width: int,
    bits: int = 4,
) -> Array:
    """One element at a time, in float64."""
    scales = (
        scales.reshape(len(weight), -1)
        if scales.size > 1
        else np.tile(scales, (len(weight), width))
    )
    zeros = np.zeros_like(scales) if zeros is None else zeros.reshape(scales.shape)

    def element(*place: int) -> float:
        row, d = int(index[place[:-1]]), place[-1]
        group = min(d // size, scales.shape[1] - 1)
        number = number_in(int(weight[row, d * bits // 8]), d, bits, high_first)
        return (number - float(zeros[row, group])) * float(scales[row, group])

    return each((*index.shape, width), np.float64, element)


def table(rows: int, width: int, groups: int, extra: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(rows * width)
    weight = rng.integers(0, 256, (rows, math.ceil(width / 2) + extra), np.uint8)
    return weight, rng.uniform(0.01, 2, (rows, groups)).astype(np.float32)


Q4GSW, DECOMPOSED = "et_vk.embedding_q4gsw.default", "quantized_decomposed.embedding_4bit.dtype"


def q4gsw(
    width: int, size: int, *shapes: tuple[int, ...], linear: bool, extra: int = 0, rank: int = 2
) -> LiveCase:
    weight, scales = table(7, width, math.ceil(width / size), extra)
    scales = scales if rank == 2 else scales[:, 0] if rank == 1 else scales[0, :1]
    return LiveCase(
        Q4GSW,
        [(Const(weight), Const(scales), size, rows(7, shape), linear) for shape in shapes],
        lambda w, s, size, index, linear: dequantized(w, s, size, index, not linear, None, width),
        out="float32",
        exact=False,
        rtol=1e-6,
    )


def decomposed(width: int, groups: int, zeros: str | None, rank: int = 2) -> LiveCase:
    weight, scales = table(7, width, groups)
    scales = scales if rank == 2 else scales[:, 0]
    points = None if zeros is None else indices(5, scales.shape).astype(zeros)
    return LiveCase(
        DECOMPOSED,
        [
            (
                Const(weight),
                Const(scales),
                None if points is None else Const(points),
                -8,
                7,
                rows(7, (2, 3)),
                None,
            )
        ],
        lambda w, s, z, low, high, index, dtype: dequantized(
            w, s, width // groups, index, True, z, width
        ),
        out="float32",
        exact=False,
        rtol=1e-6,
    )


KINDS = {"2bit": (2, -2, 1), "4bit": (4, -8, 7), "byte": (8, -128, 127)}


def of_kind(
    kind: str,
    width: int,
    groups: int,
    *shapes: tuple[int, ...],
    zeros: str | None = None,
    table_type: str = "uint8",
    overload: str = "default",
    rank: int = 2,
) -> LiveCase:
    bits, low, high = KINDS[kind]
    rng = np.random.default_rng(width)
    weight = rng.integers(0, 256, (7, width * bits // 8), np.uint8).view(table_type)
    scales = rng.uniform(0.01, 2, (7, groups)).astype(np.float32)
    scales = scales if rank == 2 else scales[:, 0]
    points = None if zeros is None else indices(5, scales.shape).astype(zeros)
    more = () if overload == "default" else (None,)
    first = Const(weight), Const(scales), None if points is None else Const(points), low, high
    return LiveCase(
        f"quantized_decomposed.embedding_{kind}.{overload}",
        [(*first, rows(7, shape), *more) for shape in shapes or ((2, 3),)],
        lambda w, s, z, low, high, index, dtype=None: dequantized(
            w if bits == 8 else w.view(np.uint8), s, width // groups, index, True, z, width, bits
        ),
        out="float32",
        exact=False,
        rtol=1e-6,
    )


EMBEDDING_CASES = [
    *(
        q4gsw(width, size, shape, linear=linear)
        for linear in (True, False)
        for width, size in (
            (32, 32),
            (64, 32),
            (8, 4),
            (12, 2),
            (10, 5),
            (6, 6),
            (7, 3),
            (1, 1),
            (20, 8),
        )
        for shape in ((2, 3), ())
    ),
    q4gsw(12, 4, (5,), linear=True, extra=2),
    q4gsw(12, 4, (5,), linear=True, extra=1),
    q4gsw(16, 16, (5,), linear=False, rank=1),
    q4gsw(16, 16, (5,), linear=False, rank=0),
    q4gsw(16, 4, (1, 9), (1, 1), (1, 0), (1, 5), linear=True),
    q4gsw(16, 4, (0, 3), linear=True),
    *(
        decomposed(width, groups, zeros)
        for width, groups in ((16, 4), (12, 3), (10, 5), (6, 1))
        for zeros in (None, "float32", "int32", "int8")
    ),
    decomposed(16, 1, "float32", rank=1),
    decomposed(16, 1, None, rank=1),
    *(
        of_kind(kind, width, groups, zeros=zeros, table_type=table_type)
        for kind in KINDS
        for width, groups in ((16, 4), (24, 3), (20, 1), (8, 8), (12, 2))
        for zeros in (None, "float32", "int8")
        for table_type in (("uint8", "int8") if kind == "byte" else ("uint8",))
    ),
    *(of_kind("byte", width, 1, rank=1) for width in (1, 3, 7, 10)),
    *(of_kind(kind, 16, 1, rank=1, overload="dtype", zeros="float32") for kind in KINDS),
    *(of_kind(kind, 16, 2, (1, 9), (1, 1), (1, 0), (1, 5), table_type="int8") for kind in KINDS),
    of_kind("byte", 16, 2, ()),
]

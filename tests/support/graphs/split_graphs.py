"""Programs with a constant of 97 rows, which a low limit splits: 97 is a prime.

Seven parts have 16 rows each but the last, which has one; two parts have 52 and 45.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from support.cases.cases import Array
from support.write.pte_writer import GraphWriter

ROWS = 97
MOST_ROWS = {1: 97, 2: 52, 7: 16}  # of a part, by the number of parts

Q4GSW, DQ8CA = "et_vk.linear_q4gsw.default", "et_vk.linear_dq8ca_q4gsw.default"
Q8TA, EMBEDDING_Q4 = "et_vk.q8ta_linear.default", "et_vk.embedding_q4gsw.default"
# Rows of a table, two for each call: those at the ends of parts, and some counted from the end.
PAIRS = tuple(np.array([pair], np.int64) for pair in ((0, 15), (16, 51), (52, 96), (95, 3)))
FROM_END = np.array([[-1, -97]], np.int64)


@dataclass(frozen=True)
class SplitProgram:
    """A graph, the bytes of a row of its large constant on the GPU, and the input of each call."""

    graph: GraphWriter
    row_bytes: int
    steps: tuple[Array, ...]

    def limit(self, parts: int) -> int:
        """Return the binding limit with which the constant has so many parts."""
        return -(-MOST_ROWS[parts] * self.row_bytes // 16) * 16


def _random(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


def _floats(*shape: int, seed: int = 1) -> Array:
    return _random(seed).standard_normal(shape).astype(np.float32)


def _constant(g: GraphWriter, array: Array) -> int:
    return g.prepack(g.tensor(array.shape, str(array.dtype), constant=array))


def _program(
    row_bytes: int, write: Callable[[GraphWriter, int], int], *steps: Array
) -> SplitProgram:
    g = GraphWriter()
    x = g.tensor(steps[0].shape, str(steps[0].dtype))
    g.inputs(x)
    g.outputs(write(g, x))
    return SplitProgram(g, row_bytes, steps)


def linear() -> SplitProgram:
    def write(g: GraphWriter, x: int) -> int:
        weight, bias = _constant(g, _floats(ROWS, 20)), _constant(g, _floats(ROWS, seed=2))
        return g.op("aten.linear.default", x, weight, bias, g.tensor((2, ROWS)))

    return _program(80, write, _floats(2, 20, seed=3))


def linear_relu() -> SplitProgram:
    """A linear without a bias, whose result goes through a residual and an activation."""

    def write(g: GraphWriter, x: int) -> int:
        weight = g.tensor((ROWS, 21), constant=_floats(ROWS, 21))
        made = g.op("aten.linear.default", x, weight, g.null(), g.tensor((1, 3, ROWS)))
        other = _constant(g, _floats(1, 3, ROWS, seed=4))
        total = g.op("aten.add.Tensor", made, other, g.int(1), g.tensor((1, 3, ROWS)))
        return g.op("aten.relu.default", total, g.tensor((1, 3, ROWS)))

    return _program(84, write, _floats(1, 3, 21, seed=3))


def _packed(width: int) -> Array:
    return _random().integers(0, 256, (ROWS, width), np.uint8)


def _scales(*shape: int) -> Array:
    return _random(6).uniform(0.01, 0.1, shape).astype(np.float32)


def linear_q4() -> SplitProgram:
    """Scales and bias are padded to a multiple of four columns, as the exporter does it."""

    def write(g: GraphWriter, x: int) -> int:
        weight, scales = _constant(g, _packed(64)), _constant(g, _scales(4, 100))
        bias = _constant(g, _floats(100, seed=2))
        out = g.tensor((2, ROWS))
        return g.op(Q4GSW, x, weight, scales, g.int(32), bias, out)

    return _program(64, write, _floats(2, 128, seed=3))


def linear_dq8ca() -> SplitProgram:
    def write(g: GraphWriter, x: int) -> int:
        weight, scales = _constant(g, _packed(64)), _constant(g, _scales(4, 100))
        x_scale = _constant(g, np.array([[0.02], [0.03]], np.float32))
        x_zero = _constant(g, np.array([[3], [-4]], np.int8))
        sums = _constant(g, np.zeros((4, 100), np.int32))
        args = (x, x_scale, x_zero, weight, sums, scales, g.int(32), g.null())
        return g.op(DQ8CA, *args, g.tensor((2, ROWS)))

    return _program(64, write, _floats(2, 128, seed=3))


def linear_dq8ca_bytes() -> SplitProgram:
    def write(g: GraphWriter, x: int) -> int:
        weight = _constant(g, _packed(64).view(np.int8))
        x_scale = _constant(g, np.array([[0.02], [0.03]], np.float32))
        x_zero = _constant(g, np.array([[3], [-4]], np.int8))
        scales, bias = _constant(g, _scales(ROWS)), _constant(g, _floats(ROWS, seed=2))
        args = (x, x_scale, x_zero, weight, scales, bias)
        return g.op("webpte.linear_dq8ca_q8csw.default", *args, g.tensor((2, ROWS)))

    return _program(64, write, _floats(2, 64, seed=3))


def linear_q8() -> SplitProgram:
    def write(g: GraphWriter, x: int) -> int:
        weight = _constant(g, _packed(64).view(np.int8))
        scale = _constant(g, _scales(ROWS) / np.float32(50))
        bias = _constant(g, np.arange(ROWS, dtype=np.int32) * 99)
        more = (g.int(-2), g.int(-100), g.int(120))
        args = (x, g.int(3), weight, g.int(0), scale, bias, *more)
        return g.op("webpte.q8_linear.default", *args, g.tensor((2, ROWS), "int8"))

    return _program(64, write, _random(3).integers(-128, 128, (2, 64), np.int8))


def linear_per_row(name: str, dtype: type, width: int) -> SplitProgram:
    def write(g: GraphWriter, x: int) -> int:
        weight = _constant(g, _packed(width).view(dtype))
        scales = _constant(g, _scales(ROWS))
        return g.op(name, x, weight, scales, g.tensor((2, ROWS)))

    inner = width if dtype is np.int8 else 2 * width
    return _program(width, write, _floats(2, inner, seed=3))


def linear_q8ta() -> SplitProgram:
    def write(g: GraphWriter, x: int) -> int:
        weight, scales = _constant(g, _packed(64).view(np.int8)), _constant(g, _scales(100))
        sums, bias = _constant(g, np.zeros(100, np.int32)), _constant(g, _floats(100, seed=2))
        given = (x, g.double(0.05), g.int(3), weight, sums, scales)
        more = (g.double(0.5), g.int(-2), bias, g.string("relu"))
        return g.op(Q8TA, *given, *more, g.tensor((2, ROWS), "int8"))

    return _program(64, write, _random(3).integers(-128, 128, (2, 64), np.int8))


def convolution() -> SplitProgram:
    def write(g: GraphWriter, x: int) -> int:
        weight, bias = _constant(g, _floats(ROWS, 5, 3, 3)), _constant(g, _floats(ROWS, seed=2))
        one, zero = g.int_list([1, 1]), g.int_list([0, 0])
        how = (one, zero, one, g.bool_(False), zero, g.int(1))
        return g.op("aten.convolution.default", x, weight, bias, *how, g.tensor((1, ROWS, 2, 3)))

    return _program(180, write, _floats(1, 5, 4, 5, seed=3))


def matmul() -> SplitProgram:
    def write(g: GraphWriter, x: int) -> int:
        return g.op("aten.mm.default", x, _constant(g, _floats(ROWS, 20)), g.tensor((2, 20)))

    return _program(80, write, _floats(2, ROWS, seed=3))


def addmm() -> SplitProgram:
    def write(g: GraphWriter, x: int) -> int:
        addend, b = _constant(g, _floats(20, seed=2)), _constant(g, _floats(ROWS, 20))
        scalars = (g.double(0.5), g.double(2.0))
        return g.op("aten.addmm.default", addend, x, b, *scalars, g.tensor((2, 20)))

    return _program(80, write, _floats(2, ROWS, seed=3))


def embedding(dtype: str, width: int) -> SplitProgram:
    """Rows of whole words, and rows of which a word has several."""

    def write(g: GraphWriter, x: int) -> int:
        table = _random().integers(-100, 100, (ROWS, width)).astype(dtype)
        out = g.tensor((1, 2, width), dtype)
        return g.op("aten.embedding.default", _constant(g, table), x, out)

    return _program((1 if dtype == "int8" else 4) * width, write, *PAIRS)


def index_select() -> SplitProgram:
    def write(g: GraphWriter, x: int) -> int:
        table = _constant(g, _floats(ROWS, 3, 2))
        return g.op("aten.index_select.default", table, g.int(0), x, g.tensor((2, 3, 2)))

    return _program(24, write, *(pair.reshape(-1).astype(np.int32) for pair in PAIRS))


def index_tensor() -> SplitProgram:
    def write(g: GraphWriter, x: int) -> int:
        table, indices = _constant(g, _floats(ROWS, 6)), g.value_list([x])
        return g.op("aten.index.Tensor", table, indices, g.tensor((1, 2, 6)))

    return _program(24, write, *PAIRS, FROM_END)


def embedding_q4(width: int, linear_weight: bool) -> SplitProgram:
    def write(g: GraphWriter, x: int) -> int:
        table = _constant(g, _packed(-(-width // 2)))
        scales = _constant(g, _scales(ROWS, -(-width // 32)))
        args = (table, scales, g.int(32), x, g.bool_(linear_weight))
        return g.op(EMBEDDING_Q4, *args, g.tensor((1, 2, width)))

    return _program(-(-width // 2), write, *PAIRS)


def embedding_byte(width: int, single: bool) -> SplitProgram:
    def write(g: GraphWriter, x: int) -> int:
        table = _constant(g, _packed(width))
        shape = (1,) if single else (ROWS, 2)
        scales = _constant(g, _scales(*shape))
        zeros = _constant(g, _random(2).integers(-5, 5, shape).astype(np.float32))
        args = (table, scales, zeros, g.int(0), g.int(255), x)
        name = "quantized_decomposed.embedding_byte.default"
        return g.op(name, *args, g.tensor((1, 2, width)))

    return _program(width, write, *PAIRS)


def tied() -> SplitProgram:
    """A 4-bit table that an embedding and a linear share, once each through its own prepack."""

    def write(g: GraphWriter, x: int) -> int:
        table, bits = _packed(64), g.bool_(True)
        by_row, by_column = _constant(g, _scales(ROWS, 4)), _constant(g, _scales(4, 100))
        embedded = g.tensor((1, 1, 128))
        g.op(EMBEDDING_Q4, _constant(g, table), by_row, g.int(32), x, bits, embedded)
        out = g.tensor((1, 1, ROWS))
        return g.op(Q4GSW, embedded, _constant(g, table), by_column, g.int(32), g.null(), out)

    return _program(64, write, np.array([[57]], np.int64))


PROGRAMS: dict[str, Callable[[], SplitProgram]] = {
    "linear": linear,
    "linear_relu": linear_relu,
    "linear_q4": linear_q4,
    "linear_dq8ca": linear_dq8ca,
    "linear_qcs4w": lambda: linear_per_row("et_vk.linear_qcs4w.default", np.uint8, 64),
    "linear_int8": lambda: linear_per_row("aten._weight_int8pack_mm.default", np.int8, 64),
    "linear_q8ta": linear_q8ta,
    "linear_dq8ca_bytes": linear_dq8ca_bytes,
    "linear_q8": linear_q8,
    "convolution": convolution,
    "matmul": matmul,
    "addmm": addmm,
    "embedding": lambda: embedding("float32", 12),
    "embedding_odd": lambda: embedding("float32", 7),
    "embedding_halves": lambda: embedding("float16", 7),
    "embedding_bytes": lambda: embedding("int8", 11),
    "index_select": index_select,
    "index_tensor": index_tensor,
    "embedding_q4": lambda: embedding_q4(96, linear_weight=False),
    "embedding_q4_linear": lambda: embedding_q4(64, linear_weight=True),
    "embedding_q4_odd": lambda: embedding_q4(33, linear_weight=False),
    "embedding_byte": lambda: embedding_byte(50, single=False),
    "embedding_byte_single": lambda: embedding_byte(48, single=True),
    "tied": tied,
}

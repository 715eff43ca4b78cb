"""Kernels between delegates, one row each: the whole method is one submission.

A kernel's float32 inputs come from a delegate, all other inputs from the caller; its results go to
a delegate, or to the caller if they are integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import webpte
from support.cases.live_cases import Const
from support.devices.recorded import runs
from support.graphs.graphs import wait
from support.graphs.stitching import expect, recording, unary
from support.harness.samples import numbers
from support.write.pte_writer import GraphWriter, Host, MethodWriter, write_pte
from webpte import errors
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.llm.decode.decoder import decoder_of

Out = tuple[tuple[int, ...], str]  # dims and dtype
Row = tuple[str, Sequence[Any], Sequence[Out]]

PASSING = {"float32": "aten.neg.default", "bool": "aten.logical_not.default"}


def method_of(row: Row) -> tuple[MethodWriter, list[np.ndarray]]:
    """The method, and what to call it with."""
    kernel, args, outs = row
    m, given, hosts = MethodWriter(), [], []

    def argument(arg: Any) -> Any:
        if isinstance(arg, Const):
            return m.tensor(arg.array.shape, str(arg.array.dtype), data=arg.array)
        if isinstance(arg, list) and any(isinstance(item, np.ndarray | Const) for item in arg):
            return [None if item is None else argument(item) for item in arg]
        if not isinstance(arg, np.ndarray):
            return arg
        given.append(arg)
        hosts.append(m.tensor(arg.shape, str(arg.dtype)))
        if arg.dtype != np.float32:
            return hosts[-1]
        return unary(m, PASSING["float32"], hosts[-1], arg.shape)

    taken = [argument(arg) for arg in args]
    made = [m.tensor(dims, dtype) for dims, dtype in outs]
    m.inputs(*hosts)
    m.kernel(kernel, *taken, *made, *made)
    m.outputs(*(passed(m, host, *out) for host, out in zip(made, outs, strict=True)))
    return m, given


def passed(m: MethodWriter, host: Host, dims: tuple[int, ...], dtype: str) -> Host:
    return unary(m, PASSING[dtype], host, dims, dtype) if dtype in PASSING else host


def ids(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def table(kind: str, columns: int) -> tuple[Const, Const, None, int, int]:
    low, high = {"2bit": (-2, 1), "4bit": (-8, 7), "byte": (-128, 127)}[kind]
    rng = np.random.default_rng(3)
    weight = rng.integers(0, 256, (7, columns), np.uint8).view(np.int8 if kind == "byte" else "u1")
    return Const(weight), Const(np.abs(numbers(7, 2))), None, low, high


D = "quantized_decomposed::"

TABLES: list[Row] = [
    (f"{D}embedding_byte.out", (*table("byte", 8), ids(3, 6, 0)), [((3, 8), "float32")]),
    (f"{D}embedding_byte.dtype_out", (*table("byte", 6), ids(1), 6), [((1, 6), "float32")]),
    (f"{D}embedding_4bit.out", (*table("4bit", 4), ids(6, 2)), [((2, 8), "float32")]),
    (f"{D}embedding_2bit.out", (*table("2bit", 2), ids(0, 5)), [((2, 8), "float32")]),
]

X, Y, HALF = numbers(3, 5), numbers(5) + 3, np.abs(numbers(3, 1)) / 9
SAME, TRUTH = [((3, 5), "float32")], [((3, 5), "bool")]
MASK = np.arange(15).reshape(3, 5) % 3 == 0

FUNCTIONS: list[Row] = [
    *(
        (f"aten::{name}.out", (X,), SAME)
        for name in (
            *("acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cosh", "erf", "expm1"),
            *("floor", "frac", "hardsigmoid", "log", "log10", "log1p", "log2", "mish", "round"),
            *("reciprocal", "sign", "silu", "sinh", "square", "tan", "trunc"),
        )
    ),
    ("aten::celu.out", (X, 0.5), SAME),
    ("aten::elu.out", (X, 1.0, 1.5, 1), SAME),
    ("aten::softplus.out", (X, 1, 20), SAME),
    ("aten::threshold.out", (X, 0.5, 2), SAME),
    ("aten::isnan.out", (X,), TRUTH),
    ("aten::isinf.out", (X,), TRUTH),
    ("aten::logical_not.out", (X,), TRUTH),
]

OF_TWO: list[Row] = [
    *(
        (f"aten::{name}", (X, Y), SAME)
        for name in (
            *("maximum.out", "minimum.out", "max.out", "min.out", "atan2.out", "floor_divide.out"),
            *("fmod.Tensor_out", "remainder.Tensor_out", "clamp_min.Tensor_out"),
            *("clamp_max.Tensor_out",),
        )
    ),
    *(
        (f"aten::{name}_out", (X, 0.75), SAME)
        for name in ("fmod.Scalar", "remainder.Scalar", "floor_divide.Scalar")
    ),
    ("aten::clamp_min.out", (X, 0.25), SAME),
    ("aten::clamp_max.out", (X, 0.25), SAME),
    ("aten::rsub.Scalar_out", (X, 2, 3), SAME),
    ("aten::rsub.Tensor_out", (X, Y, 1), SAME),
    ("aten::div.out_mode", (X, Y, "floor"), SAME),
    ("aten::div.Scalar_mode_out", (X, 0.3, "trunc"), SAME),
    *(
        (f"aten::{name}.{kind}_out", (X, Y if kind == "Tensor" else 0.5), TRUTH)
        for name in ("eq", "ne", "lt", "le", "gt", "ge")
        for kind in ("Tensor", "Scalar")
    ),
    *((f"aten::logical_{name}.out", (X, Y), TRUTH) for name in ("and", "or", "xor")),
]

OF_THREE: list[Row] = [
    ("aten::clamp.Tensor_out", (X, HALF, Y), SAME),
    ("aten::clamp.Tensor_out", (X, None, Y), SAME),
    ("aten::addcmul.out", (X, Y, HALF, 0.5), SAME),
    ("aten::addcdiv.out", (X, Y, HALF, 2), SAME),
    ("aten::lerp.Tensor_out", (X, Y, HALF), SAME),
    ("aten::lerp.Scalar_out", (X, Y, 0.75), SAME),
    ("aten::where.self_out", (MASK, X, Y), SAME),
    ("aten::where.self_out", (Const(MASK), X, Y), SAME),
    ("aten::masked_fill.Scalar_out", (X, MASK, -1), SAME),
    ("aten::masked_fill.Tensor_out", (X, MASK, Const(np.full((), 7, np.float32))), SAME),
]

ROW = [((3,), "float32")]

REDUCTIONS: list[Row] = [
    ("aten::argmax.out", (X, 1, False), [((3,), "int64")]),
    ("aten::argmin.out", (X, None, False), [((), "int64")]),
    ("aten::cumsum.out", (X, 1, None), SAME),
    ("aten::cumprod.out", (X, 0, None), SAME),
    ("aten::cummax.out", (X, 1), [*SAME, ((3, 5), "int64")]),
    ("aten::cummin.out", (X, 0), [*SAME, ((3, 5), "int64")]),
    *(
        (f"aten::{name}.dim_{name}", (X, -1, False), [*ROW, ((3,), "int64")])
        for name in ("max", "min")
    ),
    *((f"aten::{name}.unary_out", (X,), [((), "float32")]) for name in ("max", "min")),
    ("aten::sum.out", (X, None), [((), "float32")]),
    ("aten::mean.dtype_out", (X, None), [((), "float32")]),
    ("aten::std.correction_out", (X, [1], None, False), ROW),
    ("aten::std.out", (X, [1], False, False), ROW),
    ("aten::var.correction_out", (X, [1], 0, False), ROW),
    ("aten::var.out", (X, [1], True, False), ROW),
    ("aten::var_mean.correction_out", (X, [1], 1, False), ROW * 2),
]

SORTED = [*SAME, ((3, 5), "int64")]

SORTS: list[Row] = [
    ("aten::sort.values", (X, 0, True), SORTED),
    ("aten::sort.values_stable", (X, True, -1, False), SORTED),
    ("aten::argsort.stable_out", (X, True, 1, False), SORTED[1:]),
    ("aten::topk.values", (X, 3, 0, True, True), SORTED),
    ("aten::kthvalue.values", (X, 2, 1, False), [*ROW, ((3,), "int64")]),
]

IMAGE, WEIGHT = numbers(1, 3, 6, 5), Const(numbers(3))

PICKED: list[Row] = [
    (
        "aten::embedding.out",
        (Const(numbers(7, 5)), ids(3, 6), -1, False, False),
        [((2, 5), "float32")],
    ),
    ("aten::gather.out", (X, 1, ids(4, 0, 1).reshape(3, 1), False), [((3, 1), "float32")]),
    ("aten::gather.out", (X, 1, Const(ids(4, 0, 1).reshape(3, 1)), False), [((3, 1), "float32")]),
    ("aten::index_select.out", (X, 0, ids(2, 0)), [((2, 5), "float32")]),
    ("aten::index.Tensor_out", (X, [ids(2, 0), ids(1, -1)]), [((2,), "float32")]),
    ("aten::index.Tensor_out", (X, [None, ids(1, 4, 0)]), [((3, 3), "float32")]),
    ("aten::diagonal_copy.out", (X, 1, 0, 1), [((3,), "float32")]),
]

BAG = (Const(numbers(7, 5)), ids(3, 6, 1, 1), ids(0, 3), False)
BAGS: list[Row] = [
    (
        "aten::_embedding_bag.out",
        (*BAG, mode, False, None, False, -1),
        [((2, 5), "float32"), ((4 * (mode > 0),), "int64"), ((2,), "int64"), (places, "int64")],
    )
    for mode, places in enumerate(((2,), (2,), (2, 5)))
]

WRITTEN: list[Row] = [
    ("aten::index_put.out", (X, [ids(2, 0)], numbers(2, 5), True), SAME),
    ("aten::index_put.out", (X, [None, Const(ids(1))], numbers(3, 1), False), SAME),
    ("aten::scatter.src_out", (X, 1, ids(1, 0, 4).reshape(3, 1), numbers(3, 1)), SAME),
    ("aten::scatter.value_out", (X, 1, ids(1, 0, 4).reshape(3, 1), 2), SAME),
    ("aten::scatter_add.out", (X, 0, Const(ids(1, 1).reshape(2, 1)), numbers(2, 1)), SAME),
    *(
        (
            "aten::scatter_reduce.two_out",
            (X, 0, ids(1, 1).reshape(2, 1), numbers(2, 1), reduce, reduce == "amax"),
            SAME,
        )
        for reduce in ("sum", "mean", "prod", "amax", "amin")
    ),
    ("aten::index_add.out", (X, 1, ids(3, 3), numbers(3, 2), 0.5), SAME),
    ("aten::index_copy.out", (X, 0, ids(2), numbers(1, 5)), SAME),
    ("aten::index_fill.int_Scalar_out", (X, 1, ids(-1, 0), 2.5), SAME),
]

LAYERS: list[Row] = [
    ("aten::_adaptive_avg_pool2d.out", (IMAGE, [2, 3]), [((1, 3, 2, 3), "float32")]),
    ("aten::adaptive_avg_pool2d.out", (IMAGE, [1, 1]), [((1, 3, 1, 1), "float32")]),
    ("aten::adaptive_avg_pool1d.out", (numbers(1, 3, 7), [4]), [((1, 3, 4), "float32")]),
    (
        "aten::max_pool2d_with_indices.out",
        (IMAGE, [2, 2], [2, 2], [0, 0], [1, 1], False),
        [((1, 3, 3, 2), "float32"), ((1, 3, 3, 2), "int64")],
    ),
    (
        "aten::_native_batch_norm_legit.no_stats_out",
        (IMAGE, WEIGHT, None, True, 0.1, 1e-5),
        [((1, 3, 6, 5), "float32"), ((3,), "float32"), ((3,), "float32")],
    ),
]

VOLUME, AROUND = numbers(1, 2, 4, 4, 4), ([2], [2], [0])
EIGHTH = ((1, 2, 2, 2, 2), "float32")

VOLUMES: list[Row] = [
    ("aten::avg_pool3d.out", (VOLUME, *AROUND, False, True, None), [EIGHTH]),
    (
        "aten::max_pool3d_with_indices.out",
        (VOLUME, *AROUND, [1], False),
        [EIGHTH, ((1, 2, 2, 2, 2), "int64")],
    ),
    ("aten::_adaptive_avg_pool3d.out", (VOLUME, [1, 1, 1]), [((1, 2, 1, 1, 1), "float32")]),
    (
        "aten::convolution.out",
        (VOLUME, Const(numbers(3, 2, 3, 3, 3)), None, [1], [1], [1], False, [0], 1),
        [((1, 3, 4, 4, 4), "float32")],
    ),
    (
        "aten::_native_batch_norm_legit_no_training.out",
        (VOLUME, *(Const(np.abs(numbers(2)) + 1) for _ in range(4)), 0.1, 1e-5),
        [((1, 2, 4, 4, 4), "float32"), ((0,), "float32"), ((0,), "float32")],
    ),
]

ROWS = [
    *(*TABLES, *FUNCTIONS, *OF_TWO, *OF_THREE, *REDUCTIONS, *SORTS, *PICKED, *BAGS),
    *WRITTEN,
    *(*LAYERS, *VOLUMES),
]


def named(row: Any) -> str:
    return str(row[0])


@pytest.mark.parametrize("row", ROWS, ids=named)
def test_it_is_one_submission(row: Row) -> None:
    m, given = method_of(row)

    async def run() -> None:
        program = await expect(m, given, given)
        places = {entry.op: entry.where for entry in program.report if "::" in entry.op}
        assert places == {row[0]: "gpu"}
        assert program.stats.submissions == 1

    wait(run())


@pytest.mark.parametrize("row", TABLES, ids=named)
@pytest.mark.parametrize("outside", [7, -1, 2**40])
def test_a_row_that_a_table_does_not_have_is_an_error(row: Row, outside: int) -> None:
    m, (index,) = method_of(row)

    async def run() -> None:
        for device in ("numpy", SimulatedDevice()):
            program = await webpte.load(write_pte(m), device=device)
            await program.forward(index)
            with pytest.raises(errors.WebpteError, match=r"embedding|range"):
                await program.forward(np.full_like(index, outside))
            await program.forward(index)

    wait(run())


@pytest.mark.parametrize(
    ("name", "wrong"),
    [("indices", ids(3, 7, 1, 1)), ("offsets", ids(1, 3)), ("offsets", ids(0, 5))],
)
def test_bags_that_a_table_does_not_have_are_an_error(name: str, wrong: np.ndarray) -> None:
    m, (rows, offsets) = method_of(BAGS[1])
    given = (wrong, offsets) if name == "indices" else (rows, wrong)

    async def run() -> None:
        for device in ("numpy", SimulatedDevice()):
            program = await webpte.load(write_pte(m), device=device)
            with pytest.raises(errors.ExecutionError, match="embedding_bag"):
                await program.forward(*given)
            await program.forward(rows, offsets)

    wait(run())


def test_a_chat_model_with_a_table_of_bytes_is_one_delegate() -> None:
    """Up to four tokens -> rows of 8 -> a delegate: nothing needs to come back, at any length."""
    m = MethodWriter()
    tokens, rows = (
        m.tensor((1, 4), "int64", dynamic=True),
        m.tensor((1, 4, 8), dynamic=True),
    )
    m.inputs(tokens)
    weight, scales, _, low, high = (
        m.tensor(arg.array.shape, str(arg.array.dtype), data=arg.array)
        if isinstance(arg, Const)
        else arg
        for arg in table("byte", 8)
    )
    out = m.tensor((1, 4, 8), dynamic=True)
    made = (weight, scales, None, low, high, tokens, rows, rows)
    m.kernel(f"{D}embedding_byte.out", *made)
    g = GraphWriter()
    x = g.tensor((1, 4, 8))
    g.inputs(x)
    g.outputs(g.op("aten.neg.default", x, g.tensor((1, 4, 8))))
    m.delegate(g, [rows, out])
    m.outputs(out)

    async def run() -> None:
        calls = [[ids(*range(count)).reshape(1, count)] for count in (4, 1, 3)]
        program = await expect(m, *calls)
        assert decoder_of(program, "forward").follows_position
        start = len(runs(recording(program)))
        await decoder_of(program, "forward").run_unread(calls[0])
        assert [done["read"] for done in runs(recording(program))[start:]] == [False]

    wait(run())


@pytest.mark.parametrize("outside", [5, -1])
def test_an_element_that_a_tensor_does_not_have_is_an_error(outside: int) -> None:
    m, (x, index) = method_of(PICKED[1])

    async def run() -> None:
        for device in ("numpy", SimulatedDevice()):
            program = await webpte.load(write_pte(m), device=device)
            with pytest.raises(errors.ExecutionError, match=r"gather"):
                await program.forward(x, np.full_like(index, outside))
            await program.forward(x, index)

    wait(run())


def test_masks_stay_on_the_host() -> None:
    """The number of elements that a mask picks depends on its contents."""

    async def run() -> None:
        row: Row = ("aten::index.Tensor_out", (X, [Const(MASK)]), [((5,), "float32")])
        m, given = method_of(row)
        program = await expect(m, given, submitted=2)
        assert [entry.where for entry in program.report if "::" in entry.op] == ["host"]

    wait(run())

"""Linear and elementwise nodes of XNNPACK graphs, products and softmax."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from support.graphs.graphs import load, wait
from support.graphs.xnnpack_graphs import binary, computed, graph_of, names_of, unary
from support.write.xnnpack_writer import (
    NODES,
    Quant,
    XnnpackWriter,
    floats,
    per_block,
    per_channel,
    per_row,
    per_tensor,
)
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.engine.ops import registered_names
from webpte.engine.xnnpack.elementwise import BINARY, UNARY
from webpte.engine.xnnpack.nodes import NODES as LOWERED
from webpte.errors import ExecutionError, GraphError, UnsupportedOpError, WebpteError

Array = np.ndarray[Any, Any]
X = floats(3, 5)
OWN = ("webpte.prelu.default",)  # not an operator of PyTorch


def test_every_kind_of_node_is_lowered() -> None:
    assert set(LOWERED) == set(NODES)


@pytest.mark.parametrize("name", [*(name for name, _ in UNARY.values()), *BINARY.values()])
def test_operators_of_elementwise_nodes_exist(name: str) -> None:
    if name not in OWN:
        assert name in registered_names()


# --- elementwise --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "want", "options"),
    [
        ("Abs", np.abs, {}),
        ("Ceiling", np.ceil, {}),
        ("Copy", lambda x: x, {}),
        ("Cos", np.cos, {}),
        ("ELU", lambda x: np.where(x > 0, x, 0.7 * np.expm1(x)), {"alpha": 0.7}),
        ("Exp", np.exp, {}),
        ("Floor", np.floor, {}),
        ("Hardswish", lambda x: x * np.clip(x + 3, 0, 6) / 6, {}),
        ("LeakyReLU", lambda x: np.where(x > 0, x, 0.3 * x), {"slope": 0.3}),
        ("Negate", np.negative, {}),
        ("Sigmoid", lambda x: 1 / (1 + np.exp(-x)), {}),
        ("Sin", np.sin, {}),
        ("Square", np.square, {}),
        ("Tanh", np.tanh, {}),
        ("Clamp", lambda x: np.clip(x, -0.5, 0.25), {"clamp": (-0.5, 0.25)}),
        ("Clamp", lambda x: np.maximum(x, 0), {"clamp": (0, math.inf)}),
        ("Clamp", lambda x: np.minimum(x, 0.1), {"clamp": (-math.inf, 0.1)}),
        ("Clamp", lambda x: x, {"clamp": (-math.inf, math.inf)}),
        ("Clamp", lambda x: x, {}),
    ],
)
def test_unary_nodes(kind: str, want: Any, options: dict[str, Any]) -> None:
    found = computed(unary(kind, X.shape, **options), X)
    np.testing.assert_allclose(found, want(X), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "want"),
    [("Log", np.log), ("SquareRoot", np.sqrt), ("ReciprocalSquareRoot", lambda x: 1 / np.sqrt(x))],
)
def test_unary_nodes_of_positive_numbers(kind: str, want: Any) -> None:
    x = np.abs(X) + 0.1
    np.testing.assert_allclose(computed(unary(kind, x.shape), x), want(x), rtol=1e-5)


def test_gelu_is_exact_and_not_of_tanh() -> None:
    want = [[0.5 * x * (1 + math.erf(x / math.sqrt(2))) for x in row] for row in X.tolist()]
    np.testing.assert_allclose(computed(unary("Gelu", X.shape), X), want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("limits", [(0, math.inf), (-1, 1), (-math.inf, 0), (1, 1)])
def test_clamps_of_nan(limits: tuple[float, float]) -> None:
    x = np.array([math.nan, -2, 2, math.inf], np.float32)
    found = computed(unary("Clamp", x.shape, clamp=limits), x)
    np.testing.assert_array_equal(found, np.clip(x, *limits))


FUNCTIONS: dict[str, Any] = {
    "Add": np.add,
    "Div": np.divide,
    "Multiply": np.multiply,
    "Subtract": np.subtract,
    "Maximum": np.maximum,
    "Minimum": np.minimum,
}


@pytest.mark.parametrize("kind", FUNCTIONS)
@pytest.mark.parametrize(("a", "b"), [((3, 5), (3, 5)), ((3, 5), (5,)), ((1, 5), (2, 3, 1))])
def test_binary_nodes(kind: str, a: tuple[int, ...], b: tuple[int, ...]) -> None:
    x, y = floats(*a), floats(*b, seed=1)
    want = FUNCTIONS[kind](x, y)
    np.testing.assert_allclose(computed(binary(kind, a, b), x, y), want, rtol=1e-6)
    # XNNPACK's delegate reads no limits of these
    limits = (-math.inf, math.inf) if kind in ("Maximum", "Minimum") else (-0.25, 0.5)
    found = computed(binary(kind, a, b, clamp=(-0.25, 0.5)), x, y)
    np.testing.assert_allclose(found, np.clip(want, *limits), rtol=1e-6)


def test_values_that_are_held_in_different_orders_broadcast() -> None:
    """An image that is held as NCHW, a vector of its channels, and a map without channels."""
    g = XnnpackWriter()
    x, c = g.value((2, 3, 4, 5), argument=0, dynamic=True), g.value((3,), argument=1)
    image, biased = g.value((2, 4, 5, 3)), g.value((2, 4, 5, 3))
    flat = g.value((4, 5, 1), argument=2, dynamic=True)
    g.node("StaticTranspose", x, image, num_dims=4, perm=(0, 2, 3, 1))
    g.node("Add", image, c, biased)
    g.node("Multiply", flat, biased, g.value((2, 4, 5, 3), argument=3, output=True, dynamic=True))

    async def run() -> None:
        async with await load(g.method()) as program:
            for n, h, w in ((2, 4, 5), (1, 4, 2), (2, 2, 4), (2, 4, 5)):
                images, channels, maps = floats(n, 3, h, w), floats(3, seed=1), floats(h, w, 1)
                (found,) = await program.forward(images, channels, maps)
                want = (images.transpose(0, 2, 3, 1) + channels) * maps
                np.testing.assert_allclose(found, want, rtol=1e-6)

    wait(run())


def test_numbers_without_dims() -> None:
    """Exporters write a number as a value with a dim of 1; in the method it has no dims."""
    g = XnnpackWriter()
    x = g.value((1,), argument=0, host_dims=())
    w = g.value((), constant=np.float32(2).tobytes())
    y = g.value((1,), argument=1, output=True, host_dims=())
    g.node("Multiply", x, w, y)
    found = computed(g, np.float32(3))
    assert found.shape == ()
    assert found == 6
    h = XnnpackWriter()
    h.node("Negate", h.value((), argument=0), h.value((), argument=1, output=True))
    assert computed(h, np.float32(3)) == -3


def test_empty_values() -> None:
    found = computed(binary("Add", (0, 3), (3,)), np.zeros((0, 3), np.float32), X[0, :3])
    assert found.shape == (0, 3)


# --- changes of type ----------------------------------------------------------------------------


def test_conversions_between_floats() -> None:
    narrow = unary("Convert", X.shape, types=("fp32", "fp16"))
    found = computed(narrow, X)
    assert found.dtype == np.float16
    np.testing.assert_array_equal(found, X.astype(np.float16))
    back = computed(unary("Convert", X.shape, types=("fp16", "fp32")), found)
    assert back.dtype == np.float32
    np.testing.assert_array_equal(back, found.astype(np.float32))


def test_floats_are_not_converted_to_integers() -> None:
    """XNNPACK rounds, where the operator that converts cuts off."""
    g = unary("Convert", X.shape, types=("fp32", "int32"))
    with pytest.raises(UnsupportedOpError, match=r"xnnpack.Convert\(of floats to integers\)"):
        computed(g, X)


# --- linear layers ------------------------------------------------------------------------------


def linear(
    dims: tuple[int, ...],
    weights: Array,
    bias: Array | None,
    *,
    flags: int = 0,
    types: tuple[str, str] = ("fp32", "fp32"),
    constant: bool = True,
    clamp: tuple[float, float] | None = None,
    columns: int | None = None,
) -> XnnpackWriter:
    g = XnnpackWriter()
    x = g.value(dims, types[0], argument=0)
    place = iter(range(1, 4))

    def other(array: Array) -> int:
        if constant:
            return g.value(array.shape, types[1], constant=array)
        return g.value(array.shape, types[1], argument=next(place))

    w = other(weights)
    b = None if bias is None else other(bias)
    columns = columns or weights.shape[1 if flags else 0]
    y = g.value((*dims[:-1], columns), types[0], argument=next(place), output=True)
    g.node("FullyConnected", x, w, b, y, flags=flags, clamp=clamp)
    return g


W, B = floats(4, 5, seed=1), floats(4, seed=2)


@pytest.mark.parametrize("dims", [(5,), (3, 5), (2, 3, 5), (2, 1, 3, 5)])
@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("turned", [False, True])
def test_linear_layers(dims: tuple[int, ...], constant: bool, turned: bool) -> None:
    x = floats(*dims)
    weights = np.ascontiguousarray(W.T) if turned else W
    g = linear(dims, weights, B, flags=int(turned), constant=constant, clamp=(-1, 1))
    others = () if constant else (weights, B)
    np.testing.assert_allclose(
        computed(g, x, *others), np.clip(x @ W.T + B, -1, 1), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("turned", [False, True])
def test_linear_layers_of_halves_with_float_weights(turned: bool) -> None:
    weights = np.ascontiguousarray(W.T) if turned else W
    g = linear(X.shape, weights, B, flags=int(turned), types=("fp16", "fp32"))
    found = computed(g, X.astype(np.float16))
    assert found.dtype == np.float16
    np.testing.assert_allclose(found, X @ W.T + B, rtol=1e-2, atol=1e-2)


def blocks(scales: Quant, g: XnnpackWriter) -> XnnpackWriter:
    """Write a layer with weights of 4 bits, [3, 8], whose codes are all 9."""
    x = g.value((1, 8), argument=0)
    w = g.value((3, 8), "qbint4", constant=b"\x99" * 12, quant=scales)
    g.node("FullyConnected", x, w, None, g.value((1, 3), argument=1, output=True))
    return g


def test_scales_of_blocks_are_rounded_as_xnnpack_rounds_them() -> None:
    """Raised by 2**-8 and cut off: not to the nearest bf16, which would be 1 for the first."""
    scales = np.array([1.0040, 1.9961, 0.7523, 3.01, 0.1, 5], np.float32)
    g = blocks(per_block(scales.tolist(), 4), XnnpackWriter())
    found = computed(g, np.array([[1, 0, 0, 0, 100, 0, 0, 0]], np.float32))
    cut = (scales * np.float32(1.00389105)).view(np.uint32) & np.uint32(0xFFFF0000)
    rounded = cut.view(np.float32).reshape(3, 2)
    assert rounded[0, 0] == 1.0078125
    np.testing.assert_allclose(found[0], rounded @ [1, 100], rtol=1e-6)


def test_scales_of_blocks_in_a_constant() -> None:
    g = XnnpackWriter()
    words = (np.arange(1, 7, dtype=np.float32).view(np.uint32) >> 16).astype(np.uint16)
    blocks(per_block([], 4, buffer=g.constant(words)), g)
    found = computed(g, np.array([[1, 0, 0, 0, 100, 0, 0, 0]], np.float32))
    np.testing.assert_allclose(found[0], [201, 403, 605], rtol=1e-6)


@pytest.mark.parametrize(
    ("g", "message"),
    [
        (linear((3, 5), W, B, flags=4), "node 0 (FullyConnected): flags 0x4 are not supported"),
        (linear((3, 5), W, B[:1]), "a bias [1] for [4] columns"),
        (linear((3, 5), W, None, clamp=(1, -1)), "results cannot be between 1.0 and -1.0"),
        (linear((3, 5), W, None, clamp=(math.nan, 1)), "results cannot be between nan and 1.0"),
        (linear((3, 5), W, None, clamp=(0, math.nan)), "results cannot be between 0.0 and nan"),
        (linear((3, 5), W, None, clamp=(math.inf, math.inf)), "cannot be between inf and inf"),
        (blocks(per_block([1] * 6, 4, axis=1), XnnpackWriter()), "weights with scales along dim 1"),
        (blocks(per_block([1] * 5, 4), XnnpackWriter()), "5 scales for 3 rows of 2 groups"),
        (blocks(per_block([1] * 6, 3), XnnpackWriter()), "weights of 8 columns in groups of 3"),
        (blocks(per_tensor(1), XnnpackWriter()), "value 1: QBINT4 with the quantization PerTensor"),
        (unary("Softmax", ()), "softmax of a value without dims"),
        (binary("BatchMatrixMultiply", (3,), (3, 4), out=(4,)), "a product of [3] and [3, 4]"),
        (binary("BatchMatrixMultiply", (3, 3), (3, 3), flags=2), "flags 0x2 are not supported"),
        (unary("Abs", (3,), flags=1), "node 0 (Abs): flags 0x1 are not supported"),
        (unary("Abs", (3, 5), (5, 3)), "value 1 is [5, 3] in the file, [3, 5] by its node"),
        (binary("Add", (3, 5), (3,)[:0], out=(5, 3)), "value 2 is [5, 3] in the file, [3, 5] by"),
        (unary("Abs", (3,), types=("qint8", "fp32")), "value 0: QINT8 with no quantization"),
    ],
)
def test_refused(g: XnnpackWriter, message: str) -> None:
    with pytest.raises(GraphError) as raised:
        graph_of(g)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("type", "quant"),
    [
        ("fp32", per_tensor(0.5)),
        ("int32", per_tensor(0.5)),
        ("qint8", per_channel([0.5])),
        ("qcint8", per_tensor(0.5)),
        ("qcint4", per_block([0.5], 1)),
        ("qdint8", per_tensor(0.5)),
        ("fp32", per_row()),
    ],
)
def test_types_with_the_quantization_of_others(type: str, quant: Quant) -> None:
    g = unary("Abs", (1,))
    g.value((1,), type, quant=quant)
    with pytest.raises(GraphError, match=r"value 2: \w+ with the quantization Per"):
        graph_of(g)


def test_scales_along_another_dim() -> None:
    """A square matrix has as many rows as columns: only the dim says whose scales these are."""
    g = XnnpackWriter()
    x = g.value((1, 4), argument=0)
    w = g.value((4, 4), "qcint8", constant=bytes(16), quant=per_channel([1, 2, 3, 4], axis=1))
    g.node("FullyConnected", x, w, None, g.value((1, 4), argument=1, output=True))
    with pytest.raises(GraphError, match="value 1: scales along dim 1, not dim 0"):
        graph_of(g)


@pytest.mark.parametrize("bits", [4, 8])
def test_rows_with_numbers_in_the_middle_of_two(bits: int) -> None:
    """Numbers are multiplied by 255 / (highest - lowest), which is rounded once."""
    ends = np.array([-0.9, 1.1], np.float32)
    inverse = np.float32(255) / (ends[1] - ends[0])
    middle = ((np.arange(-110, 136, 4, dtype=np.float32) + np.float32(0.5)) / inverse)[:62]
    given = np.concatenate([ends, middle])[None]
    codes = np.clip(np.rint(given * inverse) - 13, -128, 127)
    other = np.clip(np.rint(given * (1 / (1 / inverse))) - 13, -128, 127)
    assert (codes != other).sum() > 5
    g = XnnpackWriter()
    x = g.value((1, 64), argument=0)
    rounded = g.value((1, 64), "qdint8", quant=per_row())
    signs = np.where(codes > other, 1, -1)  # so that differences add up
    stored = signs.astype(np.int8) if bits == 8 else (signs + 8).astype(np.uint8)
    if bits == 4:
        stored = stored[:, ::2] | stored[:, 1::2] << 4
    quant = per_channel([1.0])
    w = g.value((1, 64), f"qcint{bits}", constant=np.ascontiguousarray(stored), quant=quant)
    made = g.value((1, 1), argument=1, output=True)
    g.node("Convert", x, rounded)
    g.node("FullyConnected", rounded, w, None, made)
    want = ((codes + 13) * signs).sum() / inverse
    np.testing.assert_allclose(computed(g, given), [[want]], rtol=1e-5)


@pytest.mark.parametrize("type", ["fp32", "fp16"])
@pytest.mark.parametrize("bits", [4, 8])
def test_rows_that_are_rounded_in_each_run(type: str, bits: int) -> None:
    """Halves run on the GPU, too: they are converted to float32, as scales are."""
    random = np.random.default_rng(6)
    whole = random.integers(-8, 8, (3, 6)) if bits == 4 else random.integers(-127, 128, (3, 6))
    steps = np.array([0.5, 0.25, 0.125], np.float32) / 2**bits
    codes = (whole + 8).astype(np.uint8) if bits == 4 else whole.astype(np.int8)
    stored = codes[:, ::2] | codes[:, 1::2] << 4 if bits == 4 else codes
    g = XnnpackWriter()
    x = g.value((2, 6), type, argument=0)
    rounded = g.value((2, 6), "qdint8", quant=per_row())
    quant = per_channel(steps.tolist())
    w = g.value((3, 6), f"qcint{bits}", constant=np.ascontiguousarray(stored), quant=quant)
    bias = g.value((3,), constant=floats(3, seed=4))
    made = g.value((2, 3), type, argument=1, output=True)
    g.node("Convert", x, rounded)
    g.node("FullyConnected", rounded, w, bias, made, clamp=(-2.0, 2.0))
    given = floats(2, 6, seed=5).astype(np.float16 if type == "fp16" else np.float32)
    rows = given.astype(np.float64)
    low, high = np.minimum(rows.min(1), 0), np.maximum(rows.max(1), 0)
    scale = ((high - low) / 255)[:, None]
    zero = np.rint(-128 - low[:, None] / scale)
    near = (np.clip(np.rint(rows / scale) + zero, -128, 127) - zero) * scale
    want = np.clip(near @ (whole * steps[:, None]).T + floats(3, seed=4), -2, 2)

    async def run() -> None:
        device = SimulatedDevice(features=("shader-f16",))
        async with await load(g.method(), device=device) as program:
            (found,) = await program.forward(given)
            assert found.dtype == given.dtype
            np.testing.assert_allclose(found, want, rtol=2e-3, atol=2e-3)
            assert {row.where for row in program.report} <= {"gpu", "alias"}

    wait(run())


# --- bounds of live sizes -------------------------------------------------------------------------


def bounded(*, dynamic: bool, bound: int) -> XnnpackWriter:
    """Write a layer and a sum, whose rows the file bounds by more than there are."""
    g = XnnpackWriter()
    x = g.value((3, 3, 5), argument=0, dynamic=dynamic)
    weight = g.value((4, 5), constant=floats(4, 5, seed=1))
    made = g.value((3, bound, 4))
    total = g.value((3, bound, 4), argument=1, output=True, dynamic=dynamic)
    g.node("FullyConnected", x, weight, None, made)
    g.node("Add", made, made, total)
    return g


@pytest.mark.parametrize("device", ["numpy", SimulatedDevice])
def test_bounds_wider_than_the_results(device: Any) -> None:
    """Exporters bound (a * b) // b by more than a."""

    async def run() -> None:
        given = device if isinstance(device, str) else device()
        async with await load(bounded(dynamic=True, bound=9).method(), device=given) as program:
            for dims in ((3, 3, 5), (1, 2, 5), (3, 1, 5), (3, 3, 5)):
                x = floats(*dims)
                (found,) = await program.forward(x)
                np.testing.assert_allclose(found, 2 * x @ floats(4, 5, seed=1).T, rtol=1e-5)

    wait(run())


@pytest.mark.parametrize(("dynamic", "bound"), [(False, 9), (True, 2)])
def test_sizes_that_are_no_bounds_of_the_results(dynamic: bool, bound: int) -> None:
    with pytest.raises(
        GraphError, match=rf"\[3, {bound}, 4\] in the file, \[3, 3, 4\] by its node"
    ):
        graph_of(bounded(dynamic=dynamic, bound=bound))


# --- products, softmax --------------------------------------------------------------------------


@pytest.mark.parametrize("outer", [(), (3,), (2, 3), (2, 1, 3)])
@pytest.mark.parametrize("turned", [False, True])
def test_products_of_batches(outer: tuple[int, ...], turned: bool) -> None:
    a, b = floats(*outer, 2, 5), floats(*outer, 5, 4, seed=1)
    given = np.ascontiguousarray(b.swapaxes(-1, -2)) if turned else b
    g = binary("BatchMatrixMultiply", a.shape, given.shape, out=(*outer, 2, 4), flags=int(turned))
    np.testing.assert_allclose(computed(g, a, given), a @ b, rtol=1e-5, atol=1e-6)


BROADCAST = [
    ((3, 2, 5), (1, 5, 4)),
    ((1, 2, 5), (3, 5, 4)),
    ((2, 1, 2, 5), (1, 3, 5, 4)),
    ((2, 3, 2, 5), (3, 5, 4)),
    ((2, 5), (3, 5, 4)),
    ((3, 2, 5), (5, 4)),
]


@pytest.mark.parametrize(("a", "b"), BROADCAST)
def test_products_whose_batches_broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    x, y = floats(*a), floats(*b, seed=1)
    g = binary("BatchMatrixMultiply", a, b, out=(x @ y).shape)
    np.testing.assert_allclose(computed(g, x, y), x @ y, rtol=1e-5, atol=1e-6)


def test_products_whose_batches_fit_are_one_call() -> None:
    g = binary("BatchMatrixMultiply", (3, 2, 5), (3, 5, 4), out=(3, 2, 4))
    assert names_of(g) == ["aten.bmm.default"]


def test_products_whose_batches_do_not_fit() -> None:
    g = binary("BatchMatrixMultiply", (3, 2, 5), (2, 5, 4), out=(3, 2, 4))
    with pytest.raises(GraphError, match="do not broadcast together"):
        graph_of(g)


def int8_product(
    a: tuple[int, ...], b: tuple[int, ...], out: tuple[int, ...], **options: Any
) -> XnnpackWriter:
    g = XnnpackWriter()
    dynamic, zero = options.pop("dynamic", False), options.pop("zero", 0)
    steps = per_tensor(0.03, 5), per_tensor(0.02, zero), per_tensor(0.11, -7)
    x, y, made = (
        g.value(dims, "qint8", quant=quant, argument=place, output=place == 2, dynamic=dynamic)
        for place, (dims, quant) in enumerate(zip((a, b, out), steps, strict=True))
    )
    g.node("BatchMatrixMultiply", x, y, made, **options)
    return g


def int8_results(x: Array, y: Array) -> Array:
    """Return the results of ExecuTorch's runtime, of which these are the same bits."""
    sums = ((x.astype(np.int64) - 5) @ y.astype(np.int64)).astype(np.float32)
    scale = np.float32(0.03) * np.float32(0.02) / np.float32(0.11)
    return np.clip(np.rint(sums * scale) - 7, -128, 127).astype(np.int8)


@pytest.mark.parametrize(("a", "b"), [((2, 5), (5, 4)), ((7, 17, 70), (7, 70, 33)), *BROADCAST])
@pytest.mark.parametrize("turned", [False, True])
def test_products_of_8_bits(a: tuple[int, ...], b: tuple[int, ...], turned: bool) -> None:
    random = np.random.default_rng(3)
    x, y = (random.integers(-128, 128, dims).astype(np.int8) for dims in (a, b))
    want = int8_results(x, y)
    given = np.ascontiguousarray(y.swapaxes(-1, -2)) if turned else y
    g = int8_product(a, given.shape, want.shape, flags=int(turned))
    np.testing.assert_array_equal(computed(g, x, given), want)


def test_products_of_8_bits_and_live_sizes() -> None:
    g = int8_product((3, 8, 8), (3, 8, 8), (3, 8, 8), dynamic=True)

    async def run() -> None:
        random = np.random.default_rng(4)
        async with await load(g.method()) as program:
            for batch, m, k, n in ((3, 8, 8, 8), (1, 1, 1, 1), (2, 5, 7, 3), (3, 2, 8, 1)):
                x, y = (
                    random.integers(-128, 128, dims).astype(np.int8)
                    for dims in ((batch, m, k), (batch, k, n))
                )
                (found,) = await program.forward(x, y)
                np.testing.assert_array_equal(found, int8_results(x, y))
            with pytest.raises(WebpteError, match="do not fit"):
                await program.forward(np.zeros((2, 3, 4), np.int8), np.zeros((2, 2, 6), np.int8))

    wait(run())


def test_products_of_8_bits_that_the_runtime_refuses() -> None:
    with pytest.raises(GraphError, match="a zero point of 3 in a second matrix"):
        graph_of(int8_product((2, 5), (5, 4), (2, 4), zero=3))
    g = XnnpackWriter()
    x, y = (g.value((2, 2), "quint8", quant=per_tensor(1), argument=place) for place in range(2))
    made = g.value((2, 2), "quint8", quant=per_tensor(1), argument=2, output=True)
    g.node("BatchMatrixMultiply", x, y, made)
    with pytest.raises(UnsupportedOpError, match="of 8 bits beside other types"):
        computed(g, *[np.zeros((2, 2), np.uint8)] * 2)


@pytest.mark.parametrize("flags", [0, 1])
def test_products_of_live_sizes(flags: int) -> None:
    """Equally many elements in other dims are no product of the dims in the file."""
    g = XnnpackWriter()
    x, y = (g.value((2, 3, 4, 4), argument=place, dynamic=True) for place in range(2))
    made = g.value((2, 3, 4, 4), argument=2, output=True, dynamic=True)
    g.node("BatchMatrixMultiply", x, y, made, flags=flags)

    async def run() -> None:
        async with await load(g.method()) as program:
            for n, m, k, p in (
                (3, 4, 4, 4),
                (1, 3, 4, 2),
                (3, 2, 8, 2),
                (3, 4, 4, 1),
                (3, 4, 4, 4),
            ):
                a, b = floats(2, n, m, k), floats(2, n, k, p, seed=1)
                given = np.ascontiguousarray(b.swapaxes(-1, -2)) if flags else b
                (found,) = await program.forward(a, given)
                np.testing.assert_allclose(found, a @ b, rtol=1e-5, atol=1e-6)

    wait(run())


def test_products_whose_live_batches_differ() -> None:
    g = XnnpackWriter()
    x, y = (g.value((3, 4, 4), argument=place, dynamic=True) for place in range(2))
    made = g.value((3, 4, 4), argument=2, output=True, dynamic=True)
    g.node("BatchMatrixMultiply", x, y, made)

    async def run() -> None:
        async with await load(g.method()) as program:
            with pytest.raises(ExecutionError, match="cannot be multiplied"):
                await program.forward(floats(1, 4, 4), floats(3, 4, 4))

    wait(run())


def test_softmax_is_over_the_last_dim_in_any_order() -> None:
    x = floats(2, 3, 4)
    g = XnnpackWriter()
    turned, soft = g.value((4, 2, 3)), g.value((4, 2, 3), argument=1, output=True)
    g.node("StaticTranspose", g.value(x.shape, argument=0), turned, num_dims=3, perm=(2, 0, 1))
    g.node("Softmax", turned, soft)
    e = np.exp(x.transpose(2, 0, 1))
    np.testing.assert_allclose(computed(g, x), e / e.sum(-1, keepdims=True), rtol=1e-5)


# --- attention ----------------------------------------------------------------------------------


def attention(*dims: tuple[int, ...], type: str = "fp32") -> XnnpackWriter:
    """Attention as exporters wrote it before ExecuTorch 0.7: query, key, value, scale, mask."""
    g = XnnpackWriter()
    ids = [g.value(each, type, argument=place) for place, each in enumerate(dims)]
    out = g.value((*dims[0][:-1], dims[2][-1]), type, argument=5, output=True)
    g.node("ScaledDotProductAttention", *ids, out)
    return g


def attended(q: Array, k: Array, v: Array, scale: Array, mask: Array) -> Array:
    logits = np.asarray((q * scale) @ np.swapaxes(k, -1, -2) + mask, np.float64)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return np.asarray(weights / weights.sum(-1, keepdims=True) @ v)


@pytest.mark.parametrize("outer", [(2, 3), (3,)])
def test_attention(outer: tuple[int, ...]) -> None:
    dims = ((*outer, 5, 8), (*outer, 7, 8), (*outer, 7, 6), (8,), (5, 7))
    given = [floats(*each, seed=seed) for seed, each in enumerate(dims)]
    given[4] = np.where(given[4] > 0.5, np.float32(-np.inf), given[4])
    given[4][:, 0] = 0
    np.testing.assert_allclose(computed(attention(*dims), *given), attended(*given), rtol=1e-4)


def test_attention_with_other_sizes_in_each_call() -> None:
    g = XnnpackWriter()
    sizes = ((1, 2, 9, 4), (1, 2, 9, 4), (1, 2, 9, 4), (4,), (9, 9))
    ids = [g.value(each, argument=at, dynamic=at != 3) for at, each in enumerate(sizes)]
    out = g.value(sizes[0], argument=5, output=True, dynamic=True)
    g.node("ScaledDotProductAttention", *ids, out)

    async def run() -> None:
        async with await load(g.method()) as program:
            for rows, keys in ((9, 9), (1, 4), (3, 2)):
                shapes = (1, 2, rows, 4), (1, 2, keys, 4), (1, 2, keys, 4), (4,), (rows, keys)
                given = [floats(*shape, seed=rows) for shape in shapes]
                (found,) = await program.forward(*given)
                np.testing.assert_allclose(np.asarray(found), attended(*given), rtol=1e-4)

    wait(run())


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        (((2, 3, 5, 8), (2, 3, 7, 4), (2, 3, 7, 8), (8,), (5, 7)), "attention of"),
        (((2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 6, 8), (8,), (5, 7)), "attention of"),
        (((5, 8), (7, 8), (7, 8), (8,), (5, 7)), "attention of"),
        (((2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 8), (4,), (5, 7)), "attention of"),
        (((2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 8), (8,), (3, 5, 7)), "attention of"),
    ],
)
def test_attention_of_values_that_do_not_fit(dims: Any, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        graph_of(attention(*dims))


def test_attention_with_fewer_heads_of_keys_is_refused() -> None:
    """XNNPACK took keys and values without heads; no exporter wrote them."""
    dims = ((2, 3, 5, 8), (2, 7, 8), (2, 7, 8), (8,), (5, 7))
    with pytest.raises(UnsupportedOpError, match=r"ScaledDotProductAttention\(with fewer heads"):
        computed(attention(*dims), *[floats(*each) for each in dims])


def test_attention_of_bytes_is_refused() -> None:
    g = XnnpackWriter()
    sizes = ((3, 5, 8), (3, 7, 8), (3, 7, 8), (8,), (5, 7))
    ids = [g.value(each, argument=place) for place, each in enumerate(sizes)]
    query = g.value(sizes[0], "qint8", quant=per_tensor(0.1))
    g.node("Convert", ids[0], query)
    g.node("ScaledDotProductAttention", query, *ids[1:], g.value(sizes[0], argument=5, output=True))
    with pytest.raises(UnsupportedOpError, match=r"ScaledDotProductAttention\(of 8 bits\)"):
        computed(g, *[floats(*each) for each in sizes])

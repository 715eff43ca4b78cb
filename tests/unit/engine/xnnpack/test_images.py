"""Convolutions, pools and resizing of XNNPACK graphs: values in NHWC, computed in NCHW."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.graphs.graphs import load, read_graph, wait
from support.graphs.xnnpack_graphs import (
    computed,
    convolved,
    deconvolved,
    graph_of,
    names_of,
    unary,
    window,
)
from support.write.xnnpack_writer import XnnpackWriter, floats, per_channel, per_row, per_tensor
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.errors import GraphError, UnsupportedOpError

DATA = Path(__file__).parents[3] / "data" / "format"
SIDES = {"top": 0, "right": 0, "bottom": 0, "left": 0}


def convolution(
    kind: str,
    weights: np.ndarray[Any, Any],
    dims: tuple[int, ...],
    out: tuple[int, ...],
    *,
    bias: np.ndarray[Any, Any] | None = None,
    type: str = "fp32",
    weight_type: str = "fp32",
    channels_last: bool = False,
    **options: Any,
) -> XnnpackWriter:
    """A convolution between an input and an output of a method, which are NHWC."""
    g = XnnpackWriter()
    order = (0, 2, 3, 1) if channels_last else None
    x = g.value(dims, type, argument=0, dim_order=order)
    w = g.value(weights.shape, weight_type, constant=weights)
    b = None if bias is None else g.value(bias.shape, weight_type, constant=bias)
    y = g.value(out, type, argument=1, output=True, dim_order=order)
    fields: dict[str, Any] = {
        **SIDES,
        "kernel": weights.shape[1:3],
        "stride": (1, 1),
        "dilation": (1, 1),
        "adjustment": (0, 0),
        "groups": 1,
        "inputs": weights.shape[3],
        "outputs": weights.shape[0],
        **options,
    }
    g.node(kind, x, w, b, y, **fields)
    return g


X, W, B = floats(2, 6, 7, 4), floats(6, 3, 2, 2, seed=1), floats(6, seed=2)
GROUPED: dict[str, Any] = {"groups": 2, "inputs": 2, "outputs": 3}


@pytest.mark.parametrize(
    ("sides", "stride", "dilation"),
    [
        ((0, 0, 0, 0), (1, 1), (1, 1)),
        ((1, 1, 1, 1), (2, 3), (1, 2)),
        ((2, 3, 1, 0), (1, 2), (2, 1)),
        ((0, 1, 1, 0), (2, 2), (1, 1)),
    ],
)
def test_convolutions_in_groups(
    sides: tuple[int, ...], stride: tuple[int, int], dilation: tuple[int, int]
) -> None:
    want = convolved(X, W, sides=sides, stride=stride, dilation=dilation, groups=2) + B
    names = dict(zip(("top", "right", "bottom", "left"), sides, strict=True))
    options: dict[str, Any] = {**GROUPED, **names, "stride": stride, "dilation": dilation}
    g = convolution("Conv2d", W, X.shape, want.shape, bias=B, **options)
    np.testing.assert_allclose(computed(g, X), want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("limits", [(0, math.inf), (-0.5, 0.5), (-math.inf, 0.25), (0.1, 0.1)])
@pytest.mark.parametrize("kind", ["Conv2d", "ConvTranspose2d"])
def test_limits_of_convolutions(kind: str, limits: tuple[float, float]) -> None:
    free = (convolved if kind == "Conv2d" else deconvolved)(X, W, groups=2) + B
    g = convolution(kind, W, X.shape, free.shape, bias=B, clamp=limits, **GROUPED)
    np.testing.assert_allclose(computed(g, X), np.clip(free, *limits), rtol=1e-4, atol=1e-5)


def test_depthwise_with_a_multiplier() -> None:
    """Output channel `group * multiplier + m` is the last dim of the weights in the file."""
    w = floats(1, 3, 2, 8, seed=3)
    want = convolved(X, w.transpose(3, 1, 2, 0), sides=(1, 0, 0, 2), groups=4)
    options: dict[str, Any] = {"groups": 4, "inputs": 1, "outputs": 2, "top": 1, "left": 2}
    g = convolution("DepthwiseConv2d", w, X.shape, want.shape, **options)
    np.testing.assert_allclose(computed(g, X), want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {"stride": (1, 1)},
        {"stride": (2, 3), "adjustment": (1, 2)},
        {"stride": (2, 2), "padding": 1, "dilation": (1, 2)},
    ],
)
def test_transposed_convolutions_in_groups(options: dict[str, Any]) -> None:
    want = deconvolved(X, W, groups=2, **options) + B
    padding = options.pop("padding", 0)
    options |= dict.fromkeys(SIDES, padding)
    g = convolution("ConvTranspose2d", W, X.shape, want.shape, bias=B, **GROUPED, **options)
    np.testing.assert_allclose(computed(g, X), want, rtol=1e-4, atol=1e-5)


def test_halves_with_float_weights() -> None:
    want = convolved(X, W, groups=2) + B
    g = convolution("Conv2d", W, X.shape, want.shape, bias=B, type="fp16", **GROUPED)
    found = computed(g, X.astype(np.float16))
    assert found.dtype == np.float16
    np.testing.assert_allclose(found, want, rtol=2e-2, atol=2e-2)


def test_channels_last_arguments_need_no_permutation() -> None:
    """The method has NCHW sizes whose memory is NHWC, which is what XNNPACK computes on."""
    want = convolved(X, W, groups=2)
    g = convolution("Conv2d", W, X.shape, want.shape, channels_last=True, **GROUPED)
    assert names_of(g) == ["aten.convolution.default"]
    turned = X.transpose(0, 3, 1, 2)
    np.testing.assert_allclose(
        computed(g, turned), want.transpose(0, 3, 1, 2), rtol=1e-4, atol=1e-5
    )


def test_nothing_is_permuted_between_the_layers_of_a_real_net() -> None:
    """An UNet of ExecuTorch: convolutions, pools, upsampling, and maps that are joined."""
    graph = read_graph((DATA / "xnnpack_unet.pte").read_bytes())
    names = [call.name for call in graph.calls]
    assert names.count("aten.convolution.default") == 5
    assert "aten.cat.default" in names
    assert "aten.permute_copy.default" not in names


def test_transposes_cancel_out() -> None:
    g = XnnpackWriter()
    x, y = g.value((2, 4, 6, 7), argument=0), g.value((2, 6, 5, 6), argument=1, output=True)
    image, made = g.value((2, 6, 7, 4)), g.value((2, 5, 6, 6))
    weights = floats(6, 2, 2, 4)
    w = g.value(weights.shape, constant=weights)
    g.node("StaticTranspose", x, image, num_dims=4, perm=(0, 2, 3, 1))
    fields: dict[str, Any] = {"kernel": (2, 2), "stride": (1, 1), "dilation": (1, 1), **SIDES}
    fields |= {"groups": 1, "inputs": 4, "outputs": 6}
    g.node("Conv2d", image, w, None, made, **fields)
    g.node("StaticTranspose", made, y, num_dims=4, perm=(0, 3, 1, 2))
    assert names_of(g) == ["aten.convolution.default"]
    want = convolved(X, weights).transpose(0, 3, 1, 2)
    np.testing.assert_allclose(computed(g, X.transpose(0, 3, 1, 2)), want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("type", ["fp32", "fp16"])
@pytest.mark.parametrize("kind", ["Conv2d", "ConvTranspose2d"])
def test_images_that_are_rounded_in_each_run_and_where_the_report_says_so(
    kind: str, type: str
) -> None:
    """The sums are exact in float32, and the report names an operator in floats."""
    random = np.random.default_rng(5)
    w = random.integers(-127, 128, (6, 3, 2, 4)).astype(np.int8)
    steps = random.uniform(0.01, 0.02, 6).astype(np.float32)
    g = XnnpackWriter()
    x = g.value((1, 6, 7, 4), type, argument=0)
    rounded = g.value((1, 6, 7, 4), "qdint8", quant=per_row(3))
    weight = g.value(w.shape, "qcint8", constant=w, quant=per_channel(steps.tolist()))
    bias = g.value((6,), constant=B)
    dims = (1, 4, 6, 6) if kind == "Conv2d" else (1, 8, 8, 6)
    made = g.value(dims, type, argument=1, output=True)
    fields: dict[str, Any] = {"kernel": (3, 2), "stride": (1, 1), "dilation": (1, 1), **SIDES}
    fields |= {"adjustment": (0, 0), "groups": 1, "inputs": 4, "outputs": 6}
    g.node("Convert", x, rounded)
    g.node(kind, rounded, weight, bias, made, **fields)
    given = X[:1].astype(np.float16 if type == "fp16" else np.float32)
    low, high = min(0.0, float(given.min())), max(0.0, float(given.max()))
    scale = (high - low) / 255
    zero = round(-128 - low / scale)
    whole = np.clip(np.rint(given.astype(np.float32) / scale) + zero, -128, 127) - zero
    want = (convolved if kind == "Conv2d" else deconvolved)(whole * scale, w) * steps + B

    async def run() -> None:
        device = SimulatedDevice(features=("shader-f16",))
        async with await load(g.method(), device=device) as program:
            (found,) = await program.forward(given)
            assert found.dtype == given.dtype
            np.testing.assert_allclose(found, want, rtol=1e-3, atol=1e-3 * abs(want).max())
            placed = {row.op: row.where for row in program.report}
            assert placed["webpte.dq8_conv_in_floats.default"] == "gpu"
            assert "host" not in placed.values()

    wait(run())


# --- pools --------------------------------------------------------------------------------------


def pool(kind: str, out: tuple[int, ...], **options: Any) -> XnnpackWriter:
    fields = {**SIDES, "kernel": (2, 3), "stride": (2, 2), "dilation": (1, 1), **options}
    return unary(kind, X.shape, out, **fields)


def pooled(x: np.ndarray[Any, Any], of: Any, step: int = 1) -> np.ndarray[Any, Any]:
    """Windows of 2 x 3 with a stride of 2 of padded images."""
    rows = range(0, x.shape[1] - step, 2)
    columns = range(0, x.shape[2] - 2 * step, 2)
    return np.stack(
        [
            np.stack(
                [
                    of(x[:, i : i + step + 1 : step, j : j + 2 * step + 1 : step], axis=(1, 2))
                    for j in columns
                ],
                1,
            )
            for i in rows
        ],
        1,
    )


@pytest.mark.parametrize("sides", [(0, 0, 0, 0), (1, 1, 1, 1), (0, 2, 1, 0)])
def test_max_pools(sides: tuple[int, ...]) -> None:
    want = pooled(window(X, sides, -math.inf), np.max)
    names = dict(zip(("top", "right", "bottom", "left"), sides, strict=True))
    np.testing.assert_array_equal(computed(pool("MaxPooling2d", want.shape, **names), X), want)


def test_max_pools_with_dilation_and_limits() -> None:
    want = pooled(X, np.max, step=2)
    g = pool("MaxPooling2d", want.shape, dilation=(2, 2), clamp=(0.0, 0.5))
    np.testing.assert_array_equal(computed(g, X), np.clip(want, 0, 0.5))


@pytest.mark.parametrize("sides", [(1, 1, 1, 1), (0, 1, 1, 0), (1, 0, 0, 1), (0, 0, 1, 1)])
def test_average_pools_count_only_what_is_inside(sides: tuple[int, ...]) -> None:
    total = pooled(window(X.astype(np.float64), sides), np.sum)
    count = pooled(window(np.ones_like(X), sides), np.sum)
    options = dict(zip(SIDES, sides, strict=True))
    g = pool("AvgPooling2d", total.shape, clamp=(-0.2, 0.2), flags=0x40, **options)
    want = np.clip(total / count, -0.2, 0.2)
    np.testing.assert_allclose(computed(g, X), want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("out", "flags"), [((2, 1, 1, 4), 0x40), ((2, 4), 0)])
def test_means_of_images(out: tuple[int, ...], flags: int) -> None:
    want = X.mean((1, 2)).reshape(out)
    found = computed(unary("GlobalAvgPooling2d", X.shape, out, flags=flags), X)
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-6)
    limited = unary("GlobalAvgPooling2d", X.shape, out, flags=flags, clamp=(0.0, 0.05))
    np.testing.assert_allclose(computed(limited, X), np.clip(want, 0, 0.05), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("aligned", [False, True])
def test_resizing(aligned: bool) -> None:
    x = floats(1, 3, 4, 2)
    size = (5, 7)
    flags = 8 if aligned else 0
    found = computed(
        unary("StaticResizeBilinear2D", x.shape, (1, *size, 2), flags=flags, size=size), x
    )
    rows, columns = (
        np.arange(n) * (m - 1) / (n - 1)
        if aligned
        else np.clip((np.arange(n) + 0.5) * m / n - 0.5, 0, m - 1)
        for n, m in zip(size, x.shape[1:3], strict=True)
    )
    want = np.zeros((1, *size, 2))
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            top, left = min(int(row), 1), min(int(column), 2)
            down, right = row - top, column - left
            a, b = (
                x[0, at, left] * (1 - right) + x[0, at, left + 1] * right for at in (top, top + 1)
            )
            want[0, i, j] = a * (1 - down) + b * down
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-5)


# --- refused nodes ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("g", "message"),
    [
        (pool("MaxPooling2d", (2, 3, 3, 4), flags=4), "node 0 (MaxPooling2d): flags 0x4 are not"),
        (pool("AvgPooling2d", (2, 3, 3, 4), flags=4), "node 0 (AvgPooling2d): flags 0x4 are not"),
        (pool("MaxPooling2d", (2, 4, 4, 4), top=2), "a pool with windows outside of the image"),
        (pool("MaxPooling2d", (2, 4, 4, 4), right=3), "a pool with windows outside of the image"),
        (
            unary("StaticResizeBilinear2D", X.shape, (2, 5, 5, 4), flags=4, size=(5, 5)),
            "flags 0x4 are not supported",
        ),
        (unary("GlobalAvgPooling2d", (3, 4, 5), (1, 1, 5)), "an image has 4 dims"),
        (convolution("Conv2d", W, X.shape, (2, 4, 6, 6), flags=4, **GROUPED), "flags 0x4 are not"),
        (convolution("Conv2d", W, X.shape, (2, 4, 6, 6), groups=0), "where the node has"),
        (convolution("Conv2d", W, X.shape, (4, 6, 6), **GROUPED), "[4, 6, 6] has not 4 dims"),
        (
            convolution("Conv2d", W, X.shape, (2, 4, 6, 6), bias=B[:1], **GROUPED),
            "a bias [1] for 6 channels",
        ),
        (
            convolution(
                "DepthwiseConv2d",
                floats(1, 3, 2, 8),
                X.shape,
                (2, 4, 6, 8),
                groups=4,
                inputs=2,
                outputs=2,
            ),
            "where the node has",
        ),
        (
            convolution("ConvTranspose2d", W, X.shape, (2, 7, 8, 6), top=1, **GROUPED),
            "a transposed convolution with other paddings at the end",
        ),
    ],
)
def test_refused(g: XnnpackWriter, message: str) -> None:
    with pytest.raises(GraphError) as raised:
        graph_of(g)
    assert message in str(raised.value)


def test_live_sizes_of_images_over_several_calls() -> None:
    g = XnnpackWriter()
    x = g.value((4, 8, 9, 4), argument=0, dynamic=True)
    w = g.value(W.shape, constant=W)
    made = g.value((4, 6, 8, 6), argument=1, output=True, dynamic=True)
    fields: dict[str, Any] = {"kernel": (3, 2), "stride": (1, 1), "dilation": (1, 1), **SIDES}
    g.node("Conv2d", x, w, None, made, clamp=(0.0, math.inf), **fields, **GROUPED)

    async def run() -> None:
        async with await load(g.method()) as program:
            for dims in ((4, 8, 9, 4), (1, 3, 2, 4), (2, 6, 7, 4), (4, 8, 9, 4)):
                images = floats(*dims, seed=sum(dims))
                (found,) = await program.forward(images)
                want = np.maximum(convolved(images, W, groups=2), 0)
                np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-5)

    wait(run())


@pytest.mark.parametrize("type", ["int32", "fp32"])
def test_places_of_maxima(type: str) -> None:
    """XNNPACK computes places as int32; exporters wrote the type of the maxima for them."""
    g = XnnpackWriter()
    x = g.value((2, 4, 6, 3), argument=0)
    best = g.value((2, 1, 6, 3), argument=1, output=True)
    places = g.value((2, 1, 6, 3), type, argument=2, output=True, host="int64")
    fields: dict[str, Any] = {**SIDES, "kernel": (4, 1)}
    g.node("ArgMaxPooling2d", x, best, places, **fields)
    given = floats(2, 4, 6, 3)
    maxima, found = computed(g, given)
    np.testing.assert_array_equal(maxima, given.max(1, keepdims=True))
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, given.argmax(1)[:, np.newaxis])


def test_places_of_maxima_of_bytes_are_refused() -> None:
    g = XnnpackWriter()
    x = g.value((2, 4, 6, 3), "qint8", quant=per_tensor(0.1))
    g.node("Convert", g.value((2, 4, 6, 3), argument=0), x)
    best = g.value((2, 1, 6, 3), argument=1, output=True)
    places = g.value((2, 1, 6, 3), "int32", argument=2, output=True)
    fields: dict[str, Any] = {**SIDES, "kernel": (4, 1)}
    g.node("ArgMaxPooling2d", x, best, places, **fields)
    with pytest.raises(UnsupportedOpError, match=r"ArgMaxPooling2d\(of 8 bits\)"):
        computed(g, floats(2, 4, 6, 3))

"""The kernels of fused calls on the native device, as a GPU runs them, against the references."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import webpte
from support.devices import native
from support.devices.native import need_native
from support.graphs.conv_graphs import BLOCKS, activation_norm, conv_block
from support.graphs.encoder_graphs import (
    WRITTEN,
    Encoder,
    Written,
    encoder_layer,
    written_attention,
)
from support.graphs.fusion_graphs import (
    HEADS,
    RESIDUALS,
    SHAPES,
    SIZES,
    Heads,
    Sizes,
    attention,
    attention_steps,
    chains,
    normed,
    residual_conv,
)
from support.graphs.graphs import wait
from support.harness import extent
from support.write.pte_writer import GraphWriter, write_pte
from webpte.engine.ops.conv import conv_window
from webpte.engine.ops.gemm import gemm_small, gemv_q4

LARGE_BLOCKS = ((gemm_small.SmallTile(4, 4, blocks=2), 0),)


@pytest.fixture(scope="module", autouse=True)
def _driver() -> None:
    need_native()


def compare(
    graph: GraphWriter,
    steps: Sequence[Sequence[np.ndarray]],
    tolerance: float,
    adapter: str = "gpu",
) -> None:
    wait(native.compare(write_pte(graph), steps, tolerance, adapter))


CASES = [("gated", "q4", sizes) for sizes in SIZES[1:6]]
CASES += [("normed", "q4", SIZES[1]), ("normed", "int8", SIZES[3]), ("gated", "int8", SIZES[0])]
CASES += [("residual", kind, SIZES[3]) for kind in ("q4", "float")]
CASES += [("normed", "int8", SIZES[0]), ("residual", "q4", SIZES[5])]
CASES += [("gated", "float", SIZES[i]) for i in (1, 3, 4, 6)] + [("normed", "float", SIZES[6])]
CASES += [("gated", "rounded", SIZES[i]) for i in (1, 3)] + [("normed", "rounded", SIZES[6])]
CASES += [("residual", "rounded", SIZES[i]) for i in (2, 5)]
CASES += [("normed", "qd8", SIZES[1]), ("gated", "qd8", SIZES[3]), ("residual", "qd8", SIZES[2])]
CASES += [("residual", "qd8", SIZES[5]), ("normed", "qd8", SIZES[0])]


@pytest.mark.parametrize(("shape", "kind", "sizes"), extent.share(CASES, 2), ids=str)
def test_kernels(shape: str, kind: str, sizes: Sizes) -> None:
    graph, inputs = SHAPES[shape](sizes, kind)
    # Rounding to int8 may go either way.
    compare(graph, [inputs], tolerance=2e-3 if kind in ("rounded", "qd8") else 1e-5)


def test_one_row_of_many_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several turns, all of whose x is in shared memory at once."""
    monkeypatch.setattr(gemv_q4, "MANY_ROWS", 100)
    graph, inputs = normed(SIZES[1], "q4")
    compare(graph, [inputs], tolerance=1e-5)


@pytest.mark.parametrize("enough", [1, conv_window.ENOUGH])
def test_residuals_of_convolutions(enough: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes with enough workgroups for windows in workgroup memory, and without."""
    monkeypatch.setattr(conv_window, "ENOUGH", enough)
    for case in RESIDUALS:
        graph, inputs = residual_conv(case)
        compare(graph, [inputs], tolerance=1e-5)


def test_what_is_around_convolutions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows in workgroup memory in place of the default tile."""
    for case in BLOCKS:
        enough = 1 if case.channels[0] == 12 else conv_window.ENOUGH
        monkeypatch.setattr(conv_window, "ENOUGH", enough)
        graph, inputs = conv_block(case)
        compare(graph, [inputs], tolerance=1e-5)


@pytest.mark.parametrize(("dims", "activation"), [((2, 3, 5, 7), "relu"), ((1, 6, 8), "clamp")])
def test_batch_norms(dims: tuple[int, ...], activation: str) -> None:
    net, _, inputs = activation_norm(dims, activation)
    compare(net.g, [inputs], tolerance=1e-5)


def test_chains() -> None:
    for graph, inputs in chains():
        compare(graph, [inputs], tolerance=1e-5)


@pytest.mark.parametrize("heads", extent.share(HEADS, 2), ids=str)
def test_attention(heads: Heads) -> None:
    net = attention(heads)
    compare(net.g, attention_steps(net, heads), tolerance=1e-5)


@pytest.mark.parametrize("heads", extent.some([HEADS[1]], HEADS[2], HEADS[5]), ids=str)
def test_attention_of_floats(heads: Heads) -> None:
    net = attention(heads, "float")
    compare(net.g, attention_steps(net, heads), tolerance=1e-5)


def test_attention_of_rounded_rows() -> None:
    net = attention(HEADS[1], "rounded")
    compare(net.g, attention_steps(net, HEADS[1]), tolerance=5e-3)


@pytest.mark.parametrize("case", extent.share(WRITTEN, 2), ids=str)
def test_written_attention(case: Written) -> None:
    net, inputs = written_attention(case)
    compare(net.g, [inputs], tolerance=1e-5)


def encoder(tokens: int = 37) -> tuple[Encoder, list[np.ndarray]]:
    net = Encoder()
    x = net.g.tensor((1, tokens, 36))
    return net, net.finish((x,), encoder_layer(net, x, 3, 68))


@pytest.mark.parametrize("blocks", [1, 2])
def test_encoder_layer(blocks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both tiles of small GEMMs: the larger one has more sums per invocation."""
    if blocks == 2:
        monkeypatch.setattr(gemm_small, "TILES", dict.fromkeys((True, False), LARGE_BLOCKS))
    net, inputs = encoder()
    compare(net.g, [inputs], tolerance=1e-5)


def test_encoder_layer_of_few_rows() -> None:
    net, inputs = encoder(tokens=3)
    compare(net.g, [inputs], tolerance=1e-5)


def test_products_one_step_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gemm_small, "FEW", 0)
    net, inputs = encoder()
    compare(net.g, [inputs], tolerance=1e-5)


@pytest.mark.parametrize(
    ("shape", "kind", "sizes"),
    extent.share(
        [
            *(
                (shape, "q4", sizes)
                for shape in ("gated", "normed")
                for sizes in (SIZES[0], SIZES[2])
            ),
            *(("gated", kind, SIZES[2]) for kind in ("float", "rounded")),
        ]
    ),
    ids=str,
)
def test_half_floats(shape: str, kind: str, sizes: Sizes, monkeypatch: pytest.MonkeyPatch) -> None:
    if not wait(webpte.shared_device("native")).info.has_f16:
        pytest.skip("no shader-f16")
    monkeypatch.setattr(GraphWriter, "halves", True)
    graph, inputs = SHAPES[shape](sizes, kind)
    compare(graph, [inputs], tolerance=4e-3)


def test_half_floats_of_an_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    if not wait(webpte.shared_device("native")).info.has_f16:
        pytest.skip("no shader-f16")
    monkeypatch.setattr(GraphWriter, "halves", True)
    net, inputs = encoder()
    compare(net.g, [inputs], tolerance=4e-3)


def test_half_floats_of_attention(monkeypatch: pytest.MonkeyPatch) -> None:
    if not wait(webpte.shared_device("native")).info.has_f16:
        pytest.skip("no shader-f16")
    monkeypatch.setattr(GraphWriter, "halves", True)
    net = attention(HEADS[1])
    compare(net.g, attention_steps(net, HEADS[1]), tolerance=4e-3)

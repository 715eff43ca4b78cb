"""The kernels of decoders' fused calls on the native device, against the references."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import webpte
from support.decoders.epilogue_graphs import (
    EPILOGUES,
    GELU,
    RELU,
    EpilogueCase,
    gelu_gated,
    normed_sum,
    with_epilogue,
)
from support.decoders.head_graphs import CHANGED, ChangedHeads, changed_attention, changed_steps
from support.decoders.row_graphs import ALONE, ROWS, RowCase, computed_row
from support.devices import native
from support.devices.native import need_native
from support.graphs.draft_pairs import Shape, decoder_model
from support.graphs.fusion_graphs import Sizes
from support.graphs.graphs import wait
from support.harness import extent
from support.write.pte_writer import GraphWriter, write_pte


@pytest.fixture(scope="module", autouse=True)
def _driver() -> None:
    need_native()


@pytest.fixture
def _halves(monkeypatch: pytest.MonkeyPatch) -> None:
    if not wait(webpte.shared_device("native")).info.has_f16:
        pytest.skip("no shader-f16")
    monkeypatch.setattr(GraphWriter, "halves", True)


def compare(
    graph: GraphWriter,
    steps: Sequence[Sequence[np.ndarray]],
    tolerance: float,
    adapter: str = "gpu",
) -> None:
    wait(native.compare(write_pte(graph), steps, tolerance, adapter))


@pytest.mark.parametrize("case", extent.share(CHANGED, 7), ids=str)
def test_changed_heads(case: ChangedHeads) -> None:
    net = changed_attention(case)
    compare(net.g, changed_steps(net, case), 5e-3 if case.kind == "rounded" else 1e-5)


@pytest.mark.usefixtures("_halves")
@pytest.mark.parametrize("case", extent.share([CHANGED[i] for i in (0, 3, 4, 6)], 4), ids=str)
def test_changed_heads_of_f16(case: ChangedHeads) -> None:
    net = changed_attention(case)
    compare(net.g, changed_steps(net, case), 4e-3)


@pytest.mark.parametrize("case", extent.share(EPILOGUES, 4), ids=str)
def test_epilogues(case: EpilogueCase) -> None:
    graph, inputs = with_epilogue(case)
    compare(graph, [inputs], 2e-3 if case.kind == "rounded" else 1e-5)


@pytest.mark.usefixtures("_halves")
@pytest.mark.parametrize("case", extent.some([EPILOGUES[0]], EPILOGUES[4], EPILOGUES[8]), ids=str)
def test_epilogues_of_f16(case: EpilogueCase) -> None:
    graph, inputs = with_epilogue(case)
    compare(graph, [inputs], 4e-3)


@pytest.mark.parametrize(
    ("sizes", "kind", "op"),
    extent.some(
        [
            (Sizes(1, 576, 100), "q4", GELU),
            (Sizes(3, 64, 12), "int8", RELU),
            (Sizes(1, 40, 7), "float", GELU),
        ],
        (Sizes(1, 576, 100), "q4", RELU),
        (Sizes(3, 64, 12), "int8", GELU),
        (Sizes(1, 40, 7), "float", RELU),
    ),
    ids=str,
)
def test_gates(sizes: Sizes, kind: str, op: str) -> None:
    graph, inputs = gelu_gated(sizes, kind, op)
    compare(graph, [inputs], 1e-5)


@pytest.mark.parametrize("dims", [(1, 1, 64), (2, 3, 7), (5, 1000)])
def test_sums_after_norms(dims: tuple[int, ...]) -> None:
    graph, inputs = normed_sum(dims)
    compare(graph, [inputs], 1e-5)


@pytest.mark.parametrize("case", extent.share(ROWS + ALONE, 9), ids=str)
def test_rows_that_gemvs_compute(case: RowCase) -> None:
    graph, steps = computed_row(case)
    compare(graph, steps, 5e-3 if case.kind == "rounded" else 1e-5)


@pytest.mark.parametrize("case", extent.some([ROWS[1]], *ROWS), ids=str)
def test_rows_on_a_phone(case: RowCase) -> None:
    graph, steps = computed_row(case)
    compare(graph, steps, 1e-5, "phone")


@pytest.mark.usefixtures("_halves")
@pytest.mark.parametrize("case", extent.some([ROWS[1]], ROWS[5], ROWS[8]), ids=str)
def test_rows_of_f16(case: RowCase) -> None:
    graph, steps = computed_row(case)
    compare(graph, steps, 4e-3)


# With one split and with many; heads of 32 numbers and of 20.
ODD = Shape(1, 128, 192, 8, 4, 64, 80, 64, rotary=True, head=20, normed=True)
MERGED = extent.some([Shape(1, 256, 256, 8, 2, 64, 512, 64, rotary=True)], ODD)


@pytest.mark.parametrize("shape", MERGED, ids=str)
def test_shares_merged_in_the_gemv(shape: Shape) -> None:
    program = decoder_model(shape)
    places = [0, 1, 31, 63, 64] if shape.context < 100 else [0, 40, 300, 511]
    tokens = np.arange(64).reshape(1, 64) % 61
    fill = [(tokens, np.array([at])) for at in range(0, max(places) - 63, 64)]
    steps = [(np.array([[5]]), np.array([at])) for at in places]
    wait(native.compare(program, [*fill, *steps], 1e-5))

    async def kernels() -> set[str]:
        async with await webpte.load(program, device=native.shared_device()) as loaded:
            await loaded.forward(*steps[0])
            return {kernel.split()[0].rstrip(":") for kernel in loaded.kernels}

    assert "gemv_q4_shares" in wait(kernels())

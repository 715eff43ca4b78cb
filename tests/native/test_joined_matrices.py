"""Linear layers of one x as one GEMM by subgroup matrices, emulated in plain WGSL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import webpte
from support.decoders.epilogue_graphs import GELU, gelu_gated
from support.decoders.head_graphs import ChangedHeads, changed_attention, changed_steps
from support.devices.native import need_native
from support.devices.plain_matrices import matrix_device, plain_matrices
from support.graphs.fusion_graphs import Heads, Sizes, gated
from support.graphs.graphs import wait
from support.harness.extent import everything, some
from support.llm.lora_models import LORAS, folder, open_model
from support.write.pte_writer import GraphWriter, write_pte
from webpte.engine.ops.gemm.subgroup_matrix import tiles
from webpte.engine.ops.gemm.subgroup_matrix.tiles import MATRIX_TILE_CONFIGS

Array = np.ndarray


@pytest.fixture(scope="module", autouse=True)
def _plain_matrices() -> Iterator[None]:
    need_native()
    with plain_matrices():
        yield


async def results(
    program: bytes, steps: Sequence[Sequence[Array]], on: Any, options: webpte.Options
) -> tuple[list[Array], set[str]]:
    async with await webpte.load(program, device=on, options=options) as loaded:
        found = [output for inputs in steps for output in await loaded.forward(*inputs)]
        return found, {kernel.split()[0] for kernel in loaded.kernels}


def differs(
    graph: GraphWriter, steps: Sequence[Sequence[Array]], options: webpte.Options | None = None
) -> float:
    """Return the largest difference as a share of the largest element."""
    program, chosen = write_pte(graph), options or webpte.Options()
    got, kernels = wait(results(program, steps, matrix_device(), chosen))
    assert "linear_q4_multi_matrix" in kernels
    assert not {"linear_q4_subgroup_matrix", "linear_q4"} & kernels
    want, _ = wait(results(program, steps, "numpy", chosen))
    pairs = zip(got, want, strict=True)
    return max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in pairs)


# Columns that are not whole matrices, and several tiles. A driver for CPUs compiles them slowly.
@pytest.mark.parametrize(
    ("sizes", "kind", "tiling", "bound"),
    some(
        [(Sizes(17, 64, 8), "q4", 2, 2e-6)],
        (Sizes(131, 40, 39), "q4", 3, 2e-6),
        (Sizes(20, 64, 36), "rounded", 2, 2e-3),
    ),
    ids=str,
)
def test_gate_and_up(sizes: Sizes, kind: str, tiling: int, bound: float) -> None:
    graph, inputs = gated(sizes, kind)
    config = MATRIX_TILE_CONFIGS[tiling], 1
    with patch.object(tiles, "choose_whole_tile_config", lambda *_: config):
        assert differs(graph, [inputs]) < bound


_FURTHER = pytest.mark.skipif(not everything(), reason="with --all")


@_FURTHER
def test_another_gate() -> None:
    graph, inputs = gelu_gated(Sizes(20, 64, 12), "int8", GELU)
    assert differs(graph, [inputs]) < 2e-6


@_FURTHER
def test_a_gate_of_half_products() -> None:
    graph, inputs = gated(Sizes(40, 64, 20), "q4")
    assert 1e-5 < differs(graph, [inputs], webpte.Options(half_products=True)) < 2e-3


_MANY = Heads(20, 4, 2, 8, half=True, turned=8)


@pytest.mark.parametrize(
    ("case", "tiling", "k_parts"),
    some(
        [(ChangedHeads(_MANY, "added bias", "int8"), 2, 2)],
        (ChangedHeads(_MANY, "", norm=""), 2, 1),
        (ChangedHeads(Heads(33, 5, 1, 20), "bias", norm="layer"), 1, 1),
    ),
    ids=str,
)
def test_queries_keys_and_values(case: ChangedHeads, tiling: int, k_parts: int) -> None:
    net, config = changed_attention(case), (MATRIX_TILE_CONFIGS[tiling], k_parts)
    with patch.object(tiles, "choose_matrix_tile_config", lambda *_: config):
        assert differs(net.g, changed_steps(net, case)) < 1e-5


@_FURTHER
def test_half_floats(monkeypatch: pytest.MonkeyPatch) -> None:
    if not wait(webpte.shared_device("native")).info.has_f16:
        pytest.skip("no shader-f16")
    monkeypatch.setattr(GraphWriter, "halves", True)
    case = ChangedHeads(_MANY, "bias")
    net = changed_attention(case)
    assert differs(net.g, changed_steps(net, case)) < 4e-3


@_FURTHER
def test_a_prompt_with_a_lora() -> None:
    """The branches of a LoRA are added after the GEMM of q, k and v."""

    async def logits(on: Any) -> tuple[Array, set[str]]:
        async with await open_model("llama_4w", on) as program:
            name, *_ = LORAS
            await webpte.llm.use_lora(
                program, await webpte.llm.load_lora(program, folder() / "llama_4w" / name)
            )
            (found, *_) = await program.forward(np.arange(1, 25)[None], np.array([0]))
            return found, {kernel.split()[0] for kernel in program.kernels}

    got, kernels = wait(logits(matrix_device()))
    want, _ = wait(logits("numpy"))
    assert "gemm_split_k_sum_qkv" in kernels
    assert float(np.abs(got - want).max() / np.abs(want).max()) < 1e-5

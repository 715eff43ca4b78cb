"""The GEMV behind attention adds up its shares where that is faster, and the only reader."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from support.graphs.fusion_graphs import llama_layers
from support.graphs.graphs import build_graph, make_planner
from webpte.engine.ops.core.adapter_classes import LARGE
from webpte.engine.ops.core.target import Target
from webpte.engine.rewrite.fusion import fuse

GPU = Target(storage_buffers=10)
SMALL: dict[str, Any] = {"heads": 9, "key_heads": 3, "hidden": 1536}
MERGED = ("attention_flash_split_rope", "gemv_q4_shares")
APART = ("attention_flash_split_rope", "attention_flash_reduce", "gemv_q4")


def around_attention(target: Target = GPU, fused: bool = True, **sizes: Any) -> tuple[str, ...]:
    graph = build_graph(llama_layers(1, **sizes))
    planner, _ = make_planner(fuse(graph) if fused else graph, target)
    planner.lower_all()
    names = [dispatch.kernel for dispatch in planner.dispatches()]
    begin = names.index(next(name for name in names if name.startswith("attention_flash_split")))
    return tuple(names[begin : begin + len(MERGED if "gemv_q4_shares" in names else APART)])


def test_a_narrow_model_saves_a_dispatch() -> None:
    assert around_attention(**SMALL) == MERGED


def test_a_wide_model_reads_too_much() -> None:
    assert around_attention() == APART


def test_few_cores_read_slowly() -> None:
    sizes: dict[str, Any] = {"heads": 16, "key_heads": 8, "hidden": 3072}
    assert around_attention(**sizes) == MERGED
    slow = replace(GPU, adapter=replace(LARGE, cores=4))
    assert around_attention(slow, **sizes) == APART


def test_a_long_cache_wants_more_splits() -> None:
    assert around_attention(**SMALL, context=4096) == MERGED
    assert around_attention(**SMALL, context=8192) == APART


def test_a_result_that_the_caller_wants_is_written() -> None:
    """Attention's output and a view of it are outputs of the graph."""
    for name in ("attention", "view"):
        g = llama_layers(1, **SMALL)
        calls = list(build_graph(g).calls)
        at = next(i for i, call in enumerate(calls) if "sdpa" in call.name)
        wanted = calls[at if name == "attention" else at + 1].args[-1]
        g.outputs(*build_graph(g).outputs, wanted)
        planner, _ = make_planner(fuse(build_graph(g)), GPU)
        planner.lower_all()
        assert "attention_flash_reduce" in [dispatch.kernel for dispatch in planner.dispatches()]


def test_without_fusion_every_call_is_its_own() -> None:
    assert "gemv_q4_shares" not in around_attention(fused=False, **SMALL)

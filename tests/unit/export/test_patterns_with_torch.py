"""Real exports of models that look like the exporter's patterns, and mean something else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.graphs.graphs import wait

torch = pytest.importorskip("torch")
pytest.importorskip("executorch.exir")

import webpte  # noqa: E402
from webpte_export import export  # noqa: E402
from webpte_export.exporter_patches import patch_exporter  # noqa: E402

RMS, RNG = "et_vk.rms_norm.default", torch.Generator().manual_seed(0)
TWO = tuple(torch.randn(2, 7, 32, generator=RNG) for _ in range(2))


class Function(torch.nn.Module):  # type: ignore[name-defined,misc]
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.vector = torch.nn.Parameter(torch.randn(32, generator=RNG))

    def forward(self, *given: Any) -> Any:
        return self.function(self.vector, *given)


def rms(x: Any, eps: Any = 1e-6, scale: float = 1) -> Any:
    return x * torch.rsqrt(torch.add(x.pow(2).mean(-1, keepdim=True), eps, alpha=scale))


def exported(path: Path, function: Callable[..., Any], *given: Any) -> Counter[str]:
    """Export, compare with PyTorch, and return the operators of the program."""
    report = export(Function(function), given, path / "m")
    assert report.passed, report.text()
    program = wait(webpte.load(report.program, device="numpy"))
    return Counter(program.methods["forward"].ops)


def test_a_norm_is_fused_with_a_weight_and_not_with_another_factor(tmp_path: Path) -> None:
    def norms(w: Any, x: Any, y: Any, square: Any) -> Any:
        return (
            rms(x) * w,  # the only factor that is a weight
            rms(x) * y,
            rms(x) * (1 + y[:, :1]),
            rms(x.view(2, 7, 4, 8)) * w.view(4, 8),
            rms(x) * w[:1],
            rms(x) * 2.5,
            rms(x, 0.25, 3) * w,
            rms(x, w[0].abs()) * w,
            rms(square) * w[:, None],
            rms(rms(square * 3, 0.5), 0.1),
        )

    assert exported(tmp_path, norms, *TWO, torch.randn(1, 32, 32, generator=RNG))[RMS] == 1


def halves(xs: Any, cos: Any, sin: Any, axis: int = 1) -> Any:
    """Rotate pairs that lie half of a table's width apart; pass the rest on."""
    cos, sin = cos.unsqueeze(axis), sin.unsqueeze(axis)
    width = cos.shape[-1]

    def rotated(x: Any) -> Any:
        part, rest = x[..., :width], x[..., width:]
        half = torch.cat((-part[..., width // 2 :], part[..., : width // 2]), -1)
        return torch.cat([part * cos + half * sin, rest], -1)

    return [rotated(x) for x in xs]


def neighbours(xs: Any, cos: Any, sin: Any, order: int = 1, axis: int = -1) -> Any:
    """Rotate pairs of elements, which `axis` tells apart, the first first if `order` is 1."""
    split = (-1, 2) if axis == -1 else (2, -1)
    q, k = (x.reshape(*x.shape[:-1], *split).unbind(axis)[::order] for x in xs)
    cos, sin = cos.view(1, 5, 1, 4), sin.view(1, 5, 1, 4)
    both = [(a * cos - b * sin, a * sin + b * cos) for a, b in (q, k)]
    return [torch.stack(pair, -1).flatten(3) for pair in both]


def test_a_rotary_embedding_is_fused_if_the_operator_gives_the_same(tmp_path: Path) -> None:
    def rotated(_: Any, q: Any, k: Any, cos: Any, sin: Any, pairs: Any, other: Any) -> Any:
        return (
            *halves((q, k), cos[:5], sin[:5]),  # as the operator of halves
            *neighbours((q, k), pairs, other),  # as the operator of neighbours
            *halves((q, k), cos[:3], sin[:3], 0),  # heads in place of tokens
            *halves((q, k), cos[:5][:, :4], sin[:5][:, :4]),  # some columns of the tables
            *halves((q, k), cos[1:6], sin[2:7]),  # other rows for each table
            *neighbours((q, k), pairs, other, -1),  # pairs swapped
            *neighbours((q, k), pairs, other, 1, -2),  # pairs that are no neighbours
        )

    given = ((1, 5, 3, 8), (1, 5, 3, 8), (9, 6), (9, 6), (5, 4), (5, 4))
    ops = exported(tmp_path, rotated, *(torch.randn(shape, generator=RNG) for shape in given))
    assert {name: n for name, n in ops.items() if "rotary" in name} == {
        "et_vk.apply_rotary_emb_hf.default": 1,
        "et_vk.apply_rotary_emb.default": 1,
    }


def quantized(x: Any, zero: int = 0) -> Any:
    """Round to int8 and back, as a statically quantized model does."""
    given = torch.ops.quantized_decomposed.quantize_per_tensor(x, 0.05, zero, -128, 127, torch.int8)
    return torch.ops.quantized_decomposed.dequantize_per_tensor(
        given, 0.05, zero, -128, 127, torch.int8
    )


def test_a_quantized_sum_keeps_its_relu_and_its_factor() -> None:
    patch_exporter()
    from executorch.backends.vulkan.partitioner.vulkan_partitioner import VulkanPartitioner
    from executorch.exir import to_edge_transform_and_lower

    def sums(_: Any, x: Any, y: Any) -> Any:
        x, y = quantized(x), quantized(y)
        return (
            quantized(x + y),
            quantized(torch.relu(x + y), -128),  # where nothing is below 0
            quantized(torch.relu(x + y)),
            quantized(torch.add(x, y, alpha=2)),
        )

    model, given = Function(sums), tuple(x / 2 for x in TWO)
    program = to_edge_transform_and_lower(
        torch.export.export(model, TWO), partitioner=[VulkanPartitioner()]
    )
    opened = wait(webpte.load(program.to_executorch().buffer, device="numpy"))
    assert opened.methods["forward"].ops["et_vk.q8ta_add.default"] == 2
    found = wait(opened.forward(*(x.numpy() for x in given)))
    for result, expected in zip(found, model(*given), strict=True):
        np.testing.assert_allclose(result, expected.detach().numpy(), atol=0.11)

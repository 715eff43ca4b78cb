"""Real exports of models that look like what the exporter fuses, and mean something else."""

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

RMS, TWO = "et_vk.rms_norm.default", (torch.randn(2, 7, 32), torch.randn(2, 7, 32))


class Function(torch.nn.Module):  # type: ignore[name-defined,misc]
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.vector = torch.nn.Parameter(torch.randn(32))

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
            rms(x) * w,  # the only one that has a weight
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

    assert exported(tmp_path, norms, *TWO, torch.randn(1, 32, 32))[RMS] == 1


def halves(x: Any, cos: Any, sin: Any) -> Any:
    half = x.shape[-1] // 2
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin


def neighbours(x: Any, cos: Any, sin: Any, order: int = 1, axis: int = -1) -> Any:
    """Rotate pairs of a tensor that `axis` splits into their first and second elements."""
    shape = (-1, 2) if axis == -1 else (2, -1)
    a, b = x.reshape(*x.shape[:-1], *shape).unbind(axis)[::order]
    return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(3)


def test_a_rotary_embedding_is_fused_if_the_operator_gives_the_same(tmp_path: Path) -> None:
    def rotated(_: Any, q: Any, k: Any, cos: Any, sin: Any) -> Any:
        def by_halves(x: Any, c: Any, s: Any) -> Any:
            return halves(x, c.unsqueeze(1), s.unsqueeze(1))

        def by_neighbours(x: Any, *how: int) -> Any:
            table = (t[:5, :4].reshape(1, 5, 1, 4) for t in (cos, sin))
            return neighbours(x, *table, *how)

        def by_heads(x: Any) -> Any:
            return halves(x, cos[:3, :8].unsqueeze(0), sin[:3, :8].unsqueeze(0))

        return [
            *(by_halves(x, cos[:5, :8] * 2, sin[:5, :8] * 2) for x in (q, k)),  # as the operator
            *(by_neighbours(x) for x in (q, k)),  # as the other one
            *(by_heads(x) for x in (q, k)),
            *(by_halves(x, cos[:5][:, :8], sin[:5][:, :8]) for x in (q, k)),  # of some columns
            *(by_halves(x, cos[1:6, :8], sin[2:7, :8]) for x in (q, k)),  # of rows apart
            *(by_neighbours(x, -1) for x in (q, k)),  # of swapped pairs
            *(by_neighbours(x, 1, -2) for x in (q, k)),  # of pairs that are not neighbours
        ]

    q, k = torch.randn(1, 5, 3, 8), torch.randn(1, 5, 3, 8)
    ops = exported(tmp_path, rotated, q, k, torch.randn(9, 12), torch.randn(9, 12))
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

    model = Function(sums)
    program = to_edge_transform_and_lower(
        torch.export.export(model, TWO), partitioner=[VulkanPartitioner()]
    )
    opened = wait(webpte.load(program.to_executorch().buffer, device="numpy"))
    assert opened.methods["forward"].ops["et_vk.q8ta_add.default"] == 2
    found = wait(opened.forward(*(x.numpy() for x in TWO)))
    for result, expected in zip(found, model(*TWO), strict=True):
        np.testing.assert_allclose(result, expected.detach().numpy(), atol=0.051)

"""Simplified modules and graphs of decoders have the same results as before."""

from __future__ import annotations

import operator
import warnings
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("executorch")

from webpte_export.exporter_patches import patch_exporter  # noqa: E402

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    patch_exporter()
    import executorch.backends.vulkan.custom_ops_lib  # noqa: F401

from webpte_export.llm.simplify_graph import simplify_graph  # noqa: E402
from webpte_export.llm.simplify_modules import RMSNorm, simplify_modules  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
nn: Any = torch.nn
aten: Any = torch.ops.aten


class ShiftedRMSNorm(nn.Module):  # type: ignore[misc]
    """A norm whose gain is 1 + weight, as Gemma's."""

    def __init__(self, offset: float = 1.0) -> None:
        super().__init__()
        self.weight, self.eps, self.offset = nn.Parameter(torch.randn(8)), 1e-6, offset

    def forward(self, x: Any) -> Any:
        normal = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)
        return normal * (self.offset + self.weight)


def test_norms_become_the_operator_if_they_are_rms_norms() -> None:
    model = nn.Sequential(ShiftedRMSNorm(), ShiftedRMSNorm(0.0), ShiftedRMSNorm(0.5))
    x = torch.randn(2, 3, 8)
    expected = model(x)
    simplify_modules(model)
    assert [type(module) is RMSNorm for module in model] == [True, True, False]
    torch.testing.assert_close(model(x), expected)


class GatedRMSNorm(ShiftedRMSNorm):
    """A norm that may be given a gate, as Mamba 2's."""

    def forward(self, x: Any, gate: Any = None) -> Any:
        return super().forward(x if gate is None else x * nn.functional.silu(gate))


class WeightlessRMSNorm(ShiftedRMSNorm):
    """A norm that takes inputs of any width, and has a weight that it does not use."""

    def __init__(self) -> None:
        super().__init__()
        self.weight.data.fill_(1.0)

    def forward(self, x: Any) -> Any:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)


@pytest.mark.parametrize("kind", [GatedRMSNorm, WeightlessRMSNorm])
def test_norms_that_take_more_than_the_operator_does_stay(kind: Any) -> None:
    model = nn.Sequential(kind())
    simplify_modules(model)
    assert type(model[0]) is kind


def test_norms_of_transposed_heads_come_before_the_transposition() -> None:
    norm = RMSNorm(torch.randn(8), 1e-6)
    heads = torch.randn(1, 3, 2, 8).transpose(1, 2)
    torch.testing.assert_close(norm(heads), norm(heads.contiguous()))
    assert norm(heads).transpose(1, 2).is_contiguous()


class Attention(nn.Module):  # type: ignore[misc]
    """The attributes of an attention, with an unusual scale."""

    def __init__(self) -> None:
        super().__init__()
        self.q_proj, self.scaling, self.head_dim, self.layer_idx = nn.Linear(8, 8), 0.5, 4, 0

    def forward(self, x: Any) -> Any:
        return self.q_proj(x) * self.scaling


def test_scales_of_queries_go_into_weights() -> None:
    attention, x = Attention(), torch.randn(3, 8)
    model = nn.Sequential(attention)
    attention.scaling = 0.2
    expected = model(x)
    simplify_modules(model)
    assert attention.scaling == 0.5
    torch.testing.assert_close(model(x), expected)


def simplified(module: Any, *inputs: Any) -> Any:
    """Export a module and simplify its graph; check that the results stay the same."""
    module.eval()
    exported = torch.export.export(module, inputs, strict=False)
    graph = simplify_graph(exported.run_decompositions({}).module())
    for got, want in zip(graph(*inputs), module(*inputs), strict=True):
        torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-5)
    return graph


def targets(graph: Any) -> list[Any]:
    return [node.target for node in graph.graph.nodes if node.op == "call_function"]


class FusedLinear(nn.Module):  # type: ignore[misc]
    """A linear layer for queries, keys and values; `interleaved` head by head, as GPT-NeoX's."""

    def __init__(self, interleaved: bool) -> None:
        super().__init__()
        self.qkv, self.interleaved = nn.Linear(8, 24), interleaved

    def forward(self, x: Any) -> Any:
        y = self.qkv(x)
        if self.interleaved:
            return y.view(1, 5, 2, 12).transpose(1, 2).chunk(3, dim=-1)
        return y[..., :8], y[..., 8:-12], y[..., -12:]


@pytest.mark.parametrize("interleaved", [False, True])
def test_a_linear_layer_that_is_sliced_becomes_several(interleaved: bool) -> None:
    graph = simplified(FusedLinear(interleaved), torch.randn(1, 5, 8))
    found = targets(graph)
    assert found.count(aten.linear.default) == 3
    assert aten.slice.Tensor not in found
    assert operator.getitem not in found
    rows = sum(b.shape[0] for name, b in graph.named_buffers() if b.dim() == 2)
    assert rows == 24
    assert not list(graph.named_parameters()), "the whole weight is gone"


class ReadWhole(FusedLinear):
    """A linear layer whose whole result is read, too."""

    def forward(self, x: Any) -> Any:
        y = self.qkv(x)
        return y[..., :8], y[..., 8:], y + 1


def test_a_linear_layer_that_is_read_whole_stays() -> None:
    found = targets(simplified(ReadWhole(False), torch.randn(1, 5, 8)))
    assert found.count(aten.linear.default) == 1


class PartlyRotated(nn.Module):  # type: ignore[misc]
    """Rotary embedding of the first four elements of each head."""

    def __init__(self) -> None:
        super().__init__()
        angles = torch.rand(9, 2).repeat(1, 2)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, q: Any, k: Any) -> Any:
        turned = torch.ops.et_vk.apply_rotary_emb_hf(
            q[..., :4].transpose(1, 2), k[..., :4].transpose(1, 2), self.cos, self.sin, 2
        )
        both = zip(turned, (q, k), strict=True)
        return tuple(torch.cat([t.transpose(1, 2), x[..., 4:]], -1) for t, x in both)


def test_a_part_of_a_head_is_rotated_with_the_whole() -> None:
    graph = simplified(PartlyRotated(), torch.randn(1, 3, 5, 8), torch.randn(1, 1, 5, 8))
    assert aten.cat.default not in targets(graph)


class Parallel(nn.Module):  # type: ignore[misc]
    """Two linear layers of one layer norm, added up before the residual."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.first, self.second = (
            nn.LayerNorm(8),
            nn.Linear(8, 8),
            nn.Linear(8, 8, False),
        )
        nn.init.normal_(self.norm.bias)

    def forward(self, x: Any) -> Any:
        h = self.norm(x)
        return ((self.first(h) + self.second(h)) + x * 1.0,)


def test_biases_of_norms_move_and_sums_are_in_order() -> None:
    graph = simplified(Parallel(), torch.randn(1, 5, 8))
    (norm,) = (node for node in graph.graph.nodes if node.target is aten.layer_norm.default)
    assert norm.args[3] is None
    linears = [node for node in graph.graph.nodes if node.target is aten.linear.default]
    assert all(len(node.args) == 3 for node in linears)
    sums = [node for node in graph.graph.nodes if node.target is aten.add.Tensor]
    assert [linear in node.args for linear, node in zip(linears, sums, strict=True)] == [True, True]
    assert aten.mul.Tensor not in targets(graph)

"""Rules for encoders: attention as single ops, GEMMs that share x, and epilogues."""

from __future__ import annotations

import numpy as np
import pytest

import webpte
from support.graphs.encoder_graphs import (
    SPLIT,
    WRITTEN,
    Encoder,
    Written,
    encoder_layer,
    written_attention,
)
from support.graphs.graphs import build_graph, make_planner, read_graph, run_once, wait
from support.write import pack_suite
from support.write.pte_writer import GraphWriter, write_pte
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.engine.load.fold_graph import fold_constants
from webpte.engine.ops.core.strided_view import dense
from webpte.engine.ops.core.target import Target
from webpte.engine.rewrite.fusion import fuse
from webpte.engine.rewrite.passes import merge_duplicate_calls
from webpte_host.base.layout import ROOT

ATTENTION, ENDING = "webpte.softmax_attention", "webpte.gemm_epilogue"
JOINED, SUM = "webpte.gemm_qkv", "webpte.gemm_add"
KERNEL, TEN = "softmax_attention", Target(storage_buffers=10)


def names(net: Encoder) -> list[str]:
    calls = fuse(build_graph(net.g)).calls
    return [call.name for call in calls if "view" not in call.name]


def kernels(net: Encoder, target: Target = TEN) -> list[str]:
    planner, _ = make_planner(fuse(build_graph(net.g)), target)
    planner.lower_all()
    return [dispatch.kernel for dispatch in planner.dispatches()]


@pytest.mark.parametrize("case", WRITTEN, ids=str)
def test_attention_is_one_call_that_means_the_same(case: Written) -> None:
    net, inputs = written_attention(case)
    assert names(net) == [ATTENTION]
    (want,) = wait(run_once(net.g, *inputs))
    (got,) = wait(run_once(net.g, *inputs, device=SimulatedDevice(), fuse=True))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_heads_of_whole_quads_are_one_dispatch() -> None:
    found = [kernels(written_attention(case)[0]) for case in WRITTEN]
    assert found[:6] == [[KERNEL]] * 6
    assert all(KERNEL not in one and len(one) > 3 for one in found[6:])
    assert KERNEL not in kernels(written_attention(WRITTEN[0])[0], Target(software=True))


@pytest.mark.parametrize("hides", ["other scores", "a number", "keys", "ones"])
def test_other_rows_set_to_zero_are_not_those_that_a_mask_hides(hides: str) -> None:
    case = Written(1, 7, 7, 2, 8, 8, mask=(1, 1, 7, 7), hides=hides)
    net, inputs = written_attention(case)
    assert ATTENTION not in names(net)
    (want,) = wait(run_once(net.g, *inputs))
    (got,) = wait(run_once(net.g, *inputs, device=SimulatedDevice(), fuse=True))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def simple(net: Encoder, dim: int = -1) -> tuple[tuple[int, ...], int, int, int]:
    """q, k and v; the scores, their softmax and the output."""
    q, k, v = net.g.tensor((2, 5, 8)), net.g.tensor((2, 8, 4)), net.g.tensor((2, 4, 8))
    scores = net.bmm(q, k)
    weights = net.softmax(scores, dim)
    return (q, k, v), scores, weights, net.bmm(weights, v)


def test_attention_must_be_attention() -> None:
    """The softmax is over the last dim, its scores have one reader, the mask is unscaled."""
    net = Encoder()
    inputs, _, _, out = simple(net)
    net.finish(inputs, out)
    assert names(net) == [ATTENTION]
    net = Encoder()
    inputs, _, _, out = simple(net, dim=1)
    net.finish(inputs, out)
    assert ATTENTION not in names(net)
    for seen in (1, 2):
        net = Encoder()
        inputs, *found = simple(net)
        net.finish(inputs, found[seen - 1], found[2])
        assert ATTENTION not in names(net)
    net = Encoder()
    q, k, v, mask = (net.g.tensor(d) for d in ((2, 5, 8), (2, 8, 4), (2, 4, 8), (2, 5, 4)))
    masked = net.mul(net.add(net.bmm(q, k), mask), net.number(0.5))
    net.finish((q, k, v, mask), net.bmm(net.softmax(masked), v))
    assert ATTENTION not in names(net)
    net = Encoder()
    q, k, v = (net.g.tensor(d) for d in ((2, 5, 8), (2, 8, 4), (2, 4, 8)))
    whole = net.g.tensor((2, 5, 4), "int32")
    net.finish((q, k, v, whole), net.bmm(net.softmax(net.add(net.bmm(q, k), whole)), v))
    assert ATTENTION not in names(net)


def test_keys_that_are_kept_are_read_where_they_are() -> None:
    """A permutation that is also an output stays; the next permutation is fused."""
    net = Encoder()
    q, v = net.g.tensor((2, 5, 8)), net.g.tensor((2, 4, 8))
    k = net.g.tensor((4, 2, 8))
    kept = net.permute(k, 1, 0, 2)
    scores = net.bmm(q, net.permute(kept, 0, 2, 1))
    net.finish((q, k, v), net.bmm(net.softmax(scores), v), kept)
    assert names(net) == ["aten.permute_copy.default", ATTENTION]


def test_a_split_of_which_others_read_stays() -> None:
    net = Encoder()
    x = net.g.tensor((2, 4, 24))
    q, k, v = (net.g.tensor((2, 4, 8)) for _ in range(3))
    sizes = (net.g.int_list([8, 8, 8]), net.g.int(-1))
    net.g.op(SPLIT, x, *sizes, net.g.value_list([q, k, v]))
    out = net.bmm(net.softmax(net.bmm(q, net.permute(k, 0, 2, 1))), v)
    net.finish((x,), out, v)
    assert names(net) == [SPLIT, ATTENTION]


@pytest.mark.parametrize(
    ("name", "dispatches"),
    [("gpt_small_static", 18), ("encoder_dynamic_seq", 16), ("vit_small", 21)],
)
def test_real_exports(name: str, dispatches: int) -> None:
    """Two layers each, with q, k and v from one GEMM."""
    with pack_suite.unpacked(ROOT / "tests" / "suites" / "models.zip") as folder:
        graph = read_graph((folder / f"{name}.pte").read_bytes())
    graph = fuse(merge_duplicate_calls(wait(fold_constants(graph))))
    planner, _ = make_planner(graph, TEN)
    planner.lower_all()
    found = [dispatch.kernel for dispatch in planner.dispatches()]
    assert found.count(KERNEL) == 2
    assert len(found) == dispatches


def test_an_encoder_layer_is_seven_dispatches() -> None:
    net = Encoder()
    x = net.g.tensor((1, 20, 32))
    inputs = net.finish((x,), encoder_layer(net, x, 4, 64))
    assert kernels(net) == [
        *("gemm_small_qkv", KERNEL, "gemm_small", "norm_centered"),
        *("gemm_small", "gemm_small", "norm_centered"),
    ]
    (want,) = wait(run_once(net.g, *inputs))
    (got,) = wait(run_once(net.g, *inputs, device=SimulatedDevice(), fuse=True))
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_few_rows_and_few_buffers_run_part_by_part() -> None:
    net = Encoder()
    x = net.g.tensor((1, 20, 32))
    net.finish((x,), encoder_layer(net, x, 4, 64))
    assert kernels(net, Target(storage_buffers=8)).count("gemm_small") == 6
    assert "gemm_small_qkv" not in kernels(net, Target(software=True))
    net = Encoder()
    x = net.g.tensor((1, 3, 32))
    net.finish((x,), encoder_layer(net, x, 4, 64))
    assert JOINED not in names(net)
    # Their biases, residuals and bends are part of the products all the same.
    norms, few = ["norm_centered"] * 2, ["matmul_skinny"] * 3
    assert kernels(net) == [*few, KERNEL, few[0], norms[0], *few[:2], norms[1]]
    assert kernels(net, Target(software=True)).count("binary") > 1


def test_few_rows_mean_the_same() -> None:
    net = Encoder()
    x = net.g.tensor((1, 3, 32))
    inputs = net.finish((x,), encoder_layer(net, x, 4, 64))
    (want,) = wait(run_once(net.g, *inputs))
    (got,) = wait(run_once(net.g, *inputs, device=SimulatedDevice(), fuse=True))
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_products_of_different_x_are_not_joined() -> None:
    net = Encoder()
    x, y = net.g.tensor((20, 32)), net.g.tensor((20, 32))
    layers = [net.linear(i, 8, "float", bias=True) for i in (x, x, y)]
    net.finish((x, y), *layers)
    assert JOINED not in names(net)
    net = Encoder()
    x = net.g.tensor((20, 32))
    net.finish((x,), *(net.linear(x, n, "float", bias=n > 7) for n in (8, 4, 5)))
    assert names(net) == [JOINED]
    assert kernels(net) == ["gemm_small_qkv"]


def test_an_activation_that_is_not_alone_stays_with_what_follows() -> None:
    """gelu(x) * y is one kernel; so is gelu(product), but not if the product is an output."""
    net = Encoder()
    x, y = net.g.tensor((20, 32)), net.g.tensor((20, 8))
    net.finish((x, y), net.mul(net.gelu(net.linear(x, 8, "float")), y))
    assert ENDING not in names(net)
    net = Encoder()
    x = net.g.tensor((20, 32))
    product = net.linear(x, 8, "float")
    net.finish((x,), net.gelu(product), product)
    assert ENDING not in names(net)


def test_layouts_through_views_and_permutations() -> None:
    viewed = dense((2, 5, 24)).viewed((2, 5, 3, 8))
    assert viewed is not None
    heads = viewed.permuted((0, 2, 1, 3)).viewed((6, 5, 8))
    assert heads is not None
    assert heads.dims == (6, 5, 8)
    assert heads.pair(0, 3) == (120, 8)
    assert (heads.stride(0), heads.stride(1), heads.stride(2)) == (None, 24, 1)
    assert dense((6, 4)).viewed((4, 6)) is not None
    assert viewed.permuted((3, 0, 1, 2)).viewed((5, 48)) is None
    assert dense((2, 3)).viewed((7,)) is None


def expanding() -> GraphWriter:
    """Write attention of a query that is expanded to as many rows as another input has."""
    g, rows, keys, size = GraphWriter(), 5, 7, 8
    query, other = g.tensor((1, rows, size)), g.tensor((rows,))
    key, value = g.tensor((1, keys, size)), g.tensor((1, keys, size))
    order, turned = g.int_list([0, 2, 1]), g.tensor((1, size, keys))
    columns = g.op("aten.permute_copy.default", key, order, turned)
    count = g.symint(rows)
    g.op("sym_size.int", other, g.int(0), count)
    sizes = g.value_list([g.int(1), count, g.int(size)])
    out = g.tensor((1, rows, size))
    more = g.op("aten.expand_copy.default", query, sizes, g.bool_(False), out)
    scores = g.op("aten.bmm.default", more, columns, g.tensor((1, rows, keys)))
    dims = g.tensor((1, rows, keys))
    weights = g.op("aten._softmax.default", scores, g.int(-1), g.bool_(False), dims)
    result = g.op("aten.bmm.default", weights, value, g.tensor((1, rows, size)))
    g.inputs(query, other, key, value)
    g.outputs(result)
    for one in (query, other, result):
        g.host(one, dynamic=True)
    return g


def test_an_expansion_is_left_out_where_it_changes_nothing() -> None:
    async def run() -> None:
        random, data = np.random.default_rng(8), write_pte(expanding())
        async with (
            await webpte.load(data, device="numpy") as reference,
            await webpte.load(data, device=SimulatedDevice()) as program,
        ):
            for rows, wanted in ((5, 5), (1, 1), (1, 3)):
                shapes = ((1, rows, 8), (wanted,), (1, 7, 8), (1, 7, 8))
                given = [random.normal(0, 1, one).astype(np.float32) for one in shapes]
                (found,), (known,) = await program.forward(*given), await reference.forward(*given)
                np.testing.assert_allclose(found, known, rtol=1e-5, atol=1e-6)
                (delegate,) = program._build.gpu_delegates
                kernels = [dispatch.kernel for dispatch in delegate.planner.dispatches()]
                assert (kernels == ["softmax_attention"]) is (rows == wanted)

    wait(run())

"""Attention: the references against float64 and ExecuTorch's own numbers, lowering, errors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import webpte
from support.cases.attention.attention_cases import PLAIN
from support.cases.attention.attention_programs import CacheCase, PlainCase
from support.cases.cases import Array
from support.graphs.graphs import make_delegate, make_planner, read_graph, run_once, wait
from support.write.pte_writer import GraphWriter
from webpte.engine.ops import lookup
from webpte.engine.ops.attention.cache_write_kernels import Heads, lower_update
from webpte.engine.ops.core.records import Dispatch
from webpte.engine.ops.core.target import Target
from webpte.engine.run.request import RunRequest
from webpte.errors import ExecutionError, WebpteError

Case = CacheCase | PlainCase


# Numbers that ExecuTorch 1.5.1 computes for these inputs (llama::custom_sdpa and others).


def wave(shape: tuple[int, ...], step: float, phase: float = 0.0) -> Array:
    return np.sin(np.arange(math.prod(shape)) * step + phase).astype(np.float32).reshape(shape)


QUERIES = wave((1, 2, 4, 4), 0.7)
KEYS, VALUES = wave((1, 5, 2, 4), 0.3, 1.0), wave((1, 5, 2, 4), 1.1, 0.5)
FRESH = wave((1, 2, 2, 4), 0.2, 3.0), wave((1, 2, 2, 4), 0.4, 4.0)
MASK = wave((2, 5), 0.9, 2.0) * 2
BY_HEAD = wave((1, 2, 3, 4), 0.3, 1.0), wave((1, 2, 3, 4), 1.1, 0.5)

EXECUTORCH: dict[str, tuple[str, tuple[Any, ...], str]] = {
    "causal": (
        "custom_sdpa.default",
        (QUERIES, KEYS, VALUES, 2, None, 0, True, None),
        """0.1717451 0.6968125 0.4603978 -0.2791432 -0.0093636 -0.3635727 -0.3204668 0.0728478
        -0.3250808 -0.4423669 -0.0762311 0.3732107 -0.3163051 -0.1625679 0.1688248 0.3157244
        -0.0120859 0.1490369 0.147291 -0.0154156 0.4930987 0.4123491 -0.1190188 -0.520322
        0.394214 0.5797927 0.1317695 -0.4602525 -0.5514566 -0.5009553 0.0969939 0.5889474""",
    ),
    "not causal": (
        "custom_sdpa.default",
        (QUERIES, KEYS, VALUES, 1, None, 0, False, None),
        """0.1717451 0.6968125 0.4603978 -0.2791432 -0.0093636 -0.3635727 -0.3204668 0.0728478
        -0.3250808 -0.4423669 -0.0762311 0.3732107 -0.3163051 -0.1625679 0.1688248 0.3157244
        -0.1850218 0.1278096 0.3009697 0.1452278 0.1867455 0.5012046 0.2679434 -0.2581284
        0.5577792 0.4986433 -0.1054138 -0.5942739 -0.600141 -0.6499518 0.0105098 0.6594862""",
    ),
    "a mask over the whole cache": (
        "custom_sdpa.default",
        (QUERIES, KEYS, VALUES, 2, MASK, 0, False, 0.25),
        """0.4136775 0.8089421 0.3201885 -0.5184696 0.2385313 0.2279814 -0.0317083 -0.256747
        -0.5580771 -0.1215454 0.4478121 0.527797 -0.6121826 -0.1115529 0.5109828 0.5751125
        -0.1814383 -0.0638483 0.1235156 0.1759007 0.0298962 0.0131286 -0.017986 -0.0294454
        0.3938944 0.3295437 -0.094935 -0.4156679 -0.2619874 -0.4596654 -0.1550175 0.3190347""",
    ),
    "keys and values written first": (
        "sdpa_with_kv_cache.default",
        (QUERIES, *FRESH, KEYS, VALUES, 3, 2, None, 0, True, None),
        """0.0543326 0.4883746 0.2762192 -0.3555568 -0.2299413 -0.5371068 -0.5198728 -0.2093678
        -0.3682495 -0.4193926 -0.0490513 0.3902566 -0.4040541 -0.1951219 0.1542607 0.365424
        0.0142368 0.2133485 0.311113 0.200422 0.0348022 0.2300341 0.0570826 -0.3022963
        0.2340018 0.2126301 -0.0611025 -0.2789356 -0.5196332 -0.5699204 0.0032849 0.5673447""",
    ),
    "by head": (
        "et_vk.sdpa.default",
        (QUERIES, *BY_HEAD, wave((4, 3), 0.9, 2.0), None),
        """0.2121316 0.7347834 0.4544581 -0.3225025 -0.009425 -0.6771649 -0.6048938 0.12841
        -0.0067726 0.4305893 0.3973999 -0.0700712 -0.105648 -0.1618572 -0.0411877 0.1244921
        0.3515855 0.5422812 0.1403677 -0.4149407 -0.4400024 -0.7344015 -0.2262409 0.5291575
        0.4079828 0.5918953 0.12898 -0.4748856 -0.4240165 -0.6919244 -0.2036919 0.5071367""",
    ),
}


def call(op: str, args: tuple[Any, ...], out: tuple[int, ...]) -> tuple[GraphWriter, list[Array]]:
    """Write a graph of one call with its arrays as inputs, and return both."""
    g = GraphWriter()
    ids, arrays = [], []
    for arg in args:
        match arg:
            case np.ndarray():
                ids.append(g.tensor(arg.shape, str(arg.dtype)))
                g.inputs(ids[-1])
                arrays.append(arg)
            case bool():
                ids.append(g.bool_(arg))
            case None:
                ids.append(g.null())
            case int():
                ids.append(g.int(arg))
            case _:
                ids.append(g.double(arg))
    g.outputs(g.op(op, *ids, g.tensor(out)))
    return g, arrays


@pytest.mark.parametrize("name", EXECUTORCH)
def test_reference_against_executorch(name: str) -> None:
    op, args, numbers = EXECUTORCH[name]
    g, arrays = call(op, args, QUERIES.shape)
    (result,) = wait(run_once(g, *arrays))
    wanted = np.array(numbers.split(), np.float64).reshape(QUERIES.shape)
    np.testing.assert_allclose(result, wanted, atol=2e-7)


@pytest.mark.parametrize("mask", [np.zeros((2, 5), bool), np.full((2, 5), -np.inf, np.float32)])
def test_a_row_that_sees_no_key_is_zero(mask: Array) -> None:
    """It is zero in torch.nn.functional.scaled_dot_product_attention, too."""
    mask[1, 3] = True if mask.dtype == bool else 0
    g, arrays = call(
        "custom_sdpa.default", (QUERIES, KEYS, VALUES, 2, mask, 0, False, None), QUERIES.shape
    )
    (result,) = wait(run_once(g, *arrays))
    assert not result[0, 0].any()
    np.testing.assert_array_equal(result[0, 1], VALUES[0, 3].repeat(2, axis=0))


def test_no_keys_at_all_give_zeros() -> None:
    nothing = np.zeros((1, 2, 0, 4), np.float32)
    g, arrays = call("et_vk.sdpa.default", (wave((1, 2, 3, 4), 1), nothing, nothing), (1, 2, 3, 4))
    (result,) = wait(run_once(g, *arrays))
    assert result.shape == (1, 2, 3, 4)
    assert not result.any()


# update_cache


def update_graph(
    value: tuple[int, ...], cache: tuple[int, ...], position: int | None, dtype: str = "float32"
) -> GraphWriter:
    """Write an update whose cache is input and output; a position of None is a SymInt."""
    g = GraphWriter()
    v, c = g.tensor(value, dtype), g.tensor(cache, dtype)
    g.inputs(v, c)
    at = g.symint() if position is None else g.int(position)
    if position is None:
        source = g.tensor((1,), "int64")
        g.inputs(source)
        g.op("et_vk.select_as_symint.default", source, g.int(0), g.int(0), at)
    g.op("update_cache.default", v, c, at, g.tensor((1,)))
    g.outputs(c)
    return g


@pytest.mark.parametrize("live", [True, False])
@pytest.mark.parametrize("position", [0, 2, 4])
def test_update_cache(position: int, live: bool) -> None:
    value, cache = wave((2, 3, 2, 5), 0.3), wave((2, 7, 2, 5), 0.2, 1.0)
    g = update_graph(value.shape, cache.shape, None if live else position)
    extra = [np.array([position])] if live else []
    (result,) = wait(run_once(g, value, cache, *extra))
    wanted = cache.copy()
    for batch in range(2):
        for token in range(3):
            wanted[batch, position + token] = value[batch, token]
    np.testing.assert_array_equal(result, wanted)


def test_the_widest_unit_moves_new_rows() -> None:
    def lower(heads: int, itemsize: int = 1) -> Dispatch:
        value, cache = (Heads(i, (1, heads, i + 1, 1), (0, 0, 0)) for i in range(2))
        return lower_update(value, cache, itemsize, b"")

    assert lower(12).types == (("UNIT", "u32"),)
    assert lower(16).types == (("UNIT", "vec4<u32>"),)
    assert lower(3).kernel == "attention_cache_update_bytes"
    assert lower(3, itemsize=2).types == (("UNIT", "f16"),)
    assert lower(6, itemsize=2).types == (("UNIT", "u32"),)


# Lowering


def dispatches(case: CacheCase | PlainCase) -> list[str]:
    """Return the kernels of the last step, after running the others."""
    graph = read_graph(case.program())

    async def run() -> list[str]:
        delegate, _ = await make_delegate(graph)
        for index in range(len(case.steps)):
            await delegate.run(RunRequest(case.inputs(index)))
        records = delegate.planner.dispatches()
        assert all(isinstance(record, Dispatch) for record in records)
        return [record.kernel for record in records]

    return wait(run())


@pytest.mark.parametrize(
    ("case", "kernels"),
    [
        # Words one by one write to the cache on the way; a small cache is not worth a split.
        (CacheCase(32, 8, 64, [(1, 5)], positions=64), "flash_split"),
        (CacheCase(32, 8, 64, [(1, 5)], positions=128), "flash_split flash_reduce"),
        (CacheCase(32, 8, 64, [(1, 2000)], positions=2304), "flash_split flash_reduce"),
        (CacheCase(32, 8, 64, [(512, 0)], positions=2304), "cache_update cache_update flash"),
        (
            CacheCase(32, 8, 64, [(128, 0)], positions=2304),
            "cache_update cache_update flash flash_reduce",
        ),
        (CacheCase(4, 2, 6, [(1, 5)], positions=64), "cache_update cache_update flash_split"),
        (CacheCase(4, 2, 8, [(1, 5)], positions=64, op="custom_sdpa.default"), "flash_split"),
        (CacheCase(4, 2, 300, [(1, 5)], positions=64), "cache_update cache_update flash"),
        (PLAIN[0], "flash_split"),
    ],
    ids=lambda value: str(value).replace(" ", "+"),
)
def test_kernels(case: Case, kernels: str) -> None:
    found = [name.removeprefix("attention_") for name in dispatches(case)]
    assert " ".join(found) == kernels


@pytest.mark.parametrize(("size", "shared"), [(64, 32768), (64, 16384), (72, 32768)])
def test_small_heads_stay_in_shared_memory(size: int, shared: int) -> None:
    case = CacheCase(4, 2, size, [(64, 0)], positions=64)
    planner, _ = make_planner(read_graph(case.program()), Target(shared_bytes=shared))
    planner.lower_all()
    kernel = "attention_flash_small_heads" if (size, shared) == (64, 32768) else "attention_flash"
    assert kernel in [dispatch.kernel for dispatch in planner.dispatches()]


def test_a_new_position_lowers_nothing() -> None:
    case = CacheCase(4, 2, 16, [(1, 0), (1, 1), (1, 2), (1, 50), (1, 3)])
    graph = read_graph(case.program())

    async def run() -> None:
        delegate, device = await make_delegate(graph)
        await delegate.run(RunRequest(case.inputs(0)))
        before = delegate.lowerings, len(device.plans), len(device.pipelines)
        for index in range(1, len(case.steps)):
            await delegate.run(RunRequest(case.inputs(index)))
        assert (delegate.lowerings, len(device.plans), len(device.pipelines)) == before

    wait(run())


def test_lengths_that_come_back_lower_nothing() -> None:
    case = CacheCase(4, 2, 16, [(40, 0), (1, 40), (40, 2), (1, 42), (1, 43)])
    graph = read_graph(case.program())

    async def run() -> None:
        delegate, _ = await make_delegate(graph)
        for index in range(2):
            await delegate.run(RunRequest(case.inputs(index)))
        before = delegate.lowerings
        for index in range(2, 5):
            await delegate.run(RunRequest(case.inputs(index)))
        assert delegate.lowerings == before

    wait(run())


# Errors


@pytest.mark.parametrize("position", [-1, 60, 64, 2**31 - 1])
def test_a_position_outside_of_the_cache_is_refused_and_harmless(position: int) -> None:
    case = CacheCase(4, 2, 16, [(5, 0), (5, 5), (5, 59)])

    async def run() -> None:
        program = await webpte.load(case.program(), device="numpy")
        case.check(0, await program.forward(*case.inputs(0)))
        wrong = case.inputs(1)
        wrong[3] = np.array([position], np.int32)
        with pytest.raises(ExecutionError, match=r"sdpa_with_kv_cache.*5 tokens in 64 cache"):
            await program.forward(*wrong)
        for index in (1, 2):
            case.check(index, await program.forward(*case.inputs(index)))

    wait(run())


FLOATS, BAD_MASK = np.float32, np.zeros((2, 4), np.float32)


@pytest.mark.parametrize(
    ("op", "args", "message"),
    [
        ("custom_sdpa", (QUERIES, KEYS, VALUES, 4, None, 0, True, None), "2 tokens in 5 cache"),
        ("custom_sdpa", (QUERIES, KEYS, VALUES, -1, None, 0, True, None), "2 tokens in 5 cache"),
        ("custom_sdpa", (QUERIES, KEYS, VALUES, 0, None, 0.5, True, None), "only dropout_p 0"),
        ("custom_sdpa", (QUERIES, KEYS, VALUES, 1, BAD_MASK, 0, True, None), "a mask of 4 keys"),
        (
            "custom_sdpa",
            (QUERIES, KEYS, VALUES, 1, np.zeros((2, 6), FLOATS), 0, True, None),
            "a mask for 6 keys, but 5 positions",
        ),
        (
            "custom_sdpa",
            (QUERIES, KEYS, VALUES, 1, np.zeros((3, 5), FLOATS), 0, True, None),
            "does not broadcast",
        ),
        (
            "custom_sdpa",
            (QUERIES, KEYS[..., :3], VALUES[..., :3], 1, None, 0, True, None),
            "with keys",
        ),
        (
            "custom_sdpa",
            (QUERIES[:, :, :3], KEYS, VALUES, 1, None, 0, True, None),
            "multiple of the key heads",
        ),
        (
            "custom_sdpa",
            (QUERIES.astype(np.int32), KEYS, VALUES, 1, None, 0, True, None),
            "int32; this op is defined for floats",
        ),
        (
            "sdpa_with_kv_cache",
            (QUERIES, FRESH[0][:, :1], FRESH[1], KEYS, VALUES, 1, 1, None, 0, True, None),
            "2 queries, but 1 in key",
        ),
        (
            "sdpa_with_kv_cache",
            (QUERIES, FRESH[0], FRESH[1][:, :, :1], KEYS, VALUES, 1, 1, None, 0, True, None),
            "equal heads",
        ),
        ("update_cache", (FRESH[0], KEYS, 4), "2 tokens in 5 cache"),
        ("update_cache", (FRESH[0], KEYS[..., :2], 0), "equal heads"),
        ("update_cache", (FRESH[0], np.zeros((2, 5, 2, 4), FLOATS), 0), "a batch of 1"),
        ("update_cache", (FRESH[0], np.zeros((1, 5, 2, 4), np.int32), 0), "a cache of int32"),
        ("et_vk.sdpa", (QUERIES, BY_HEAD[0][..., :3], BY_HEAD[1]), "expected are"),
        ("et_vk.sdpa", (QUERIES, BY_HEAD[0], BY_HEAD[1][:, :, :2]), "expected are"),
        ("et_vk.sdpa", (wave((1, 3, 2, 4), 1), *BY_HEAD), "3 query heads"),
        (
            "et_vk.sdpa",
            (wave((2, 3, 2, 2, 4), 1), *(wave((1, 3, 2, 2, 4), 1) for _ in range(2))),
            "along all or none",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_wrong_arguments(op: str, args: tuple[Any, ...], message: str) -> None:
    out = (1,) if op == "update_cache" else args[0].shape
    g, arrays = call(f"{op}.default", args, out)
    with pytest.raises(WebpteError, match=message) as caught:
        wait(run_once(g, *arrays))
    assert op in str(caught.value)


def test_one_cache_for_keys_and_values_is_refused() -> None:
    g = GraphWriter()
    q, cache, out = g.tensor((1, 1, 1, 4)), g.tensor((1, 2, 1, 4)), g.tensor((1, 1, 1, 4))
    rest = (g.int(0), g.int(1), g.null(), g.int(0), g.bool_(True), g.null())
    g.op("sdpa_with_kv_cache.default", q, q, q, cache, cache, *rest, out)
    g.inputs(q, cache)
    g.outputs(out)
    arrays = wave((1, 1, 1, 4), 1), wave((1, 2, 1, 4), 1)
    with pytest.raises(WebpteError, match="share the cache"):
        wait(run_once(g, *arrays))


def test_arguments_at_the_end_may_be_absent() -> None:
    g, arrays = call("custom_sdpa.default", (QUERIES, KEYS, VALUES, 1), QUERIES.shape)
    (result,) = wait(run_once(g, *arrays))
    numbers = EXECUTORCH["not causal"][2]
    np.testing.assert_allclose(result.ravel(), np.array(numbers.split(), float), atol=2e-7)


def test_caches_are_marked_as_written() -> None:
    names = ("sdpa_with_kv_cache", "update_cache", "custom_sdpa")
    written = {name: lookup(f"llama.{name}.default") for name in names}
    assert {name: op.mutates for name, op in written.items() if op} == {
        "sdpa_with_kv_cache": ("k_cache", "v_cache"),
        "update_cache": ("cache",),
        "custom_sdpa": (),
    }


def test_caches_start_anew_in_each_loaded_program() -> None:
    case = CacheCase(4, 2, 16, [(3, 0), (1, 3)])

    async def run() -> None:
        first, second = [await webpte.load(case.program(), device="numpy") for _ in range(2)]
        case.check(0, await first.forward(*case.inputs(0)))
        case.check(1, await first.forward(*case.inputs(1)))
        (other,) = await second.forward(*case.inputs(1))
        assert not np.allclose(other, case.expected[1][0])

    wait(run())

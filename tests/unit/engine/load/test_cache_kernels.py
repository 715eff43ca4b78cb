"""KV caches that kernels outside of delegates write to: on the host, and resident on the GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import webpte
from support.devices.recorded import runs
from support.graphs.graphs import wait
from support.graphs.offloading import places
from support.graphs.stitching import LOGCUMSUMEXP, expect, recording, unary
from support.write.pte_writer import Host, MethodWriter, write_pte
from webpte.engine.format.program import (
    Dynamism,
    ExecutionPlan,
    JumpFalseCall,
    KernelCall,
    Operator,
    TensorMeta,
)
from webpte.engine.format.shared import ScalarType
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.engine.load import program_file
from webpte.engine.ops.attention.cache_packing import PACKINGS, pack_rows, unpack_rows

POSITIONS, HEADS, SIZE = 300, 2, 4
ROW, CACHE = (1, 1, HEADS, SIZE), (1, POSITIONS, HEADS, SIZE)
UPDATE, AT, ATTENTION, WHOLE = (
    "llama::update_cache.out",
    "llama::update_cache_with_indices.out",
    "llama::custom_sdpa.out",
    "llama::sdpa_with_kv_cache.out",
)


def writing(
    *,
    indexed: bool = False,
    on_host: bool = False,
    returned: bool = False,
    whole: bool = False,
    mask: str | None = None,
    filled: bool = True,
) -> MethodWriter:
    """k = -x at a position of the keys, v = x of the values; attention of x to them.

    `whole`: by one kernel. `mask`: the type of a mask, which is an input. `filled`: the file has
    the zeros that the caches start with.
    """
    m = MethodWriter()
    x, at = m.tensor(ROW), m.tensor((1, 1), "int64")
    hidden = None if mask is None else m.tensor((1, POSITIONS), mask)
    m.inputs(x, at, *([hidden] if hidden else []))
    zeros: dict[str, Any] = {"data": np.zeros(CACHE, np.float32), "mutable": True} if filled else {}
    keys, values = (m.tensor(CACHE, **zeros) for _ in range(2))
    start = m.value(0)
    m.kernel("aten::_local_scalar_dense", at, start)
    negated, same = (unary(m, f"aten.{op}.default", x, ROW) for op in ("neg", "abs"))
    for new, cache in () if whole else ((negated, keys), (same, values)):
        dummy = m.tensor((1,))
        places = (at,) if indexed else ()
        m.kernel(AT if indexed else UPDATE, new, cache, start, *places, dummy, dummy)
    read: Host = keys
    if on_host:
        read = m.tensor(CACHE)
        m.kernel(LOGCUMSUMEXP, keys, 1, read, read)
    out = m.tensor(ROW)
    # Without a mask, causal attention reads up to the position.
    how = (hidden, 0.0, mask is None, None, out, out)
    if whole:
        m.kernel(WHOLE, negated, negated, same, keys, values, start, 1, *how)
    else:
        m.kernel(ATTENTION, negated, read, values, start, *how)
    result = unary(m, "aten.neg.default", out, ROW)
    m.outputs(result, *([values] if returned else []))
    return m


def step(position: int) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(position).standard_normal(ROW).astype(np.float32)
    return x, np.array([[position]])


@pytest.mark.parametrize("indexed", [False, True])
def test_rows_are_written_in_place_on_the_gpu(indexed: bool) -> None:
    async def run() -> None:
        program = await expect(writing(indexed=indexed), *map(step, (0, 1, 2, 1, 4)))
        device = recording(program)
        assert {places(program)[name] for name in (*[AT] * indexed, ATTENTION)} == {"gpu"}
        assert UPDATE not in places(program), "attention writes the rows"
        writers = [node for node in program.graph().nodes if node.changes]
        shaders = ["attention_cache_scatter"] * 2 if indexed else ["attention_flash_split"]
        assert [node.kernels[0].name for node in writers] == shaders
        cache_bytes = 4 * POSITIONS * HEADS * SIZE
        assert all(len(done["payload"]) < cache_bytes / 4 for done in runs(device))

    wait(run())


@pytest.mark.parametrize("returned", [False, True])
def test_attention_that_writes_its_caches_runs_on_the_gpu(returned: bool) -> None:
    async def run() -> None:
        separate = await webpte.load(write_pte(writing(returned=returned)), device="numpy")
        program = await expect(writing(whole=True, returned=returned), *map(step, (0, 1, 2, 1, 4)))
        # A cache that is returned has another reader, so its update stays a separate call.
        names = (UPDATE, ATTENTION) if returned else (ATTENTION,)
        assert {places(program)[name] for name in names} == {"gpu"}
        assert WHOLE not in places(program)
        await program.recover()
        for inputs in map(step, (0, 1, 2, 1, 4, POSITIONS - 1)):
            got, want = await program.forward(*inputs), await separate.forward(*inputs)
            for one, other in zip(got, want, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)

    wait(run())


@pytest.mark.parametrize("mask", ["float32", "bool"])
def test_attention_with_a_mask_runs_on_the_gpu(mask: str) -> None:
    def given(position: int) -> tuple[np.ndarray, ...]:
        seen = (np.arange(POSITIONS) <= position)[None]
        hidden = seen if mask == "bool" else np.where(seen, 0, -np.inf).astype(np.float32)
        return *step(position), hidden

    async def run() -> None:
        program = await expect(writing(mask=mask), *map(given, (0, 1, 2)))
        assert places(program)[ATTENTION] == "gpu"

    wait(run())


@pytest.mark.parametrize("kind", list(PACKINGS))
@pytest.mark.parametrize("how", [{}, {"whole": True}, {"mask": "bool"}], ids=str)
def test_caches_of_kernels_may_be_packed(kind: str, how: dict[str, Any]) -> None:
    """Compares with float64 attention over rows that are rounded when they are written."""
    packing, positions = PACKINGS[kind], (0, 1, 2, 1, 4, POSITIONS - 1)
    caches = np.zeros((2, POSITIONS, HEADS, SIZE))

    def wanted(x: np.ndarray, position: int) -> np.ndarray:
        for cache, row in zip(caches, (-x, abs(x)), strict=True):
            cache[position] = unpack_rows(pack_rows(row[0, 0], packing), SIZE, packing)
        keys, values = caches[:, : position + 1]
        scores = np.exp(np.einsum("hd,khd->kh", -x[0, 0], keys) / SIZE**0.5)
        return -np.einsum("kh,khd->hd", scores / scores.sum(axis=0), values)[None, None]

    async def run() -> None:
        data = write_pte(writing(**how, filled=False))
        for device in ("numpy", SimulatedDevice()):
            caches[:] = 0
            async with await webpte.llm.load(data, device=device, kv_cache=kind) as program:
                for position in positions:
                    x, at = step(position)
                    seen = (np.arange(POSITIONS) <= position)[None]
                    given = (x, at, seen) if "mask" in how else (x, at)
                    (found,) = await program.forward(*given)
                    np.testing.assert_allclose(found, wanted(x, position), rtol=1e-5, atol=1e-6)
                if device != "numpy":
                    assert {places(program)[ATTENTION]} == {"gpu"}
                    bytes_ = 4 * 2 * POSITIONS * HEADS * packing.words(SIZE)
                    assert program.memory().by_kind["state"] == bytes_

    wait(run())


@pytest.mark.parametrize("how", [{"returned": True}, {"on_host": True}, {"indexed": True}], ids=str)
def test_caches_that_others_use_stay_as_they_are(how: dict[str, Any]) -> None:
    """An attention reads two packed caches, or two plain ones."""
    with pytest.raises(webpte.errors.InputError, match="no KV cache of floats that attention alon"):
        wait(
            webpte.llm.load(
                write_pte(writing(**how, filled=False)), device="numpy", kv_cache="int8"
            )
        )


def writing_halves(late: bool = False, returned: bool = False) -> MethodWriter:
    """Write the program of `writing` with caches of f16, cast to float32 before attention.

    `late`: the values are written after their cast. `returned`: the cast of the keys is an output.
    """
    m = MethodWriter()
    x, at = m.tensor(ROW), m.tensor((1, 1), "int64")
    m.inputs(x, at)
    start = m.value(0)
    m.kernel("aten::_local_scalar_dense", at, start)
    made = [unary(m, f"aten.{op}.default", x, ROW) for op in ("neg", "abs")]
    caches = [m.tensor(CACHE, "float16") for _ in made]
    wide = []
    for index, (row, cache) in enumerate(zip(made, caches, strict=True)):
        half, dummy = m.tensor(ROW, "float16"), m.tensor((1,), "float16")
        m.kernel("aten::_to_copy.out", row, False, None, half, half)
        wide.append(m.tensor(CACHE))
        steps: list[tuple[Any, ...]] = [
            ("aten::_to_copy.out", cache, False, None, wide[-1], wide[-1]),
            (UPDATE, half, cache, start, dummy, dummy),
        ]
        for name, *args in steps if late and index else reversed(steps):
            m.kernel(name, *args)
    out = m.tensor(ROW)
    m.kernel(ATTENTION, made[0], *wide, start, None, 0.0, True, None, out, out)
    m.outputs(unary(m, "aten.neg.default", out, ROW), *([wide[0]] if returned else []))
    return m


@pytest.mark.parametrize("kind", [None, "f16", "int8"])
@pytest.mark.parametrize("device", ["numpy", "simulated"])
def test_caches_of_halves_are_read_without_casts(device: str, kind: str | None) -> None:
    async def run() -> None:
        data = write_pte(writing_halves())
        plain = await webpte.load(data, device="numpy")
        on: Any = SimulatedDevice() if device == "simulated" else device
        async with await webpte.llm.load(data, device=on, kv_cache=kind) as program:
            for position in (0, 1, 2, 1, 4, POSITIONS - 1):
                (wanted,) = await plain.forward(*step(position))
                (found,) = await program.forward(*step(position))
                np.testing.assert_allclose(found, wanted, atol=0.05 if kind == "int8" else 1e-5)
            assert sum(program.methods["forward"].kernels_outside.values()) > 0
            if device == "simulated":
                words = PACKINGS[kind or "f16"].words(SIZE)
                assert program.memory().by_kind["state"] == 4 * 2 * POSITIONS * HEADS * words
                names = [node.op for node in program.graph().nodes]
                assert names.count("aten::_to_copy.out") == 2, "those of the new rows"

    wait(run())


@pytest.mark.parametrize("how", [{"late": True}, {"returned": True}], ids=str)
def test_casts_that_are_needed_stay(how: dict[str, bool]) -> None:
    async def run() -> None:
        data = write_pte(writing_halves(**how))
        plain = await webpte.load(data, device="numpy")
        async with await webpte.llm.load(data, device=SimulatedDevice()) as program:
            for position in (0, 1, 2, 1):
                got, want = (
                    await program.forward(*step(position)),
                    await plain.forward(*step(position)),
                )
                for one, other in zip(got, want, strict=True):
                    np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
        with pytest.raises(webpte.errors.InputError, match="no KV cache of floats"):
            await webpte.llm.load(data, device="numpy", kv_cache="int8")

    wait(run())


def writing_bytes() -> MethodWriter:
    """Attention to caches of int8, whose scales and zero points are caches, too."""
    m, scales = MethodWriter(), (1, 1, HEADS, 1)
    row, scale, zero = m.tensor(ROW, "int8"), m.tensor(scales), m.tensor(scales, "int8")
    at = m.tensor((1, 1), "int64")
    m.inputs(row, scale, zero, at)
    start, out = m.value(0), m.tensor(ROW)
    m.kernel("aten::_local_scalar_dense", at, start)
    caches = []
    for new, size, dtype in ((row, SIZE, "int8"), (zero, 1, "int8"), (scale, 1, "float32")):
        for _ in range(2):
            caches.append(m.tensor((1, POSITIONS, HEADS, size), dtype))
            dummy = m.tensor((1,))
            m.kernel(UPDATE, new, caches[-1], start, dummy, dummy)
    keys, values, *rest = caches
    key_zeros, value_zeros, key_scales, value_scales = rest
    numbers = (zero, scale, key_zeros, key_scales, value_zeros, value_scales)
    how = (start, None, 0.0, True, None)
    m.kernel("llama::custom_quantized_sdpa.out", row, keys, values, *how, *numbers, False, out, out)
    m.outputs(out)
    return m


@pytest.mark.parametrize("device", ["numpy", "simulated"])
def test_caches_of_bytes_may_be_shorter(device: str) -> None:
    async def run() -> None:
        data, rng = write_pte(writing_bytes()), np.random.default_rng(7)
        on: Any = [SimulatedDevice() if device == "simulated" else device for _ in range(2)]
        whole = await webpte.load(data, device=on[0])
        short = await webpte.llm.load(data, device=on[1], max_context=5)
        for position in (0, 1, 4, 2):
            row = rng.integers(-128, 128, ROW).astype(np.int8)
            scale = rng.uniform(0.01, 0.03, (1, 1, HEADS, 1)).astype(np.float32)
            given = (row, scale, np.full(scale.shape, 3, np.int8), np.array([[position]]))
            (wanted,), (found,) = await whole.forward(*given), await short.forward(*given)
            np.testing.assert_array_equal(found, wanted)
            assert np.any(found)
        with pytest.raises(webpte.WebpteError, match="5 cache positions"):
            await short.forward(*given[:3], np.array([[5]]))
        if device == "simulated":
            most = short.memory().by_kind["state"]
            assert most < whole.memory().by_kind["state"] / (POSITIONS / 5) + 100
        for kind in PACKINGS:
            with pytest.raises(webpte.errors.InputError, match="of positions 300 of CHAR, 300 of"):
                await webpte.llm.load(data, device="numpy", kv_cache=kind)

    wait(run())


def test_jumps_lead_to_the_same_calls() -> None:
    operators = (Operator("aten::add", "out"), program_file.WHOLE)
    cache = TensorMeta(ScalarType.FLOAT, CACHE, (0, 1, 2, 3), 0, None, Dynamism.STATIC, None)
    whole, add = KernelCall(1, (0,) * 13), KernelCall(0, (0, 0, 0, 0))
    chain = (JumpFalseCall(0, 2), whole, add, JumpFalseCall(0, 1), whole, JumpFalseCall(0, 6))
    given = ExecutionPlan("m", (0,), (0,), (cache,), (chain, (add,)), operators, (), (), "", "")
    plan = program_file.split_attention(given)
    names = [
        one.destination if isinstance(one, JumpFalseCall) else plan.operators[one.op_index].name
        for one in plan.chains[0]
        if isinstance(one, JumpFalseCall | KernelCall)
    ]
    three = ["llama::update_cache", "llama::update_cache", "llama::custom_sdpa"]
    assert names == [4, *three, "aten::add", 1, *three, 10]
    assert plan.chains[1] == (add,)
    assert len(set(plan.values[1:])) == 4, "each update has an output of its own"


def test_a_cache_that_the_host_reads_stays_there() -> None:
    async def run() -> None:
        data, device = write_pte(writing(on_host=True)), SimulatedDevice()
        expected = await webpte.load(data, device="numpy")
        program = await webpte.load(data, device=device)
        for inputs in map(step, (0, 1, 2, 1)):
            got, want = await program.forward(*inputs), await expected.forward(*inputs)
            np.testing.assert_allclose(got[0], want[0], rtol=1e-6, atol=1e-6)

    wait(run())


def test_a_cache_that_is_returned_is_right() -> None:
    async def run() -> None:
        data = write_pte(writing(returned=True))
        expected = await webpte.load(data, device="numpy")
        program = await webpte.load(data, device=SimulatedDevice())
        for inputs in map(step, (3, 0, 3)):
            got, want = await program.forward(*inputs), await expected.forward(*inputs)
            for one, other in zip(got, want, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)
            np.testing.assert_array_equal(want[1][0, inputs[1].item()], np.abs(inputs[0][0, 0]))

    wait(run())


@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize("device", ["numpy", "simulated"])
def test_a_position_outside_of_the_cache_changes_nothing(indexed: bool, device: str) -> None:
    async def run() -> None:
        where = SimulatedDevice() if device == "simulated" else device
        program = await webpte.load(write_pte(writing(indexed=indexed)), device=where)
        before = await program.forward(*step(2))
        with pytest.raises(webpte.WebpteError, match=r"position|out of (bounds|range)"):
            await program.forward(*step(POSITIONS))
        np.testing.assert_array_equal(before[0], (await program.forward(*step(2)))[0])

    wait(run())


def test_the_state_of_the_delta_rule_stays_on_the_gpu() -> None:
    """Heads of 2 elements, and as many states: out and the new state, which is written back."""
    dims, rows, state_dims = (1, 2, 3, 2), (1, 2, 3), (1, 2, 2, 2)
    m = MethodWriter()
    x, decay = m.tensor(dims), m.tensor(rows)
    m.inputs(x, decay)
    state = m.tensor(state_dims, data=np.ones(state_dims, np.float32), mutable=True)
    negated = unary(m, "aten.neg.default", x, dims)
    gates = unary(m, "aten.sigmoid.default", decay, rows)
    out, new = m.tensor(dims), m.tensor(state_dims)
    rest = (gates, gates, state, out, new, [out, new])
    m.kernel("llama::gated_delta_rule.out", negated, negated, x, *rest)
    m.kernel("aten::copy_", state, new, False, state)
    m.outputs(unary(m, "aten.neg.default", out, dims))

    async def run() -> None:
        rng = np.random.default_rng(1)
        steps = [
            tuple(rng.standard_normal(shape).astype(np.float32) for shape in (dims, rows))
            for _ in range(3)
        ]
        program = await expect(m, *steps)
        assert places(program)["llama::gated_delta_rule.out"] == "gpu"

    wait(run())

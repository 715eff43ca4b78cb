"""bfloat16: rounding bit for bit, in arrays, in files, in programs and on the simulated GPU."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import webpte
from support.graphs.bfloat16 import BITS, EDGES, adding, casting, rounded_bits
from support.graphs.graphs import wait
from support.graphs.offloading import places
from support.write.pte_writer import MethodWriter, write_ptd, write_pte
from webpte.engine.dtypes import DTYPES, round_to_bfloat16
from webpte.engine.gpu.convert import to_stored_bytes
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.errors import InputError

TYPE = DTYPES["bfloat16"]


def bits(array: np.ndarray) -> list[int]:
    assert array.dtype == np.float32
    return [int(word) for word in array.reshape(-1).view(np.uint32)]


def test_numbers_are_rounded_to_nearest_even() -> None:
    assert bits(TYPE.cast(EDGES)) == BITS


def test_the_expected_bits_are_nearest() -> None:
    """Check the table of the tests by exact fractions: no bfloat16 is nearer."""
    for word, value in zip(BITS, EDGES, strict=True):
        if not np.isfinite(value) or word & 0x7FFFFFFF == 0x7F800000:
            continue
        sizes = [word & 0x7FFF0000, (word & 0x7FFF0000) + 0x10000]
        sizes += [sizes[0] - 0x10000] if sizes[0] else []
        near = [
            Fraction(float(np.array(w, np.uint32).view(np.float32)))
            for w in sizes
            if w < 0x7F800000
        ]
        away = [abs(abs(Fraction(float(value))) - other) for other in near]
        assert away[0] == min(away)
        assert away.count(away[0]) == 1 or not word & 0x10000


def test_random_bits_are_rounded_as_one_by_one() -> None:
    words = np.random.default_rng(0).integers(0, 2**32, 4001, np.uint32)
    assert bits(round_to_bfloat16(words.view(np.float32))) == list(
        map(rounded_bits, words.tolist())
    )


def test_rounded_values_are_not_copied() -> None:
    values = TYPE.cast(EDGES)
    assert TYPE.cast(values) is values


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1, 1)])
def test_shapes_stay(shape: tuple[int, ...]) -> None:
    cast = TYPE.cast(np.full(shape, 0.1, np.float64))
    assert cast.shape == shape
    assert np.array_equal(cast, np.full(shape, 0.10009765625))


def test_bytes_of_files() -> None:
    upper = np.arange(0, 1 << 16, 7, dtype=np.uint16)
    values = TYPE.from_bytes(upper.tobytes())
    assert bits(values) == [int(word) << 16 for word in upper]
    quiet = np.isfinite(values)
    assert np.array_equal(np.frombuffer(TYPE.to_bytes(values), np.uint16)[quiet], upper[quiet])
    assert to_stored_bytes(upper.tobytes(), "bfloat16") == values.tobytes()


@pytest.mark.parametrize("device", ["numpy", "simulated"])
@pytest.mark.parametrize("kernel", ["aten::_to_copy.out", "dim_order_ops::_to_dim_order_copy.out"])
def test_casts_of_a_program(device: str, kernel: str) -> None:
    async def run() -> None:
        data = write_pte(casting("float32", "bfloat16", kernel))
        chosen = SimulatedDevice() if device == "simulated" else device
        async with await webpte.load(data, device=chosen) as program:
            got, _ = await program.forward(EDGES, np.ones(4, np.float32))
            assert bits(got) == BITS
            assert places(program)[kernel] == ("gpu" if device == "simulated" else "host")

    wait(run())


@pytest.mark.parametrize(("source", "target"), [("float16", "bfloat16"), ("bfloat16", "float16")])
def test_casts_between_halves(source: str, target: str) -> None:
    largest = 65504 if source == "float16" else 3e38
    given = np.array([1.0009766, -65504, 6e-8, 0.3, np.inf, -0.0, largest], np.float32)
    given = given.astype(np.float16) if source == "float16" else TYPE.cast(given)
    want = given.astype(np.float32)
    with np.errstate(over="ignore"):
        want = TYPE.cast(want) if target == "bfloat16" else want.astype(np.float16)

    async def run() -> None:
        data = write_pte(casting(source, target, "aten::_to_copy.out", len(given)))
        for device in ("numpy", SimulatedDevice()):
            async with await webpte.load(data, device=device) as program:
                got, _ = await program.forward(given, np.ones(4, np.float32))
                assert got.dtype == want.dtype
                assert np.array_equal(got, want)

    wait(run())


@pytest.mark.parametrize("device", ["numpy", "simulated"])
def test_results_are_rounded_and_constants_widened(device: str) -> None:
    constant = TYPE.cast(np.array([0.1, -7, 1e-3], np.float32))

    async def run() -> None:
        chosen = SimulatedDevice() if device == "simulated" else device
        async with await webpte.load(write_pte(adding(constant)), device=chosen) as program:
            info = program.methods["forward"].inputs[0]
            assert str(info) == "input0: bfloat16 [3]"
            given = np.array([1.2345678, 3.3, -0.77], np.float32)
            (got,) = await program.forward(given)
            assert got.dtype == np.float32
            assert bits(got) == bits(TYPE.cast(TYPE.cast(given) + constant))

    wait(run())


@pytest.mark.parametrize("device", ["numpy", "simulated"])
def test_constants_of_a_ptd_file(device: str) -> None:
    weight = TYPE.cast(np.array([0.1, -7, 1e-3], np.float32))
    m = MethodWriter()
    x, out = m.tensor((3,), "bfloat16"), m.tensor((3,), "bfloat16")
    m.inputs(x)
    m.kernel("aten::mul.out", x, m.tensor((3,), "bfloat16", external="w"), out, out)
    m.outputs(out)

    async def run() -> None:
        data = write_ptd({"w": TYPE.to_bytes(weight)})
        chosen = SimulatedDevice() if device == "simulated" else device
        async with await webpte.load(write_pte(m), data=[data], device=chosen) as program:
            (got,) = await program.forward(np.ones(3, np.float32))
            assert bits(got) == bits(weight)

    wait(run())


def test_tensors_that_stay_on_the_gpu_are_rounded_there() -> None:
    async def run() -> None:
        device = SimulatedDevice()
        async with await webpte.load(write_pte(adding()), device=device) as program:
            given = np.array([1.25, 3.3, -0.77], np.float32)
            constant = TYPE.cast(np.array([0.1, 0.2, 0.3], np.float32))
            other = await webpte.load(write_pte(adding(constant)), device=device)
            (kept,) = await other.run("forward", given, output="gpu")
            assert (kept.declared_dtype, kept.dtype, kept.nbytes) == ("bfloat16", np.float32, 12)
            assert str(kept) == "GpuTensor(bfloat16 [3])"
            stored = np.frombuffer(await device.read(kept._tensor.buffer, 12), np.float32)
            assert bits(stored) == bits(TYPE.cast(stored)) == bits(await kept.numpy())
            (twice,) = await program.forward(kept)
            assert bits(twice) == bits(TYPE.cast(stored * 2))

    wait(run())


def test_a_gpu_tensor_of_float32_is_refused() -> None:
    m = MethodWriter()
    x, out = m.tensor((3,)), m.tensor((3,))
    m.inputs(x)
    m.kernel("aten::add.out", x, x, 1, out, out)
    m.outputs(out)

    async def run() -> None:
        device = SimulatedDevice()
        floats = await webpte.load(write_pte(m), device=device)
        (kept,) = await floats.run("forward", np.ones(3, np.float32), output="gpu")
        program = await webpte.load(write_pte(adding()), device=device)
        with pytest.raises(
            InputError, match=r"bfloat16 is needed, not a GpuTensor\(float32 \[3\]\)"
        ):
            await program.forward(kept)

    wait(run())


@pytest.mark.parametrize(
    ("dtype", "message"),
    [
        ("float64", r"give float32, which is rounded, or ml_dtypes.bfloat16, not float64$"),
        ("float16", "not float16$"),
        ("int32", "not int32$"),
        ("uint16", r"bits of bfloat16: \(array.astype\(np.uint32\) << 16\).view\(np.float32\)$"),
    ],
)
def test_other_arrays_are_refused(dtype: str, message: str) -> None:
    async def run() -> None:
        program = await webpte.load(write_pte(adding()), device="numpy")
        with pytest.raises(
            InputError, match=f"bfloat16 is needed, which NumPy does not have: .*{message}"
        ):
            await program.forward(np.ones(3, dtype))

    wait(run())


def test_ml_dtypes_in_and_out() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")

    async def run() -> None:
        program = await webpte.load(write_pte(adding()), device="numpy")
        (got,) = await program.forward(np.array([1.2, 3, 4], ml_dtypes.bfloat16))
        assert got.dtype == ml_dtypes.bfloat16
        assert got.tolist() == [2.40625, 6, 8]
        (got,) = await program.forward(np.array([1.2, 3, 4], np.float32))
        assert got.dtype == np.float32

    wait(run())

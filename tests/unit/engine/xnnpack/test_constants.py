"""Constants of XNNPACK graphs: their places, sharing, and memory."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import webpte
from support.graphs.graphs import run_once, wait
from support.write.method_writer import MethodWriter
from support.write.pte_writer import Node, Scalar, write_ptd, write_pte
from support.write.xnnpack_writer import XnnpackWriter, floats
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.errors import ConstantError

W, B = floats(4, 5), floats(4, seed=1)


def layer(*, key: str | None = None, type: str = "fp32", bias: bool = True) -> XnnpackWriter:
    """x @ W.T + B; `key` makes the weights named data."""
    g = XnnpackWriter()
    x = g.value((2, 5), type, argument=0)
    w = g.value((4, 5), constant=W, key=key)
    b = g.value((4,), constant=B) if bias else None
    g.node("FullyConnected", x, w, b, g.value((2, 4), type, argument=1, output=True))
    return g


def images(*, key: str | None = None, type: str = "fp32") -> XnnpackWriter:
    """A convolution, whose weights are converted."""
    g = XnnpackWriter()
    x = g.value((1, 4, 4, 2), type, argument=0)
    w = g.value((3, 2, 2, 2), constant=floats(3, 2, 2, 2), key=key)
    fields: dict[str, Any] = dict.fromkeys(("top", "right", "bottom", "left"), 0)
    fields |= {"kernel": (2, 2), "stride": (1, 1), "dilation": (1, 1), "groups": 1}
    y = g.value((1, 3, 3, 3), type, argument=1, output=True)
    g.node("Conv2d", x, w, None, y, **fields, inputs=2, outputs=3)
    return g


GIVEN = floats(2, 5, seed=2)
WANT = GIVEN @ W.T + B


async def computed(program_file: bytes, **options: Any) -> np.ndarray[Any, Any]:
    async with await webpte.load(program_file, device="numpy", **options) as program:
        (found,) = await program.forward(GIVEN)
        return np.asarray(found)


@pytest.mark.parametrize("header", [True, False])
def test_inside_of_the_delegate(header: bool) -> None:
    (found,) = wait(run_once(layer().method(header=header), GIVEN))
    np.testing.assert_allclose(np.asarray(found), WANT, rtol=1e-5, atol=1e-6)


def test_named_data_of_the_program() -> None:
    g = layer(key="w")
    found = wait(computed(write_pte(g.method(), named_data=g.named)))
    np.testing.assert_allclose(found, WANT, rtol=1e-5, atol=1e-6)


def test_named_data_of_another_file() -> None:
    g = layer(key="w")
    found = wait(computed(write_pte(g.method()), data=[write_ptd({"w": W})]))
    np.testing.assert_allclose(found, WANT, rtol=1e-5, atol=1e-6)


def test_named_data_that_is_longer() -> None:
    """The delegate says how many bytes are its constant."""
    g = layer(key="w")
    found = wait(computed(write_pte(g.method(), named_data={"w": W.tobytes() + b"more"})))
    np.testing.assert_allclose(found, WANT, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({}, "constant 1: no named data under the key 'w'; if the weights were exported to a .ptd"),
        ({"w": b"short"}, "constant 1: 80 bytes are needed, 5 are in the file"),
    ],
)
def test_named_data_that_is_missing(named: dict[str, bytes], message: str) -> None:
    with pytest.raises(ConstantError) as raised:
        wait(computed(write_pte(layer(key="w").method(), named_data=named)))
    assert message in str(raised.value)


def test_a_constant_with_too_few_bytes() -> None:
    g = XnnpackWriter()
    x, w = g.value((3,), argument=0), g.value((3,), constant=bytes(11))
    g.node("Add", x, w, g.value((3,), argument=1, output=True))
    with pytest.raises(ConstantError, match=r"value 1 \[3\]: 12 bytes are needed, 11 are in the"):
        wait(run_once(g.method(), floats(3)))


# --- sharing ------------------------------------------------------------------------------------


def uploads(device: SimulatedDevice) -> list[int]:
    """The bytes of each constant that was uploaded."""
    logged = [detail for name, detail in device.log if name == "transfer"]
    return [transfer.region.size for detail in logged for transfer in detail]  # type: ignore[attr-defined]


async def loaded(device: SimulatedDevice, named: dict[str, bytes], **methods: Any) -> int:
    data = write_pte(methods=methods, named_data=named)
    async with await webpte.load(data, device=device) as program:
        return program.stats.prepack_transfers


@pytest.mark.parametrize("type", ["fp32", "fp16"])
@pytest.mark.parametrize("make", [layer, images])
def test_two_methods_share_named_constants(make: Any, type: str) -> None:
    """Constants as in the file, cast to halves, or in the layout of kernels."""
    first, second = make(key="w", type=type), make(key="w", type=type)
    alone, both = SimulatedDevice(), SimulatedDevice()
    count = wait(loaded(alone, first.named, one=first.method()))
    assert count == len(uploads(alone))
    wait(loaded(both, first.named, one=first.method(), two=second.method()))
    weights = max(uploads(alone))
    assert uploads(both).count(weights) == 1


def test_two_delegates_of_a_method_share_named_constants() -> None:
    g = images(key="w")
    m = MethodWriter()
    x, y = m.tensor((1, 4, 4, 2)), m.tensor((1, 3, 3, 3))
    z = m.tensor((1, 3, 3, 3))
    m.inputs(x)
    m.delegate(g.blob(), [x, y], delegate_id="XnnpackBackend")
    m.delegate(g.blob(), [x, z], delegate_id="XnnpackBackend")
    m.outputs(y, z)
    device = SimulatedDevice()
    wait(loaded(device, g.named, forward=m))
    assert uploads(device) == [3 * 2 * 2 * 2 * 4]


def test_constants_that_are_converted_in_other_ways_are_not_shared() -> None:
    """Equal bytes, as floats and as halves."""
    whole, halves = layer(key="w", bias=False), layer(key="w", type="fp16", bias=False)
    device = SimulatedDevice()
    wait(loaded(device, whole.named, one=whole.method(), two=halves.method()))
    assert sorted(uploads(device)) == [40, 80]


# --- memory -------------------------------------------------------------------------------------

BULK = 36_864 * 4096  # 151 MB: whole rows of both kinds


def write_sparse(path: Path, kind: str) -> None:
    """A delegate whose weights are 151 MB of zeros that take no room on the disk."""

    def grow(root: Node) -> None:
        entries: Any = root.slots[8]
        entries[1].slots[1] = Scalar("u64", BULK)

    g = XnnpackWriter(edit=grow)
    type = "fp16" if kind == "halves" else "fp32"
    named = g.constant(b"placeholder", key="bulk")
    if kind == "images":
        outs = BULK // (4 * 9 * 1024)
        x = g.value((1, 3, 3, 1024), argument=0)
        w = g.value((outs, 3, 3, 1024), constant=named)
        y = g.value((1, 1, 1, outs), argument=1, output=True)
        fields: dict[str, Any] = dict.fromkeys(("top", "right", "bottom", "left"), 0)
        fields |= {"kernel": (3, 3), "stride": (1, 1), "dilation": (1, 1), "groups": 1}
        g.node("Conv2d", x, w, None, y, **fields, inputs=1024, outputs=outs)
    else:
        rows = BULK // (4 * 1024)
        x = g.value((1, 1024), type, argument=0)
        w = g.value((rows, 1024), constant=named)
        y = g.value((1, rows), type, argument=1, output=True)
        g.node("FullyConnected", x, w, None, y)

    def move(root: Node) -> None:
        segments: Any = root.slots[4]
        segments[-1].slots |= {0: Scalar("u64", 1 << 20), 1: Scalar("u64", BULK)}

    data = write_pte(g.method(), named_data=g.named, edit=move)
    base = int.from_bytes(data[24:32], "little")
    with path.open("wb") as file:
        file.write(data)
        file.truncate(base + (1 << 20) + BULK)


@pytest.mark.parametrize("kind", ["rows", "halves", "images"])
def test_large_weights_are_not_in_memory_as_a_whole(tmp_path: Path, kind: str) -> None:
    """Read in chunks, as the native device does, through whatever converts them."""
    path = tmp_path / "big.pte"
    write_sparse(path, kind)
    chunk, largest = 16 << 20, 0

    async def run() -> int:
        device = SimulatedDevice()
        async with await webpte.load(path, device=device):
            found = 0
            for name, detail in device.log:
                for transfer in detail if name == "transfer" else ():  # type: ignore[attr-defined]
                    region = transfer.region
                    for start in range(0, region.size, chunk):
                        length = min(chunk, region.size - start)
                        assert len(await region.view(start, length)) == length
                    found = max(found, region.size)
            return found

    tracemalloc.start()
    try:
        largest = wait(run())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert largest == BULK // (2 if kind == "halves" else 1)
    assert peak < BULK // 2

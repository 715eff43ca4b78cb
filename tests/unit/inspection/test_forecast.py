"""Forecasts of memory are what programs then have, and come before any weight is read."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import webpte
from support.graphs.graphs import wait
from support.graphs.split_graphs import linear
from support.write.pte_writer import constants_of, write_ptd, write_pte
from webpte import errors
from webpte.engine.call.options import DeveloperOptions
from webpte.engine.files.source import BytesSource
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.inspection.report import PHONE_BUDGET, MemoryForecast
from webpte_host.base.layout import ROOT

LLAMAS = ROOT / "tests" / "data" / "llm"
SAMPLES = ROOT / "web" / "samples"
PROGRAMS = [
    *(LLAMAS / f"llama_tiny_{weights}.pte" for weights in ("fp32", "q4")),
    *(SAMPLES / f"{name}.pte" for name in ("digits", "photo", "stories", "superres")),
]


def forecast(source: Any, **given: Any) -> MemoryForecast:
    return wait(webpte.forecast(source, **{"device": SimulatedDevice(), **given}))


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
@pytest.mark.parametrize("phone", [False, True])
def test_what_is_forecast_is_allocated(path: Path, phone: bool) -> None:
    async def check() -> None:
        device, options = SimulatedDevice(), DeveloperOptions(phone=phone)
        told = await webpte.forecast(path, device=device, options=options)
        assert not device.buffers
        async with await webpte.load(path, device=device, options=options) as program:
            kinds: Counter[str] = Counter()
            for method, info in program.methods.items():
                kinds.update({} if info.is_constant else program.memory(method).by_kind)
            found = [kinds[kind] for kind in ("weights", "state", "activations", "scratch")]
            assert [told.weights, told.state, told.activations, told.scratch] == found
            assert told.fits
            assert told.total == sum(device.buffers.values()) - kinds["params"]

    wait(check())


class HeadOnly(BytesSource):
    """A file that remembers how much of it was read."""

    read_bytes = 0

    async def read(self, offset: int, length: int) -> bytes:
        self.read_bytes += length
        return await super().read(offset, length)


def test_no_weight_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[HeadOnly] = []

    async def open_source(source: bytes, **_: Any) -> HeadOnly:
        opened.append(HeadOnly(source, "model.pte"))
        return opened[-1]

    monkeypatch.setattr("webpte.hub.program_files.open_source", open_source)
    data = (LLAMAS / "llama_tiny_fp32.pte").read_bytes()
    told = forecast(data)
    assert opened[0].read_bytes < len(data) - told.weights + 4096


def test_budgets() -> None:
    path = LLAMAS / "llama_tiny_fp32.pte"
    assert forecast(path).fits
    assert forecast(path, budget=PHONE_BUDGET).fits
    small = forecast(path, budget=500_000)
    assert small.is_over_budget
    assert not small.fits
    assert small.peak == small.total + small.weights  # all weights pass at once
    assert str(small) == (
        "Needs 1.0 MB of GPU memory: weights 0.7, caches 0.1, activations 0.3. "
        "With 0.7 MB while it loads, that is over the budget of 0.5 MB"
    )


def test_what_a_gpu_cannot_bind() -> None:
    told = forecast(LLAMAS / "llama_tiny_q4.pte", options=DeveloperOptions(binding_bytes=20000))
    assert not told.fits
    assert "over this GPU's limit of 20,000 bytes" in told.refusals[0]
    with pytest.raises(errors.OutOfMemoryError) as caught:
        wait(
            webpte.load(
                LLAMAS / "llama_tiny_q4.pte",
                device=SimulatedDevice(),
                options=DeveloperOptions(binding_bytes=20000),
            )
        )
    assert told.refusals[0] in str(caught.value)


def test_parts_and_a_ptd() -> None:
    program = linear()
    data = write_pte(program.graph, external_constants=True)
    weights = write_ptd(constants_of(program.graph))
    limit = program.limit(7)
    told = forecast(data, data=[weights], options=DeveloperOptions(binding_bytes=limit))
    assert told.largest <= limit
    assert told.weights >= 97 * (program.row_bytes + 4)
    assert told.fits


def test_without_a_device() -> None:
    told = forecast(LLAMAS / "llama_tiny_q4.pte", device="numpy")
    assert told.fits
    assert told.limits == {}


def test_a_load_tells_its_forecast_first() -> None:
    async def check() -> None:
        device, told = SimulatedDevice(), list[MemoryForecast]()

        def tell(forecast: MemoryForecast) -> None:
            assert not device.buffers
            told.append(forecast)

        path = LLAMAS / "llama_tiny_q4.pte"
        async with await webpte.load(path, device=device, on_forecast=tell):
            assert told == [await webpte.forecast(path, device=device)]

    wait(check())


def test_a_forecast_can_end_a_load() -> None:
    async def check() -> None:
        device = SimulatedDevice()

        def refuse(_: MemoryForecast) -> None:
            raise errors.OutOfMemoryError("too much for this page")

        path = LLAMAS / "llama_tiny_q4.pte"
        with pytest.raises(errors.OutOfMemoryError, match="too much for this page"):
            await webpte.load(path, device=device, on_forecast=refuse)
        assert not device.buffers
        assert not device.log

    wait(check())

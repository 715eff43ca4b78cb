"""Programs within the limits of a phone's GPU, and with weights in parts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import webpte
from support.devices.native import make_device, need_native
from support.graphs.split_graphs import PROGRAMS
from support.harness import extent
from support.write import pack_suite
from support.write.pte_writer import write_pte
from webpte.engine.call.options import DeveloperOptions
from webpte.engine.gpu.device_info import PHONE_LIMITS
from webpte.engine.gpu.native.device import NativeDevice
from webpte.llm import Generator
from webpte_export.suites.suite import run_entry
from webpte_host.base.layout import ROOT
from webpte_host.commands.verify import case_id

MODELS = ROOT / "tests" / "suites" / "models.zip"
ENTRIES = pack_suite.read_entries(MODELS)
LLAMAS = ROOT / "tests" / "data" / "llm"
LOW = 64 << 10  # bytes of a buffer: much less than any GPU has


@pytest.fixture(scope="module", autouse=True)
def _driver() -> None:
    need_native()


@pytest.fixture(scope="module")
def models() -> Iterator[Path]:
    with ExitStack() as stack:
        yield stack.enter_context(pack_suite.unpacked(MODELS))


@cache
def phone(software: bool = False) -> NativeDevice:
    """Open a device that refuses requests over a phone's limits."""
    device = make_device("phone")
    device.info = replace(device.info, software=software)
    return device


def test_the_device_has_no_more_than_a_phone() -> None:
    info = phone().info
    assert {name: info.limits[name] for name in PHONE_LIMITS} == PHONE_LIMITS
    assert not info.has_f16
    assert "subgroups" not in info.features


@pytest.mark.parametrize(
    ("name", "software"), extent.share([(name, way) for way in (False, True) for name in PROGRAMS])
)
def test_weights_in_parts(name: str, software: bool) -> None:
    async def run() -> None:
        program = PROGRAMS[name]()
        data = write_pte(program.graph)
        async with await webpte.load(data, device="numpy") as reference:
            want = [(await reference.forward(x))[0] for x in program.steps]
        for parts in (2, 7):
            options = DeveloperOptions(binding_bytes=program.limit(parts))
            device = phone(software)
            async with await webpte.load(data, device=device, options=options) as loaded:
                got = [(await loaded.forward(x))[0] for x in program.steps]
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
            assert device.counts()["buffers"] == 0

    asyncio.run(run())


@pytest.mark.parametrize("entry", extent.share(ENTRIES), ids=case_id)
def test_models(models: Path, entry: pack_suite.Entry) -> None:
    async def fetch_bytes(path: str) -> bytes:
        return (models / path).read_bytes()

    report = asyncio.run(run_entry(entry, fetch_bytes, phone()))
    assert report["error"] is None
    assert report["outputs"]


async def answer(program: webpte.Program, steps: int, **asked: Any) -> list[int]:
    generator = Generator(program)
    return [
        token async for token in generator.generate([5, 9, 33, 7], 20, steps_ahead=steps, **asked)
    ]


@pytest.mark.parametrize("name", extent.some(["llama_tiny_q4"], "llama_tiny_fp32"))
def test_answers_with_a_head_in_parts(name: str) -> None:
    sampled = {"temperature": 0.9, "top_k": 20, "seed": 3}

    async def run() -> None:
        path = LLAMAS / f"{name}.pte"
        async with await webpte.load(path, device="numpy") as reference:
            wanted = [await answer(reference, 1), await answer(reference, 1, **sampled)]
        limit = LOW if name.endswith("fp32") else LOW - 8192
        options = DeveloperOptions(binding_bytes=limit)
        async with await webpte.load(path, device=phone(), options=options) as program:
            bound = [b.nbytes for b in program.memory().buffers if b.kind != "params"]
            assert max(bound) <= limit
            for steps in (1, 4):
                assert await answer(program, steps) == wanted[0]
                assert await answer(program, steps, **sampled) == wanted[1]

    asyncio.run(run())

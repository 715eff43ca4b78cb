"""KV caches in f16 and 8 bits on a GPU's kernels and on plain ones, against the references."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import webpte
from support.cases.attention.attention_cases import TALK
from support.cases.attention.attention_programs import CacheCase
from support.cases.attention.update_programs import UpdateCase
from support.devices.native import make_device, need_native
from webpte.gpu.native.device import NativeDevice

KINDS = ("f16", "int8")
WAYS = ("gpu", "phone", "plain")
# Every kernel: few and many queries, heads of odd sizes and of more than 256 elements, splits.
CASES = [
    CacheCase(4, 2, 16, TALK, label="talk"),
    CacheCase(10, 1, 8, TALK, label="ten heads in two tiles of rows"),
    CacheCase(1, 1, 1, [(1, 0), (3, 1), (1, 4)], positions=5, label="all ones"),
    CacheCase(2, 2, 6, [(3, 2), (1, 5)], batch=3, positions=9),
    CacheCase(4, 2, 33, [(40, 2), (1, 42), (3, 7)], positions=50, label="odd heads"),
    CacheCase(4, 2, 64, [(70, 3), (1, 73), (5, 20)], positions=80, label="tiles, then rolled back"),
    CacheCase(4, 2, 128, [(40, 2), (1, 42), (64, 0)], positions=80, label="large heads"),
    CacheCase(2, 1, 260, [(1, 30), (20, 31), (1, 51)], positions=70),
    CacheCase(4, 2, 16, [(1, 700), (2, 5), (1, 999)], positions=1000, label="many splits"),
    CacheCase(8, 1, 8, [(9, 500), (3, 0)], positions=600, label="tiles with splits"),
    CacheCase(4, 2, 16, [(3, 7), (1, 12)], mask="SN", mask_type="bool", causal=False),
    UpdateCase(4, 2, 7, [(1, 20), (30, 3)]),
]


@pytest.fixture(scope="module", autouse=True)
def _driver() -> None:
    need_native()


@cache
def device_for(way: str) -> NativeDevice:
    device = make_device("phone" if way == "phone" else "gpu")
    device.info = replace(device.info, software=way == "plain")
    return device


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_attention_reads_what_the_reference_reads(case: CacheCase, way: str, kind: str) -> None:
    async def check() -> None:
        program = case.program()
        async with (
            await webpte.load(program, device="numpy", kv_cache=kind) as reference,
            await webpte.load(program, device=device_for(way), kv_cache=kind) as native,
        ):
            for index in range(len(case.steps)):
                (wanted,) = await reference.forward(*case.inputs(index))
                (found,) = await native.forward(*case.inputs(index))
                np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)

    asyncio.run(check())

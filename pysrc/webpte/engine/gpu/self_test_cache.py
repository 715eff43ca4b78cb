"""Keeps the outcome of a device's self-test: it runs once per adapter and version of the browser.

The text is JSON: {"adapter, browser and version": {"passed": [...], "faults": {...}, "ms": 3.2}}.
A device that cannot be used is tested again whenever it is opened.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from webpte.engine.files.json_reader import Table, parse_table
from webpte.engine.gpu.device import Device
from webpte.engine.gpu.device_info import DeviceInfo, SelfTest
from webpte.engine.gpu.self_test import VERSION, apply_self_test, can_do_without, run_self_test

MOST_KEPT = 8  # entries for the newest adapters and versions


class KeptText(Protocol):
    """A text that outlives the device; empty before the first write."""

    async def read(self) -> str: ...

    async def write(self, text: str) -> None: ...


class MemoryText:
    """A text that is kept as long as this object."""

    def __init__(self) -> None:
        self._text = ""

    async def read(self) -> str:
        return self._text

    async def write(self, text: str) -> None:
        self._text = text


def _key(info: DeviceInfo, browser: str) -> str:
    """Return the key of a test's outcome: everything that the outcome depends on."""
    names = info.kind, info.vendor, info.architecture, info.description, browser, VERSION
    return " ".join((*names, *sorted(info.features), str(info.packed_dot)))


async def checked_info(
    device: Device, store: KeptText, browser: str = "", texts: Mapping[str, str] | None = None
) -> DeviceInfo:
    """Return the info of a device, tested if need be, with only the features that passed.

    Raises FaultyDeviceError if the device cannot be used.
    """
    key, kept = _key(device.info, browser), await _read(store)
    verdict = _parse(kept.get(key))
    if verdict is not None:
        return apply_self_test(device.info, replace(verdict, kept=True))
    verdict = await run_self_test(device, texts)
    info = apply_self_test(device.info, verdict)
    row = {"passed": verdict.passed, "faults": verdict.faults, "ms": verdict.milliseconds}
    rows = {**{k: row for k, row in kept.items() if k != key}, key: row}
    await store.write(json.dumps(dict(list(rows.items())[-MOST_KEPT:]), indent=1) + "\n")
    return info


async def _read(store: KeptText) -> dict[str, object]:
    try:
        return dict(parse_table(await store.read(), "self_test.json", ValueError).content)
    except ValueError:
        return {}


def _parse(row: object) -> SelfTest | None:
    """Return a stored outcome, or None if it is missing or malformed."""
    if not isinstance(row, dict):
        return None
    table = Table(row, "self_test.json", ValueError)
    try:
        passed, faults = table.listed("passed"), table.table("faults").content
        milliseconds = float(table.number("ms"))
    except ValueError:
        return None
    if not all(isinstance(text, str) for text in (*passed, *faults, *faults.values())):
        return None
    if not all(map(can_do_without, faults)):
        return None
    return SelfTest(tuple(passed), dict(faults), milliseconds)

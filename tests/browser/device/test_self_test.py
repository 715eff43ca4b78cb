"""The self-test in a browser: it passes, is kept, and turns off features that are wrong."""

from __future__ import annotations

import pytest

from support.page.page import python
from webpte_host.harness.browser import Harness

OPEN = """
from webpte.engine.gpu.webgpu.device import WebGPUDevice
from webpte.engine.gpu.self_test import run_self_test, trials
from webpte.engine.browser.settings_store import BrowserStore
from webpte.engine.plan.shaders import ShaderLibrary

def text(kernel, info, right, wrong):
    (trial,) = [trial for trial in trials(info) if trial.kernel == kernel]
    code = ShaderLibrary().assemble(f"lib/self_test/{kernel}", trial.types).code
    assert right in code
    return {kernel: code.replace(right, wrong)}

await BrowserStore("self_test.json").write("")
"""

KEPT = (
    OPEN
    + """
first = await WebGPUDevice.create()
second = await WebGPUDevice.create()
again = await run_self_test(second)
counts = second.counts()
for device in (first, second):
    device.destroy()
tests = [first.info.self_test, second.info.self_test, again]
return [[t.passed, t.faults, t.milliseconds, t.kept] for t in tests] + [counts]
"""
)


def test_it_passes_and_is_kept(harness: Harness) -> None:
    first, second, again, counts = python(harness, KEPT)
    print(f"self-test: {first[2]:.1f} ms the first time, {again[2]:.1f} ms warm")
    for passed, faults, milliseconds, _ in (first, second, again):
        assert {"workgroup memory", "barriers", "atomics", "large grids"} <= set(passed)
        assert not faults
        assert 0 < milliseconds < 60_000
    assert [first[3], second[3], again[3]] == [False, True, False]
    assert counts["buffers"] == counts["plans"] == 0


WRONG = (
    OPEN
    + """
whole = await WebGPUDevice.create()
kernel, right, wrong = change
texts = text(kernel, whole.info, right, wrong)
whole.destroy()
try:
    device = await WebGPUDevice.create(self_test_texts=texts)
except webpte.errors.FaultyDeviceError as error:
    return [list(error.faults), None]
info = device.info
device.destroy()
return [list(info.self_test.faults), info.packed_dot]
"""
)


@pytest.mark.parametrize(
    ("change", "faults", "packed_dot"),
    [
        (["packed_dot", "dot4I8Packed(", "1 + dot4I8Packed("], ["packed dot products"], False),
        pytest.param(
            *(["workgroup", "values[COUNT - 1u - lane]", "0u"], ["workgroup memory"], None),
            marks=pytest.mark.thorough,
        ),
        (["workgroup", "fn main", "fn main !"], ["workgroup memory", "barriers", "atomics"], None),
    ],
    ids=["option", "fatal", "uncompiled"],
)
def test_a_fault_is_found(
    harness: Harness, change: list[str], faults: list[str], packed_dot: bool | None
) -> None:
    assert python(harness, WRONG, change=change) == [faults, packed_dot]

"""Waiting for results in Firefox: the browser is measured, and nudges make it answer early.

The adapter is a software one on most machines, where webpte does not nudge; so the measurement is
asked for as for a GPU.
"""

from __future__ import annotations

from support.page.page import python
from webpte_host.harness.browser import Harness

MEASURE = """
import json
from webpte.gpu.browser.scripts import load_script
from webpte.gpu.webgpu.device import find_adapter

adapter, info = await find_adapter()
device = await load_script("webgpu/adapter.js").open(adapter, "[]", "{}")
opened = load_script("webgpu/waiting.js").open(device, False)
await opened.measure()
device.destroy()
return json.loads(opened.describe())
"""


def test_an_empty_submission_is_measured_to_help(harness: Harness) -> None:
    """Firefox looks for finished work every 100 ms, or when something is submitted."""
    described = python(harness, MEASURE)
    ms = described["ms"]
    assert described["way"] == "submit", ms
    assert ms["plain"] > 2 * ms["submit"]

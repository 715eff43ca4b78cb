"""The description of an adapter: where WebGPU has no name, WebGL's name stands in."""

from __future__ import annotations

from typing import Any

import pytest

from support.page.page import python
from webpte_host.harness.browser import Harness

DESCRIBE = """
import json, js
from pathlib import Path
from pyodide.code import run_js
import webpte

# Evaluated anew, since a page asks WebGL once.
script = run_js((Path(webpte.__file__).parent / "engine/gpu/webgpu/adapter.js").read_text())

within = run_js('''async (name, vendor, describe) => {
    const { getContext } = OffscreenCanvas.prototype;
    OffscreenCanvas.prototype.getContext = () => {
        if (name === null) throw new Error("WebGL is off");
        return { RENDERER: 1, getParameter: () => name, getExtension: () => null };
    };
    const adapter = { info: { vendor }, limits: {}, features: new Set() };
    try {
        return describe(adapter);
    } finally {
        OffscreenCanvas.prototype.getContext = getContext;
    }
}''')
told = await within(js.JSON.parse(name), vendor, script.describe)
return json.loads(told)["description"]
"""

NVIDIA = "NVIDIA GeForce GTX 980, or similar"


@pytest.mark.parametrize(
    ("name", "vendor", "wanted"),
    [
        (f'"{NVIDIA}"', "", NVIDIA),
        (f'"{NVIDIA}"', "amd", ""),  # WebGPU has named it
        ('"llvmpipe, or similar"', "", ""),  # WebGL runs on the CPU, WebGPU may not
        ("null", "", ""),
    ],
)
def test_an_adapter_without_a_name(harness: Harness, name: Any, vendor: str, wanted: str) -> None:
    assert python(harness, DESCRIBE, name=name, vendor=vendor) == wanted

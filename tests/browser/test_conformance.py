"""The browser's device keeps the promises of the protocol: see support/device_conformance.py."""

from __future__ import annotations

from pathlib import Path

import pytest

import support
from support.device_conformance import CHECKS
from support.page import HarnessSource, python

FILES = ("device_bench", "device_conformance")

# The checks are modules of the page's `support` package, and the subject is made of its device.
RUN = """
import sys, types
from js import Object
from pyodide.ffi import to_js
from webpte.gpu.webgpu import WebGPUDevice

for name, text in files.items():
    if f"support.{name}" not in sys.modules:
        sys.modules.setdefault("support", types.ModuleType("support"))
        module = sys.modules[f"support.{name}"] = types.ModuleType(f"support.{name}")
        exec(compile(text, name, "exec"), module.__dict__)

class Subject:
    compiles = True

    def __init__(self, device):
        self.device = device
        self.too_much = device.info.limits["maxStorageBufferBindingSize"] + 4

    def make_native(self, nbytes, copyable=True):
        usage = 0x80 | (0x04 if copyable else 0)  # STORAGE, COPY_SRC
        described = to_js({"size": nbytes, "usage": usage}, dict_converter=Object.fromEntries)
        return self.device.native.createBuffer(described)

    def lose(self):
        self.device.destroy()

subject = Subject(await WebGPUDevice.create())
try:
    await asyncio.wait_for(sys.modules["support.device_conformance"].CHECKS[check](subject), 100)
finally:
    subject.device.destroy()
"""


@pytest.mark.parametrize("name", CHECKS)
def test_webgpu_device(name: str, shared_harness: HarnessSource) -> None:
    folder = Path(next(iter(support.__path__)))
    files = {file: (folder / f"{file}.py").read_text(encoding="utf-8") for file in FILES}
    python(shared_harness.get(), RUN, files=files, check=name)

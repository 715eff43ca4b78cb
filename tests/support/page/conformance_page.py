"""Runs a check of device_conformance.py in the harness page, on the browser's device."""

from __future__ import annotations

from pathlib import Path

import support
from support.page.page import python
from webpte_host.harness.browser import Harness

# In the order of their imports.
FILES = ("device_fixture", "device_buffer_checks", "device_plan_checks", "device_conformance")

# The checks are modules of the page's `support` package, and the subject is made of its device.
RUN = """
import sys, types
from js import Object
from pyodide.ffi import to_js
from webpte.engine.gpu.webgpu.device import WebGPUDevice

for name, text in files.items():
    full = f"support.devices.{name}"
    if full not in sys.modules:
        for package in ("support", "support.devices"):
            sys.modules.setdefault(package, types.ModuleType(package))
        module = sys.modules[full] = types.ModuleType(full)
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

device = await WebGPUDevice.create(waiting)
try:
    check = sys.modules["support.devices.device_conformance"].CHECKS[name_of_check]
    await asyncio.wait_for(check(Subject(device)), 100)
finally:
    device.destroy()
return device.info.waiting
"""


def run_check(harness: Harness, name: str, waiting: str | None = None) -> str:
    """Raises the check's errors; returns how the device waited for its results."""
    folder = Path(next(iter(support.__path__))) / "devices"
    files = {file: (folder / f"{file}.py").read_text(encoding="utf-8") for file in FILES}
    used: str = python(harness, RUN, files=files, name_of_check=name, waiting=waiting)
    return used

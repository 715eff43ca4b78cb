"""ExecuTorch programs (`.pte`) on WebGPU, from Python in the browser.

import webpte

program = await webpte.load("model.pte")
(y,) = await program.forward(x)
"""

from __future__ import annotations

from webpte import (
    errors,
    library,
    llm,
    report,
    retrieval,
    speech,
    tasks,
    text,
    training,
    vision,
)
from webpte.download import Download
from webpte.errors import WebpteError
from webpte.format.bundled import BundledCase
from webpte.gpu.choose_adapter import AdapterInfo
from webpte.gpu.device import Device
from webpte.gpu.device_info import DeviceInfo
from webpte.runtime.autotune.tuning import Tuning
from webpte.runtime.base.devices import native_adapters, shared_device
from webpte.runtime.base.gpu_tensor import GpuTensor
from webpte.runtime.base.info import (
    ConstantInfo,
    MethodInfo,
    Placement,
    ScalarInfo,
    Stats,
    TensorInfo,
)
from webpte.runtime.base.options import Options
from webpte.runtime.forecast import forecast
from webpte.runtime.inspect_file import inspect
from webpte.runtime.lora.slots import LoraRoom
from webpte.runtime.lora.switch import Lora
from webpte.runtime.program import Program, load
from webpte.runtime.tune import tune

__version__ = "0.1.0"

__all__ = [
    "AdapterInfo",
    "BundledCase",
    "ConstantInfo",
    "Device",
    "DeviceInfo",
    "Download",
    "GpuTensor",
    "Lora",
    "LoraRoom",
    "MethodInfo",
    "Options",
    "Placement",
    "Program",
    "ScalarInfo",
    "Stats",
    "TensorInfo",
    "Tuning",
    "WebpteError",
    "errors",
    "forecast",
    "inspect",
    "library",
    "llm",
    "load",
    "native_adapters",
    "report",
    "retrieval",
    "shared_device",
    "speech",
    "tasks",
    "text",
    "training",
    "tune",
    "vision",
]

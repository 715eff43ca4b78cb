"""ExecuTorch programs (`.pte`) on WebGPU, from Python in the browser.

import webpte

program = await webpte.load("model.pte")
(y,) = await program.forward(x)
"""

from __future__ import annotations

from webpte import errors, finding, insight, learning, library, llm, text
from webpte.errors import WebpteError
from webpte.gpu.device import Device, DeviceInfo
from webpte.runtime.devices import shared_device
from webpte.runtime.gpu_tensor import GpuTensor
from webpte.runtime.info import (
    ConstantInfo,
    MethodInfo,
    Placement,
    ScalarInfo,
    Stats,
    TensorInfo,
)
from webpte.runtime.options import Options
from webpte.runtime.program import Program, inspect, load
from webpte.runtime.tune import tune
from webpte.runtime.tuning import Tuning

__version__ = "0.1.0"

__all__ = [
    "ConstantInfo",
    "Device",
    "DeviceInfo",
    "GpuTensor",
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
    "finding",
    "insight",
    "inspect",
    "learning",
    "library",
    "llm",
    "load",
    "shared_device",
    "text",
    "tune",
]

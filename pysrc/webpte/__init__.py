"""ExecuTorch programs (`.pte`) on WebGPU, from Python in the browser.

import webpte

program = await webpte.load("model.pte")
(y,) = await program.forward(x)
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from webpte import errors
from webpte._names import ShortNames, lazy_names
from webpte.engine.call.gpu_tensor import GpuTensor
from webpte.engine.call.info import (
    ConstantInfo,
    MethodInfo,
    Placement,
    ScalarInfo,
    Stats,
    TensorInfo,
)
from webpte.engine.call.options import Options
from webpte.engine.files.download import Download
from webpte.engine.format.bundled import BundledCase
from webpte.engine.gpu.choose_adapter import AdapterInfo
from webpte.engine.gpu.device import Device
from webpte.engine.gpu.device_info import DeviceInfo
from webpte.engine.gpu.devices import native_adapters, shared_device
from webpte.errors import WebpteError
from webpte.inspection.forecast import forecast
from webpte.inspection.inspect_file import inspect
from webpte.inspection.tune.tuning import Tuning
from webpte.inspection.tune_programs import tune
from webpte.loading import load
from webpte.program import Program

if TYPE_CHECKING:
    from webpte import hub, llm, tasks, training
    from webpte.compiling import Compiled, compile
    from webpte.engine.open import library
    from webpte.inspection import report
    from webpte.llm import text
    from webpte.llm.lora.slots import LoraRoom
    from webpte.llm.lora.switch import Lora
    from webpte.tasks import retrieval
    from webpte.tasks.sound import speech
    from webpte.tasks.vision import vision

__version__ = "0.1.0"

# Modules that users import by a short name, with the shelves that have them.
_SHORT_NAMES = {
    "webpte.library": "webpte.engine.open.library",
    "webpte.report": "webpte.inspection.report",
    "webpte.retrieval": "webpte.tasks.retrieval",
    "webpte.speech": "webpte.tasks.sound.speech",
    "webpte.text": "webpte.llm.text",
    "webpte.vision": "webpte.tasks.vision.vision",
}
__getattr__ = lazy_names(
    __name__,
    {
        **{name.removeprefix("webpte."): f"{place}:" for name, place in _SHORT_NAMES.items()},
        **{name: f"webpte.{name}:" for name in ("hub", "llm", "tasks", "training")},
        "Compiled": "webpte.compiling",
        "Lora": "webpte.llm.lora.switch",
        "LoraRoom": "webpte.llm.lora.slots",
        "compile": "webpte.compiling",
    },
)
sys.meta_path.append(ShortNames(_SHORT_NAMES))

__all__ = [
    "AdapterInfo",
    "BundledCase",
    "Compiled",
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
    "compile",
    "errors",
    "forecast",
    "hub",
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

"""Programs in a browser whose GPU has no more than a phone's, with weights in parts."""

from __future__ import annotations

import base64
import json

from support.graphs.split_graphs import PROGRAMS
from support.harness import extent
from support.write.pte_writer import write_pte
from webpte.engine.gpu.device_info import PHONE_LIMITS
from webpte_host.base.layout import ROOT
from webpte_host.harness.browser import Harness

START = """
import base64, json
import numpy as np
import webpte
from webpte.engine.call.options import DeveloperOptions
from webpte.engine.gpu.device_info import (PHONE_LIMITS)
from webpte.engine.gpu.webgpu.device import WebGPUDevice

device = await WebGPUDevice.create(phone=True)
"""

COMPARE = (
    START
    + """
failures = []
for case in json.loads(cases):
    data = base64.b64decode(case["program"])
    steps = [np.array(step, case["dtype"]) for step in case["steps"]]
    options = DeveloperOptions(binding_bytes=case["limit"])
    async with await webpte.load(data, device="numpy") as cpu:
        wanted = [(await cpu.forward(x))[0] for x in steps]
    async with await webpte.load(data, device=device, options=options) as gpu:
        bound = [b.nbytes for b in gpu.memory().buffers if b.kind != "params"]
        found = [(await gpu.forward(x))[0] for x in steps]
    close = np.allclose(found, wanted, rtol=1e-4, atol=1e-4)
    if not close or max(bound) > max(case["limit"], 1024):
        failures.append(f"{case['name']}: {close}, {max(bound)} bytes")
granted = {name: getattr(device.native.limits, name) for name in PHONE_LIMITS}
return failures, granted, sorted(device.info.features)
"""
)

ANSWER = (
    START
    + """
from webpte.llm import Generator

async def answer(program):
    tokens = Generator(program).generate([5, 9, 33, 7], 12, steps_ahead=4)
    return [token async for token in tokens]

data, told = base64.b64decode(program), []
async with await webpte.load(data, device="numpy") as cpu:
    wanted = await answer(cpu)
options = DeveloperOptions(binding_bytes=limit)
how = {"device": device, "options": options, "on_forecast": told.append}
async with await webpte.load(data, **how) as gpu:
    found = await answer(gpu)
    largest = max(b.nbytes for b in gpu.memory().buffers if b.kind != "params")
return found == wanted, largest, told[0].largest, told[0].fits, str(told[0])
"""
)


OTHERS = ("linear", "matmul", "embedding", "embedding_bytes")


def test_weights_in_parts(harness: Harness) -> None:
    cases = []
    for name in extent.some(["linear_q4", "tied"], *OTHERS):
        program = PROGRAMS[name]()
        cases.append(
            {
                "name": name,
                "program": base64.b64encode(write_pte(program.graph)).decode(),
                "limit": program.limit(7),
                "dtype": str(program.steps[0].dtype),
                "steps": [step.tolist() for step in program.steps],
            }
        )
    failures, granted, features = harness.python(COMPARE, cases=json.dumps(cases))
    assert failures == []
    # Chromium grants 10 storage buffers where 8 are requested; programs see 8.
    assert granted.pop("maxStorageBuffersPerShaderStage") >= 8
    assert granted.items() <= PHONE_LIMITS.items()
    assert "shader-f16" not in features
    assert "subgroups" not in features


def test_an_answer_with_a_head_in_parts(harness: Harness) -> None:
    data = (ROOT / "tests" / "data" / "llm" / "llama_tiny_fp32.pte").read_bytes()
    program = base64.b64encode(data).decode()
    same, largest, told, fits, text = harness.python(ANSWER, program=program, limit=65536)
    assert same
    assert largest == told == 65536
    assert fits
    assert text.startswith("Needs 1.1 MB of GPU memory: weights 0.7, caches 0.1, activations 0.")

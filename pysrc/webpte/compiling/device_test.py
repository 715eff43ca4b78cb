"""The self-test of a class of devices: whether a GPU computes right with the features of the class.

It is a compiled program of one method. A page runs it while it opens a program; if other bytes come
back than are expected, the page takes the next description that suits its GPU.
"""

from __future__ import annotations

import json
from base64 import b64encode
from hashlib import sha256

import numpy as np

from webpte.compiling.description import Description
from webpte.compiling.plans import Table, commands_table
from webpte.engine.gpu.device import UNIFORM_ALIGNMENT
from webpte.engine.gpu.device_info import DeviceInfo
from webpte.engine.gpu.pipelines import PACKED_DOT
from webpte.engine.gpu.recording.device import RecordingDevice
from webpte.engine.gpu.self_test import can_do_without, commands_of, received_of, trials


async def self_test(info: DeviceInfo, needs: Table) -> tuple[str, Table, dict[str, str]] | None:
    """Return a name, the description of the test and its shaders; None if nothing is tested.

    needs  the features and limits that a program needs of such a device
    """
    wanted = [
        trial
        for trial in trials(info)
        if all(can_do_without(name) for name in trial.expected)
        and (needs.get("packedDot") or PACKED_DOT not in trial.spec(None).code)
    ]
    if not wanted:
        return None
    device = RecordingDevice(info)
    pipelines = await device.create_pipelines([trial.spec(None) for trial in wanted])
    buffers = await device.create_buffers([size for trial in wanted for size in trial.sizes])
    buffers += await device.create_buffers([UNIFORM_ALIGNMENT], use="uniform")
    commands, payload = commands_of(list(zip(wanted, pipelines, strict=True)), buffers)
    given, size = int(payload.size), commands.result_bytes
    plan = {
        "shapes": [[given]],
        "when": [],
        "bounds": [],
        "payload": given,
        "packed": [[0, "uint8"]],
        "symints": [],
        **commands_table(commands, size),
        "faults": [],
        "results": [{"offset": 0, "stored": "uint8", "dtype": "uint8", "shape": [size]}],
    }
    method = {
        "inputs": [{"name": "given", "dtype": "uint8", "shape": [given]}],
        "outputs": [{"name": "received", "dtype": "uint8", "shape": [size]}],
        "plans": [plan],
    }
    description = Description(device, {"test": method})
    table = description.table("self-test", {}, ()) | {
        "device": needs,
        "given": _text(payload),
        "expected": [[name, at, _text(values)] for name, at, values in received_of(wanted)],
    }
    digest = sha256(json.dumps(table).encode()).hexdigest()
    return f"self-test-{digest[:8]}.json", table, description.shaders


def _text(values: np.ndarray) -> str:
    return b64encode(values.tobytes()).decode()

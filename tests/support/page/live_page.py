"""Runs `LiveCase`s in the page: every output of every step, on WebGPU and in NumPy."""

from __future__ import annotations

from collections.abc import Sequence

from support.cases.live_cases import LiveCase
from support.harness import limits
from webpte_host.harness.browser import Harness

# Strict: what no kernel takes would run on the host, and be compared with itself.
_COMPARE = """
import base64
import numpy as np
import webpte
from webpte.ops.core import records
from webpte.ops.int8 import int8

def unpack(dtype, shape, data):
    return np.frombuffer(base64.b64decode(data), dtype).reshape(shape)

async def outputs(case, device):
    pte = base64.b64decode(case["pte"])
    async with await webpte.load(pte, device=device, strict=True) as program:
        return [
            await program.forward(*(unpack(*item) for item in step)) for step in case["steps"]
        ]

def same(a, b, rtol):
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if rtol == 0 or a.dtype.kind != "f":
        return a.tobytes() == b.tobytes()
    return bool(np.allclose(a, b, rtol=rtol, atol=rtol))

def differences(a, b):
    if a.shape != b.shape:
        return a.shape, b.shape
    at = np.flatnonzero(a.ravel() != b.ravel())[:9]
    return at, a.ravel()[at], b.ravel()[at]

async def compare():
    wrong, compared = [], 0
    for case in cases:
        try:
            pairs = zip(await outputs(case, "webgpu"), await outputs(case, "numpy"), strict=True)
            for step, (gpu, reference) in enumerate(pairs):
                for a, b in zip(gpu, reference, strict=True):
                    compared += 1
                    if not same(a, b, case["rtol"]):
                        wrong.append([case["name"], step, *differences(a, b)])
        except Exception as error:
            wrong.append([case["name"], repr(error)])
    return [compared, wrong]

old = int8.FULL, records.MAX_WORKGROUPS
int8.FULL, records.MAX_WORKGROUPS = full or old[0], max_workgroups or old[1]
try:
    return await compare()
finally:
    int8.FULL, records.MAX_WORKGROUPS = old
"""


def check_kernels(
    harness: Harness, cases: Sequence[LiveCase], *, full: int = 0, max_workgroups: int = 0
) -> None:
    """Check that kernels and references agree, bit by bit where a case has no tolerance.

    `full` is how many tiles are enough for large ones, `max_workgroups` where grids are folded.
    """
    compared, wrong = harness.python(
        _COMPARE,
        cases=[case.as_json() for case in cases],
        full=full,
        max_workgroups=max_workgroups,
        timeout=limits.CALL_SECONDS,
    )
    assert not wrong, "\n".join(map(str, wrong))
    assert compared == sum(len(case.steps) * case.outputs for case in cases)

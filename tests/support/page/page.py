"""Programs in the harness page: arrays are sent as base64, many programs in one call."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import dedent
from time import monotonic
from typing import Any, Protocol, TypeAlias

import numpy as np

from support.harness import limits
from webpte_host.harness.browser import Harness

Array: TypeAlias = "np.ndarray[Any, Any]"

# Goes before every piece of code: the ground of the tests' Python in the page.
PRELUDE = """
import asyncio, base64
import numpy as np
import webpte
from webpte import shared_device

def unpack(item):
    flat = np.frombuffer(base64.b64decode(item["data"]), item["dtype"])
    return flat.reshape(item["shape"]).copy()

def pack(array):
    data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
    return {"data": data, "dtype": str(array.dtype), "shape": list(array.shape)}

async def raises(kind, awaitable):
    try:
        await awaitable
    except kind as error:
        return str(error)
    raise AssertionError(f"{kind.__name__} was not raised")
"""


class HarnessSource(Protocol):
    """The shared harness of the browser tests: `get` opens a new page if the old page is lost."""

    def get(self) -> Harness: ...


_RUN_ALL = """
done = []
for run in runs:
    outputs, error = [], None
    try:
        data = base64.b64decode(run["program"])
        async with await webpte.load(data, strict=run["strict"]) as program:
            for inputs in run["steps"]:
                results = await program.forward(*map(unpack, inputs))
                outputs.append([pack(result) for result in results])
    except Exception as problem:
        error = f"{type(problem).__name__}: {problem}"
    done.append({"outputs": outputs, "error": error})
return done
"""


@dataclass(frozen=True)
class Run:
    """A program and its calls: one list of inputs per call, on one loaded instance."""

    program: bytes
    steps: Sequence[Sequence[Array]]
    strict: bool = False


@dataclass(frozen=True)
class Outcome:
    """The outputs by call, up to the first error."""

    outputs: list[list[Array]]
    error: str | None


def encode_bytes(data: bytes) -> str:
    return base64.b64encode(data).decode()


def encode(array: Array) -> dict[str, Any]:
    data = encode_bytes(np.ascontiguousarray(array).tobytes())
    return {"data": data, "dtype": str(array.dtype), "shape": list(array.shape)}


def decode(item: dict[str, Any]) -> Array:
    flat = np.frombuffer(base64.b64decode(item["data"]), item["dtype"])
    return flat.reshape(item["shape"])


def python(harness: Harness, code: str, **arguments: Any) -> Any:
    """Run code that uses the prelude."""
    return harness.python(PRELUDE + dedent(code), **arguments)


COUNTS = """
import gc
device = await shared_device()
await device.native.queue.onSubmittedWorkDone()
gc.collect()  # errors of promises are in cycles, with the buffers that they are about
counts = device.counts()
return [counts["buffers"], counts["plans"]]
"""


def check_counts(harness: Harness, before: list[int]) -> None:
    """Wait until no more is on the device than before.

    Steps that run ahead of a conversation hold a program until they have ended, also a closed one.
    """
    until = monotonic() + limits.PROCESS_SECONDS
    while (now := python(harness, COUNTS)) != before:
        if all(is_now <= was for is_now, was in zip(now, before, strict=True)):
            return  # something of an earlier test has gone
        assert monotonic() < until, (before, now)


def run_all(harness: Harness, runs: Sequence[Run]) -> list[Outcome]:
    """Run all programs in one call, on WebGPU."""
    described = [
        {
            "program": encode_bytes(run.program),
            "strict": run.strict,
            "steps": [[encode(array) for array in inputs] for inputs in run.steps],
        }
        for run in runs
    ]
    replies = python(harness, _RUN_ALL, runs=described, timeout=limits.CALL_SECONDS)
    return [
        Outcome([[decode(item) for item in step] for step in reply["outputs"]], reply["error"])
        for reply in replies
    ]

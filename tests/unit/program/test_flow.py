"""The way of a repeated `forward`: how many files it passes, and how often it takes a lease."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import webpte
from support.devices.recorded import ones
from support.graphs.graphs import chain, load, wait
from webpte.engine.call.call import Lifetime
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.engine.run.delegate import GpuDelegate
from webpte.engine.run.request import RunRequest

PACKAGE = Path(webpte.__file__).parent
DEVICE = "gpu/simulated"
MOST_FILES = 11


@contextmanager
def visited_files() -> Iterator[set[str]]:
    """Collect the files of webpte whose functions are called; a device is a single file."""
    files: set[str] = set()

    def visit(frame: FrameType, event: str, _: Any) -> None:
        if event != "call":
            return
        path = Path(frame.f_code.co_filename)
        if not path.is_relative_to(PACKAGE):
            return
        caller: FrameType | None = frame
        while caller is not None:
            if DEVICE in caller.f_code.co_filename:
                files.add(DEVICE)
                return
            caller = caller.f_back
        files.add(path.relative_to(PACKAGE).as_posix())

    sys.setprofile(visit)
    try:
        yield files
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize("calls", [1, 20])
def test_a_repeated_forward_passes_few_files(calls: int) -> None:
    async def run() -> set[str]:
        program = await load(chain(calls), device=SimulatedDevice())
        await program.forward(ones(4))
        with visited_files() as files:
            await program.forward(2 * ones(4))
        program.close()
        return files

    files = wait(run())
    assert DEVICE in files
    assert {"program.py", "engine/run/method.py", "engine/run/delegate.py"} < files
    assert len(files) <= MOST_FILES, sorted(files)


def test_a_repeated_forward_takes_one_lease_and_one_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    leases: list[Lifetime] = []
    requests: list[RunRequest] = []
    lease, run_delegate = Lifetime.lease, GpuDelegate.run

    def counted(self: Lifetime) -> Any:
        leases.append(self)
        return lease(self)

    async def seen(self: GpuDelegate, request: RunRequest) -> list[Any]:
        requests.append(request)
        return await run_delegate(self, request)

    async def run() -> None:
        program = await load(chain(2), device=SimulatedDevice())
        await program.forward(ones(4))
        monkeypatch.setattr(Lifetime, "lease", counted)
        monkeypatch.setattr(GpuDelegate, "run", seen)
        method = program._build.methods["forward"]
        request = method.request([2 * ones(4)])
        (output,) = await method.run(request)
        np.testing.assert_array_equal(output, 2 * ones(4))
        assert requests == [request]
        assert requests[0] is request
        assert len(leases) == 1
        program.close()

    wait(run())

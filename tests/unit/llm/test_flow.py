"""The way of one decoded token: few files, and calls that go down only."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import webpte
from support.graphs.graphs import wait
from support.harness import extent
from support.page.chats import open_chat
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.llm import Generation, Reply
from webpte.llm import decode_loop as decode
from webpte.llm.generation import ignore_stops

PACKAGE = f"{Path(webpte.__file__).parent}/"
# From the caller down; a file that is not listed may be called by any of these.
LAYERS = (
    *("llm/chat.py", "llm/reply.py", "llm/generation.py", "llm/speculation.py"),
    *("llm/speculative_rounds.py", "llm/proposals.py", "llm/decode_loop.py", "llm/kv_session.py"),
    *("program.py", "llm/decode/decoder.py", "engine/run/build.py"),
    *("llm/decode/drafted_rounds.py", "llm/decode/decode_steps.py"),
    *("llm/decode/sampled_delegate.py", "llm/decode/step_batch.py"),
    *("llm/decode/combined_plan.py", "engine/run/delegate.py"),
)
# The device counts as a single file.
MOST_FILES = 10  # for a token that also submits steps
MOST_WAITING = 9  # for a token whose step was submitted before
MOST_QUEUED = 7  # for a token that came with its predecessor


@pytest.fixture(autouse=True)
def _unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the sizes of batches independent of the machine."""
    monkeypatch.setattr(decode, "BATCH_SECONDS", 1e6)


@dataclass
class Trace:
    """Files of the package that run outside of the device, and calls from one to another."""

    files: set[str] = field(default_factory=set)
    calls: set[tuple[str, str]] = field(default_factory=set)
    _on_device: int = 0

    def profile(self, frame: FrameType, event: str, _: Any) -> None:
        if event not in ("call", "return") or (name := _file(frame)) is None:
            return
        if event == "call" and not self._on_device:
            self.files.add(name)
            if (caller := _caller(frame)) is not None and caller != name:
                self.calls.add((caller, name))
        if name.startswith("engine/gpu/"):
            self._on_device += 1 if event == "call" else -1

    @property
    def submits(self) -> bool:
        return ("llm/kv_session.py", "llm/decode/decode_steps.py") in self.calls


def _file(frame: FrameType) -> str | None:
    path = frame.f_code.co_filename
    return path[len(PACKAGE) :] if path.startswith(PACKAGE) else None


def _caller(frame: FrameType) -> str | None:
    """Return the file of the package that called, perhaps by way of a library."""
    above = frame.f_back
    while above is not None:
        if (name := _file(above)) is not None:
            return name
        above = above.f_back
    return None


async def _traced(reply: Reply) -> list[Trace]:
    """Return a trace of each piece of text; it is one token, or a few."""
    traces: list[Trace] = []
    while True:
        trace = Trace()
        profile: Callable[[FrameType, str, Any], None] = trace.profile
        previous = sys.getprofile()
        sys.setprofile(profile)
        try:
            await anext(reply)
        except StopAsyncIteration:
            return traces
        finally:
            sys.setprofile(previous)
        traces.append(trace)


@pytest.mark.parametrize("options", extent.some([{"temperature": 0.8, "seed": 5}], {}), ids=str)
def test_a_decoded_token_takes_few_files_and_no_call_goes_up(options: dict[str, Any]) -> None:
    async def run() -> None:
        chat = await open_chat(SimulatedDevice())
        reply = chat.send("Hello there", 48, steps_ahead=4, **options)
        assert isinstance(reply._generation, Generation)
        ignore_stops(reply._generation)
        traces = (await _traced(reply))[3:]  # the first tokens build plans
        submitting = [trace for trace in traces if trace.submits]
        waiting = [trace for trace in traces if not trace.submits]
        assert len(waiting) > 20
        assert len(submitting) > 2
        for trace in waiting:
            assert len(trace.files) <= MOST_WAITING, sorted(trace.files)
        assert sum(len(trace.files) <= MOST_QUEUED for trace in waiting) > len(waiting) / 2
        for trace in submitting:
            assert len(trace.files) <= MOST_FILES, sorted(trace.files)
            assert not {
                f
                for f in trace.files
                if f.startswith(("engine/plan/", "engine/graph/", "engine/ops/"))
            }
        calls = {call for trace in traces for call in trace.calls}
        listed = [(a, b) for a, b in calls if a in LAYERS and b in LAYERS]
        assert ("llm/decode_loop.py", "llm/kv_session.py") in listed, "the trace sees calls"
        upwards = [(a, b) for a, b in listed if LAYERS.index(a) > LAYERS.index(b)]
        assert not upwards

    wait(run())


def test_a_token_decoded_alone_takes_as_few_files() -> None:
    async def run() -> None:
        chat = await open_chat(SimulatedDevice())
        reply = chat.send("Hello there", 24, steps_ahead=1)
        assert isinstance(reply._generation, Generation)
        ignore_stops(reply._generation)
        traces = (await _traced(reply))[3:]
        assert len(traces) > 8
        for trace in traces:
            assert trace.submits
            assert len(trace.files) <= MOST_FILES, sorted(trace.files)

    wait(run())

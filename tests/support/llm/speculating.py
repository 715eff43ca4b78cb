"""Speculation whose rounds do not depend on the machine's speed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

import webpte
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.llm import Generation, speculation
from webpte.llm import decode_loop as decode
from webpte.llm.decode.decoder import Decoder
from webpte.llm.proposals import PromptLookup
from webpte.llm.speculation_times import SpeculationTimes

PROMPT, TURN = [5, 9, 33, 7], [81, 402]


def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make batches and rounds independent of times: rounds always pay."""
    monkeypatch.setattr(decode, "BATCH_SECONDS", 1e6)
    monkeypatch.setattr(SpeculationTimes, "loss", None)
    monkeypatch.setattr(SpeculationTimes, "best_count", lambda _, most: most)
    monkeypatch.setattr(SpeculationTimes, "lacks_plain", False)
    for name in ("LEAST_REST", "MOST_REST"):
        monkeypatch.setattr(speculation, name, 1)


async def open_program(path: Path | bytes, device: str = "simulated") -> webpte.Program:
    chosen = SimulatedDevice() if device == "simulated" else device
    return await webpte.load(path, device=chosen, strict=device == "simulated")


async def collect(answer: Generation, found: list[int]) -> None:
    async for token in answer:
        found.append(token)


def in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no round run on the GPU as a whole: the host proposes, and a call checks."""

    async def rounds_ahead(*_: object, **__: object) -> str:
        return "in parts"

    monkeypatch.setattr(Decoder, "rounds_ahead", rounds_ahead)


class WrongGuesses(PromptLookup):
    """Proposes tokens that never come."""

    async def propose(self, context: Sequence[int], count: int) -> list[int]:
        return [511] * count

    async def catch_up(self, context: Sequence[int]) -> bool:
        return True

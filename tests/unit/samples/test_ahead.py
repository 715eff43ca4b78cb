"""Exports whose table of tokens is outside of the delegate are one graph, and decode ahead."""

from __future__ import annotations

import asyncio

import webpte
from webpte.gpu.recording import RecordingDevice
from webpte_host.layout import ROOT


def test_stories_are_told_several_steps_at_once() -> None:
    async def run() -> tuple[str | None, list[int], list[int]]:
        path = ROOT / "web" / "samples" / "stories.pte"
        answers = []
        for steps in (16, 1):
            async with await webpte.load(path, device=RecordingDevice()) as program:
                answer = webpte.llm.generate(program, [1, 2, 3, 4], 24, steps_ahead=steps)
                answers.append([token async for token in answer])
                if steps > 1:
                    reason, submissions = answer.stats.step_by_step, answer.stats.submissions
        assert submissions < 23
        return reason, *answers

    reason, ahead, one_by_one = asyncio.run(run())
    assert reason is None
    assert ahead == one_by_one

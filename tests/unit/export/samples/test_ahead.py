"""Exports with the embedding table outside of the delegate become one graph with pipelined decode.

The number of steps per submission depends on their speed, so it is not checked here.
"""

from __future__ import annotations

import asyncio

import webpte
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte_host.base.layout import ROOT


def test_stories_are_told_several_steps_at_once() -> None:
    async def told(steps: int) -> webpte.llm.Generation:
        path = ROOT / "web" / "samples" / "stories.pte"
        async with await webpte.load(path, device=SimulatedDevice()) as program:
            answer = webpte.llm.generate(program, [1, 2, 3, 4], 24, steps_ahead=steps)
            async for _ in answer:
                pass
            return answer

    ahead, one_by_one = asyncio.run(told(16)), asyncio.run(told(1))
    assert ahead.stats.step_by_step is None
    assert ahead.tokens == one_by_one.tokens

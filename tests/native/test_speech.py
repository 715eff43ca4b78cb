"""Segments of a small Whisper on the native device equal NumPy's."""

from __future__ import annotations

import asyncio
from typing import Any

import webpte
from support.devices.native import need_native
from support.llm.small_seq2seq import program_of, sound, whisper_settings
from webpte.tasks.sound.speech import LogMel, Whisper


def test_segments() -> None:
    need_native()

    async def heard(device: str) -> list[Any]:
        features, generation = whisper_settings()
        async with await webpte.load(program_of("whisper"), device=device, strict=True) as program:
            model = Whisper(program, LogMel.of(features), generation)
            return [one async for one in model.transcribe(sound(1.6), language="de")]

    async def run() -> None:
        wanted = await heard("numpy")
        assert len(wanted) > 1
        assert await heard("native") == wanted

    asyncio.run(run())

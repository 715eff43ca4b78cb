"""Listening: blocks of a live sound become phrases, each as soon as it is known.

blocks  --read in the background, at the model's rate-->  samples  --voice-->  shares  -->  phrases
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from webpte.tasks.sound.samples import BlockResampler
from webpte.tasks.sound.speech.phrases import Phrase, PhraseFinder, VoiceStream
from webpte.tasks.task import awaited

Array = np.ndarray


class BlockReader:
    """Reads blocks of a sound while earlier blocks are processed.

    The reader pauses while `most` samples or more are waiting; then the source has to keep or drop
    blocks.
    """

    def __init__(
        self, blocks: AsyncIterable[Any] | Iterable[Any], resampler: BlockResampler, most: int
    ) -> None:
        self._blocks = blocks if isinstance(blocks, AsyncIterable) else awaited(blocks)
        self._resampler, self._most = resampler, most
        self._parts: list[Array] = []
        self._error: Exception | None = None
        self._ended = False
        self._came, self._room = asyncio.Event(), asyncio.Event()
        self._reading = asyncio.ensure_future(self._read())

    @property
    def is_behind(self) -> bool:
        """Whether samples are waiting."""
        return bool(self._parts)

    async def take(self) -> Array | None:
        """Wait for samples; return all that are waiting, None after the last."""
        while not self._parts and not self._ended:
            self._came.clear()
            await self._came.wait()
        parts, self._parts = self._parts, []
        self._room.set()
        if parts:
            return np.concatenate(parts)
        if self._error is not None:
            raise self._error
        return None

    async def close(self) -> None:
        """Stop reading, and close the source of the blocks."""
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        close = getattr(self._blocks, "aclose", None)
        if close is not None:
            await close()

    async def _read(self) -> None:
        try:
            async for block in self._blocks:
                self._add(self._resampler.push(block))
                while sum(map(len, self._parts)) >= self._most:
                    self._room.clear()
                    await self._room.wait()
            self._add(self._resampler.finish())
        except Exception as error:  # raised after the earlier blocks are processed
            self._error = error
        finally:
            self._ended = True
            self._came.set()

    def _add(self, samples: Array) -> None:
        if len(samples):
            self._parts.append(samples)
            self._came.set()


@dataclass(frozen=True)
class HeardPhrase:
    """A phrase that has ended (`final`), or is still growing."""

    phrase: Phrase
    final: bool


async def hear_phrases(
    reader: BlockReader, voice: VoiceStream, finder: PhraseFinder, every: int | None
) -> AsyncGenerator[HeardPhrase, None]:
    """Yield phrases when they end, and the current phrase each time that it has grown.

    every   samples by which the current phrase has to grow; None: only its end is reported. A
            growing phrase is skipped while samples are waiting, so that slow models keep up
    """
    told = 0
    try:
        while True:
            samples = await reader.take()
            if samples is None:
                finder.add(np.zeros(0, np.float32), await voice.finish())
            else:
                finder.add(samples, await voice.push(samples))
            for phrase in finder.ended(finished=samples is None):
                yield HeardPhrase(phrase, True)
                told = 0
            if samples is None:
                return
            current = None if every is None or reader.is_behind else finder.current
            if current is not None and every is not None and len(current.samples) - told >= every:
                told = len(current.samples)
                yield HeardPhrase(current, False)
    finally:
        await reader.close()

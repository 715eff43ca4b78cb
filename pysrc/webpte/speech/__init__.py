"""Speech to text with programs of Whisper and Moonshine.

listener = webpte.speech.Whisper(program, webpte.speech.LogMel.of(settings), generation)
async for segment in listener.transcribe(samples, language="en"):
    print(segment.start, segment.end, tokenizer.decode(segment.text_tokens))
"""

from __future__ import annotations

from webpte.speech.log_mel import LogMel
from webpte.speech.moonshine import Moonshine
from webpte.speech.resample import Resampler, resample
from webpte.speech.whisper import SpokenSegment, Whisper

__all__ = ["LogMel", "Moonshine", "Resampler", "SpokenSegment", "Whisper", "resample"]

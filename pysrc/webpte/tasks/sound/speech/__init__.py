"""Speech to text with programs of Whisper, Moonshine, and of letters for each frame (CTC).

listener = webpte.speech.Whisper(program, webpte.speech.LogMel.of(settings), generation)
async for segment in listener.transcribe(samples, language="en"):
    print(segment.start, segment.end, tokenizer.decode(segment.text_tokens))
"""

from __future__ import annotations

from webpte.tasks.sound.speech.ctc import Ctc
from webpte.tasks.sound.speech.log_mel import LogMel
from webpte.tasks.sound.speech.moonshine import Moonshine
from webpte.tasks.sound.speech.resample import Resampler, resample
from webpte.tasks.sound.speech.whisper import SpokenSegment, Whisper

__all__ = ["Ctc", "LogMel", "Moonshine", "Resampler", "SpokenSegment", "Whisper", "resample"]

"""voice-activity-detection: finds the times of speech."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from webpte.engine.call.info import TensorInfo
from webpte.errors import ExecutionError, InputError
from webpte.program import Program
from webpte.tasks.files import ModelFiles
from webpte.tasks.form import SOUND, Slider, TaskForm
from webpte.tasks.sound.samples import read_sound, samples_of
from webpte.tasks.sound.speech.resample import resample
from webpte.tasks.task import Task, task

Array = np.ndarray
RATE = 16_000  # samples per second
FRAME, KEPT = 512, 64  # new samples per frame, and samples repeated from the frame before
_METHOD = "forward"
STEP_DOWN = 0.15  # speech ends at a score lower by this than the score that starts it
_LEAST = 0.01


@task(
    "voice-activity-detection",
    form=TaskForm(
        SOUND,
        sliders=(Slider("threshold", "probability of speech above", 0.5),),
        fixed={"return_seconds": True},
    ),
)
class VoiceActivityDetection(Task):
    """Finds the times of speech, by Silero's detector (`serve.py models add voice-activity`).

    for phrase in await task(samples, return_seconds=True):
        print(phrase["start"], phrase["end"])

    The program takes frames (count, 576) and two states, and returns how likely each frame is
    speech, and the new states. Options and results agree with silero-vad.
    """

    needed: ClassVar[Sequence[str]] = ()

    def __init__(self, files: ModelFiles) -> None:
        super().__init__(files)
        info = files.program.methods.get(_METHOD)
        inputs, outputs = ((), ()) if info is None else (info.inputs, info.outputs)
        taken, given = (
            [one.shape for one in several if isinstance(one, TensorInfo)]
            for several in (inputs, outputs)
        )
        if (
            [len(shape) for shape in taken] != [2, 2, 2]
            or taken[0][1] != FRAME + KEPT
            or given != [taken[0][:1], *taken[1:]]
        ):
            told = " and returns ".join("; ".join(map(str, one)) for one in (inputs, outputs))
            raise InputError(
                f"{files.program.name} is not a program for {self.name}: it takes {told}"
            )
        self._frames, self._state = taken[0][0], taken[1]

    async def __call__(
        self,
        inputs: Any,
        *,
        threshold: float = 0.5,
        neg_threshold: float | None = None,
        min_speech_duration_ms: float = 250,
        min_silence_duration_ms: float = 100,
        speech_pad_ms: float = 30,
        return_seconds: bool = False,
    ) -> Any:
        """Return the starts and ends of speech, in samples; for a list of sounds, a list for each.

        inputs                   samples (count,) of floats, 16,000 a second, or {"array" (or
                                 "raw"), "sampling_rate"} of any rate, or a list of sounds
        threshold                a frame that is likelier starts speech
        neg_threshold            a less likely frame ends it; by default 0.15 below
        min_speech_duration_ms   shorter speech is left out
        min_silence_duration_ms  shorter silence does not end speech
        speech_pad_ms            added before and after
        return_seconds           times are in seconds, with one digit after the point
        """
        low = max(threshold - STEP_DOWN, _LEAST) if neg_threshold is None else neg_threshold
        second = RATE / 1000
        many = isinstance(inputs, list | tuple)
        found = []
        for sound in inputs if many else [inputs]:
            given, rate = read_sound(sound)
            samples = given if rate is None else resample(given, rate, RATE)
            phrases = find_phrases(
                await self.probabilities(samples),
                len(samples),
                (threshold, low),
                min_speech_duration_ms * second,
                min_silence_duration_ms * second,
            )
            padded = pad_phrases(phrases, len(samples), speech_pad_ms * second)
            scale = (rate or RATE) / RATE
            found.append([_told(*one, len(given), scale, return_seconds) for one in padded])
        return found if many else found[0]

    async def probabilities(self, samples: Any) -> Array:
        """Return how likely each frame of 512 samples is speech."""
        stream = self.stream()
        found = await stream.push(samples_of(samples, RATE))
        return np.concatenate([found, await stream.finish()])

    def stream(self) -> VoiceActivityStream:
        """Return a detector for a live sound, 16,000 samples a second."""
        return VoiceActivityStream(self.program, self._frames, self._state)


class VoiceActivityStream:
    """A detector for a live sound; see webpte.tasks.sound.speech.phrases.

    A call of the program takes several frames, so scores come for several frames at once.
    """

    frame = FRAME

    def __init__(self, program: Program, frames: int, state: Sequence[int]) -> None:
        self._program, self._frames = program, frames
        self._states: tuple[Any, ...] = (np.zeros(state, np.float32),) * 2
        self._samples = np.zeros(KEPT, np.float32)  # the end of the frame before comes first

    async def push(self, samples: Array) -> Array:
        wave = samples.astype(np.float32, copy=False)
        self._samples = np.concatenate([self._samples, wave])
        return await self._run((len(self._samples) - KEPT) // (self._frames * FRAME))

    async def finish(self) -> Array:
        """Return the scores of the remaining frames; silence fills the last call."""
        count = -(-(len(self._samples) - KEPT) // FRAME)
        calls = -(-count // self._frames)
        missing = KEPT + calls * self._frames * FRAME - len(self._samples)
        self._samples = np.concatenate([self._samples, np.zeros(missing, np.float32)])
        return (await self._run(calls))[:count]

    async def _run(self, calls: int) -> Array:
        found = [np.zeros(0, np.float32)]
        for _ in range(calls):
            new = self._frames * FRAME
            wave, self._samples = self._samples[: KEPT + new], self._samples[new:]
            frames = np.lib.stride_tricks.sliding_window_view(wave, KEPT + FRAME)[::FRAME]
            given = np.ascontiguousarray(frames)
            likely, *states = await self._program.run(_METHOD, given, *self._states)
            self._states = tuple(states)
            if not np.isfinite(likely).all():
                raise ExecutionError(f"{self._program.name} returned NaN or infinities")
            found.append(likely)
        return np.concatenate(found)


def find_phrases(
    likely: Array, count: int, thresholds: tuple[float, float], speech: float, silence: float
) -> list[tuple[int, int]]:
    """Return the starts and ends of phrases, in samples.

    speech, silence   the least lengths, in samples
    """
    high, low = thresholds
    found: list[tuple[int, int]] = []
    start = pause = None
    for at, share in enumerate(likely.tolist()):
        now = at * FRAME
        if share >= high:
            start, pause = now if start is None else start, None
        elif start is not None and share < low:
            pause = now if pause is None else pause
            if now - pause >= silence:
                if pause - start > speech:
                    found.append((start, pause))
                start = pause = None
    if start is not None and count - start > speech:
        found.append((start, count))
    return found


def pad_phrases(
    phrases: Sequence[tuple[int, int]], count: int, pad: float
) -> list[tuple[int, int]]:
    """Return phrases with padding before and after; close phrases share the room between them."""
    starts = [start for start, _ in phrases]
    ends = [end for _, end in phrases]
    for at in range(len(phrases)):
        gap = starts[at + 1] - ends[at] if at + 1 < len(phrases) else None
        if at == 0:
            starts[0] = int(max(0, starts[0] - pad))
        if gap is not None and gap < 2 * pad:
            ends[at] += gap // 2
            starts[at + 1] -= gap // 2
        else:
            ends[at] = int(min(count, ends[at] + pad))
            if gap is not None:
                starts[at + 1] = int(max(0, starts[at + 1] - pad))
    return list(zip(starts, ends, strict=True))


def _told(start: int, end: int, count: int, scale: float, seconds: bool) -> dict[str, Any]:
    """Return the starts and ends of speech in a sound of `count` samples, `scale` times RATE."""
    if not seconds:
        return {"start": round(start * scale), "end": min(round(end * scale), count)}
    length = count / scale / RATE
    return {"start": round(start / RATE, 1), "end": min(round(end / RATE, 1), length)}

"""audio-to-midi: the notes of music."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from webpte.engine.call.info import TensorInfo
from webpte.errors import ExecutionError, InputError
from webpte.tasks.files import ModelFiles
from webpte.tasks.form import SOUND, Slider, TaskForm
from webpte.tasks.sound.midi import write_midi
from webpte.tasks.sound.notes import (
    BINS,
    FRAMES,
    HOP,
    KEYS,
    RATE,
    WINDOW,
    NoteRules,
    find_notes,
    key_of,
    times_of,
    told,
)
from webpte.tasks.sound.samples import samples_of
from webpte.tasks.task import Task, task

Array = np.ndarray
_METHOD = "forward"
_SHARED = 30  # frames that neighbouring windows share; half of them count in each window
_STEP = WINDOW - _SHARED * HOP  # samples from window to window
_TAKEN = (1, WINDOW, 1)
_GIVEN = [(1, FRAMES, KEYS), (1, FRAMES, KEYS), (1, FRAMES, BINS * KEYS)]


@task(
    "audio-to-midi",
    form=TaskForm(
        SOUND,
        sliders=(
            Slider("onset_threshold", "probability of a note's start above", 0.5, 0.05, 0.95),
            Slider("frame_threshold", "probability of a note above", 0.3, 0.05, 0.95),
            Slider("minimum_note_length", "shortest note in ms", 127.7, 30, 500, 0.1),
        ),
    ),
)
class AudioToMidi(Task):
    """Finds the notes of music, by basic-pitch (`serve.py models add basic-pitch`).

    notes = await task(samples)         # [{"start", "end", "pitch", "name", "amplitude", ...}]
    data = task.midi(notes)             # the bytes of a MIDI file

    The program takes 43,844 samples (1, 43844, 1) and returns how likely each key of a piano
    sounds (1, 172, 88), is struck (1, 172, 88), and each third of a semitone sounds (1, 172, 264).
    Options and notes agree with basic-pitch; transformers lacks this pipeline.
    """

    needed: ClassVar[Sequence[str]] = ()
    calls: ClassVar[Sequence[str]] = ("midi",)
    rate = RATE

    def __init__(self, files: ModelFiles) -> None:
        super().__init__(files)
        info = files.program.methods.get(_METHOD)
        inputs, outputs = ((), ()) if info is None else (info.inputs, info.outputs)
        taken, given = (
            [tuple(one.shape) for one in several if isinstance(one, TensorInfo)]
            for several in (inputs, outputs)
        )
        if taken != [_TAKEN] or given != _GIVEN:
            described = " and returns ".join("; ".join(map(str, one)) for one in (inputs, outputs))
            raise InputError(
                f"{files.program.name} is not a program for {self.name}: it takes {described}"
            )

    async def __call__(
        self,
        inputs: Any,
        *,
        onset_threshold: float = 0.5,
        frame_threshold: float = 0.3,
        minimum_note_length: float = 127.70,
        minimum_frequency: float | None = None,
        maximum_frequency: float | None = None,
        melodia_trick: bool = True,
    ) -> Any:
        """Return the notes in the order of their starts; for a list of sounds, a list for each.

        A note has "start" and "end" in seconds, "pitch" (MIDI's number), "name" (such as A4),
        "amplitude" (0 to 1), and "pitch_bends": its distance from the pitch in thirds of a
        semitone, evenly from its start to its end.

        inputs               samples (count,) of floats, 22,050 a second, or {"array" (or "raw"),
                             "sampling_rate"} of any rate, or a list of sounds
        onset_threshold      how likely the start of a note has to be, above 0 and up to 1
        frame_threshold      how likely a note has to sound while it lasts, above 0 and up to 1
        minimum_note_length  milliseconds; shorter notes are left out
        minimum_frequency    Hz; lower notes are left out
        maximum_frequency    Hz; notes at or above it are left out
        melodia_trick        looks for notes whose start is unclear, too
        """
        rules = NoteRules(
            _share("onset_threshold", onset_threshold),
            _share("frame_threshold", frame_threshold),
            _frames("minimum_note_length", minimum_note_length),
            (
                _key("minimum_frequency", minimum_frequency, 0),
                _key("maximum_frequency", maximum_frequency, KEYS),
            ),
            bool(melodia_trick),
        )
        many = isinstance(inputs, list | tuple)
        found = []
        for sound in inputs if many else [inputs]:
            frames, onsets, contours = await self.maps(sound)
            times = times_of(len(frames))
            notes = find_notes(frames, onsets, rules)
            found.append([told(note, times, contours) for note in notes])
        return found if many else found[0]

    async def maps(self, sound: Any) -> tuple[Array, Array, Array]:
        """Return how likely each key sounds and is struck, (frames, 88), and how likely each third
        of a semitone sounds, (frames, 264), about 86 frames a second."""
        samples = samples_of(sound, RATE).astype(np.float32, copy=False)
        half = _SHARED // 2
        count = math.floor(len(samples) * (RATE // HOP / RATE))
        # The first window, too, has frames before the frames that count.
        wave = np.concatenate([np.zeros(half * HOP, np.float32), samples])
        maps: list[list[Array]] = [[] for _ in _GIVEN]
        for start in range(0, len(wave), _STEP):
            window = np.zeros(_TAKEN, np.float32)
            part = wave[start : start + WINDOW]
            window[0, : len(part), 0] = part
            outputs = await self.program.run(_METHOD, window)
            for several, output in zip(maps, outputs, strict=True):
                if not np.isfinite(output).all():
                    raise ExecutionError(f"{self.program.name} returned NaN or infinities")
                several.append(output[0, half:-half])
        frames, onsets, contours = (np.concatenate(several)[:count] for several in maps)
        return frames, onsets, contours

    @staticmethod
    def midi(
        notes: Sequence[Mapping[str, Any]],
        *,
        multiple_pitch_bends: bool = False,
        midi_tempo: float = 120,
    ) -> bytes:
        """Return notes as a standard MIDI file; see `webpte.tasks.sound.midi.write_midi`."""
        return write_midi(notes, multiple_pitch_bends=multiple_pitch_bends, midi_tempo=midi_tempo)


def _positive(name: str, value: Any, least: float = 0) -> float:
    good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not good or value < least:
        raise InputError(f"{name} is {value!r}; it is a number, {least:g} or more")
    return float(value)


def _share(name: str, value: Any) -> float:
    if not 0 < _positive(name, value) <= 1:
        raise InputError(f"{name} is {value}; it is above 0, and at most 1")
    return float(value)


def _frames(name: str, milliseconds: Any) -> int:
    return round(_positive(name, milliseconds) / 1000 * (RATE / HOP))


def _key(name: str, hertz: Any, usual: int) -> int:
    """Return the key of a frequency, within the piano's keys; None gives the default key."""
    if hertz is None:
        return usual
    if not _positive(name, hertz) > 0:
        raise InputError(f"{name} is {hertz}; it is above 0, in Hz")
    return min(max(key_of(hertz), 0), KEYS)

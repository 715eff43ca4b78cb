"""Notes from a music model's maps of pitches over time: their starts, lengths and bends.

The rules and their numbers come from basic-pitch. Maps are (frames, keys) of values from 0 to 1;
the keys are the 88 of a piano, from A0 (MIDI's 21) up.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray

RATE, HOP = 22_050, 256  # samples per second, and per frame
KEYS, LOWEST = 88, 21  # keys of a piano; the first key's MIDI number
BINS = 3  # bins of a contour per key
WINDOW = 43_844  # samples per call
FRAMES = 172  # per call
_QUIET = 11  # frames below the threshold that end a note
_NEAR = 25  # bins on each side of a note that its bends may reach
_SPREAD = 5.0  # standard deviation of the weights of those bins
_RISES = 2  # frames to look back for a rise
# Seconds by which frames run ahead of the sound with each call of the model: the frames beyond the
# samples, and an offset that the model's authors measured.
_AHEAD = HOP / RATE * (FRAMES - WINDOW / HOP) + 0.0018
_NAMES = ("C", "C#", "D", "D#", "E", "F", "F#", "G", "G#", "A", "A#", "B")


@dataclass(frozen=True)
class NoteRules:
    """Bounds of notes.

    onset      a peak of the onsets of at least this height starts a note
    frame      a note lasts while its key is at least as likely
    shortest   frames; notes have more
    keys       the first key, and the key after the last
    melodia    looks for notes without an onset, too
    """

    onset: float
    frame: float
    shortest: int
    keys: tuple[int, int] = (0, KEYS)
    melodia: bool = True


@dataclass(frozen=True)
class FoundNote:
    """A note: its first frame, and the frame after its last."""

    start: int
    end: int
    key: int
    amplitude: float


def key_of(hertz: float) -> int:
    """Return the nearest key of a frequency, which may be outside of the piano."""
    return round(12 * float(np.log2(hertz / 440)) + 69) - LOWEST


def name_of(pitch: int) -> str:
    """Return the name of a MIDI number, for example A4 for 69."""
    return f"{_NAMES[pitch % 12]}{pitch // 12 - 1}"


def times_of(frames: int) -> Array:
    """Return the seconds at which frames begin, (frames,)."""
    places = np.arange(frames)
    times: Array = places * HOP / RATE - _AHEAD * (places // FRAMES)
    return times


def find_notes(frames: Array, onsets: Array, rules: NoteRules) -> list[FoundNote]:
    """Find the notes of maps (frames, keys), in the order of their starts.

    frames   how likely each key sounds
    onsets   how likely each key is struck
    """
    low, high = rules.keys
    if len(frames) == 0 or low >= high:
        return []
    outside = np.ones(KEYS, bool)
    outside[low:high] = False
    frames, onsets = (np.where(outside, 0, one) for one in (frames, onsets))
    energy = frames.astype(np.float64)  # energy of keys without a note so far
    found = list(_struck_notes(frames, with_rises(onsets, frames), energy, rules))
    if rules.melodia:
        found += _other_notes(frames, energy, rules)
    return sorted(found, key=lambda note: (note.start, note.key))


def with_rises(onsets: Array, frames: Array) -> Array:
    """Return onsets (frames, keys), raised to a key's rise in likelihood over both of the two
    frames before; the steepest rise counts as much as the highest onset.
    """
    rises = np.full(frames.shape, np.inf)
    for back in range(1, _RISES + 1):
        before = np.concatenate([np.zeros((back, frames.shape[1])), frames])[:-back]
        rises = np.minimum(rises, frames - before)
    rises = np.maximum(rises, 0)
    rises[:_RISES] = 0
    top = rises.max(initial=0)
    wanted: Array = np.maximum(onsets, onsets.max() * rises / top) if top > 0 else onsets
    return wanted


def find_bends(contours: Array, note: FoundNote) -> list[int]:
    """Return the distance of a note from its key in each frame, in thirds of a semitone.

    contours   how likely each third of a semitone sounds, (frames, 264)
    """
    center = BINS * note.key
    low, high = max(center - _NEAR, 0), min(center + _NEAR + 1, BINS * KEYS)
    weights = np.exp(-0.5 * ((np.arange(low, high) - center) / _SPREAD) ** 2)
    places = (contours[note.start : note.end, low:high] * weights).argmax(1) + low - center
    bends: list[int] = places.tolist()
    return bends


def _struck_notes(
    frames: Array, onsets: Array, energy: Array, rules: NoteRules
) -> Iterable[FoundNote]:
    """Yield the notes that begin at onset peaks, the last first; clear their energy."""
    peaks = np.zeros(onsets.shape, bool)
    inner = onsets[1:-1]
    peaks[1:-1] = (inner > onsets[:-2]) & (inner > onsets[2:]) & (inner >= rules.onset)
    count = len(frames)
    for start, key in np.argwhere(peaks)[::-1].tolist():
        lasts, _ = _reach(energy, range(start + 1, count - 1), key, rules.frame)
        end = start + 1 + lasts
        if end - start > rules.shortest:
            _take(energy, start, end, key)
            yield _note(frames, start, end, key)


def _other_notes(frames: Array, energy: Array, rules: NoteRules) -> Iterable[FoundNote]:
    """Yield notes at remaining peaks, and clear their energy."""
    count = len(frames)
    tops = energy.max(1)  # per frame, so that the whole map is not searched again for each note
    while True:
        middle = int(tops.argmax())
        if not tops[middle] > rules.frame:
            return
        key = int(energy[middle].argmax())
        energy[middle, key] = 0
        after, ahead = _reach(energy, range(middle + 1, count - 1), key, rules.frame)
        before, behind = _reach(energy, range(middle - 1, 0, -1), key, rules.frame)
        _take(energy, middle + 1, middle + 1 + ahead, key)
        _take(energy, middle - behind, middle, key)
        changed = slice(middle - behind, middle + 1 + ahead)
        tops[changed] = energy[changed].max(1)
        start, end = middle - before, middle + after
        if end - start > rules.shortest:
            yield _note(frames, start, end, key)


def _reach(energy: Array, places: range, key: int, threshold: float) -> tuple[int, int]:
    """Return how many of these frames a note lasts, and how many frames were examined."""
    quiet = looked = 0
    for place in places:
        looked += 1
        quiet = quiet + 1 if energy[place, key] < threshold else 0
        if quiet == _QUIET:
            break
    return looked - quiet, looked


def _take(energy: Array, start: int, end: int, key: int) -> None:
    energy[start:end, max(key - 1, 0) : key + 2] = 0


def _note(frames: Array, start: int, end: int, key: int) -> FoundNote:
    return FoundNote(start, end, key, float(np.mean(frames[start:end, key])))


def told(note: FoundNote, times: Array, contours: Array) -> dict[str, Any]:
    """Return a note as a dict of the task's results; `times` are the frames' times."""
    return {
        "start": float(times[note.start]),
        "end": float(times[note.end]),
        "pitch": note.key + LOWEST,
        "name": name_of(note.key + LOWEST),
        "amplitude": note.amplitude,
        "pitch_bends": find_bends(contours, note),
    }
